// Sums over the ranks of a group, each a kernel on every rank, over memory that all of them map. All ranks add in the
// order of the ranks, 16-bit floats in f32, and so get the same bits.
//
// Behind what lies in an allocation comes its control memory (Control), zero before the first call. Ranks run the same
// kernels in the same order, with as many blocks; kernels of one allocation never overlap on a device.
//
// A rank that does not come within the time is written to `failure`, and all later kernels of this allocation do
// nothing. tools/compile_peer_sums.py makes peer_sums.ptx of this file.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int kRanks = 8, kBlocks = 128;
/// Lines of 8 bytes that a rank may send in one call of `send_sum`.
constexpr u64 kLines = (256 << 10) / 8;

struct Control {
  u32 epoch, ticket, broken, unused;
  u32 turns[kBlocks];            // barriers that a block has come to
  u32 signals[kBlocks][kRanks];  // how far each rank's block is
};

/// Lines that ranks send come behind it: for each of two epochs, for each rank.
constexpr u64 kControlBytes = 8192;
static_assert(sizeof(Control) <= kControlBytes, "lines begin behind it");

struct Line {
  u32 low, first, high, second;
};

struct Peers {
  char* base[kRanks];
  u64 control;  // where control memory begins in each allocation
  u64* failure;
  u64 timeout;  // nanoseconds
  int rank, ranks;
};

#ifndef COIL_EMULATED  // test/python/sources/peer_sums_emulated.cpp brings these
__device__ inline u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ inline u32 look(const u32* at) { return *reinterpret_cast<const volatile u32*>(at); }
// Halves of a line, eight bytes each, are whole wherever they are seen.
__device__ inline void put_line(Line* to, Line line) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(line.low), "r"(line.first),
               "r"(line.high), "r"(line.second)
               : "memory");
}
__device__ inline Line get_line(const Line* at) {
  Line line;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(line.low), "=r"(line.first), "=r"(line.high), "=r"(line.second)
               : "l"(at)
               : "memory");
  return line;
}
__device__ inline void put_signal(u32* to, u32 turn) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(turn) : "memory");
}
__device__ inline u32 get_signal(const u32* at) {
  u32 turn;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(turn) : "l"(at) : "memory");
  return turn;
}
/// Never read through a cache of constants, and never moved before a barrier.
__device__ inline uint4 get_vector(const char* at) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline float from_half(u16 bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}
__device__ inline u16 to_half(float f) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
}
#endif

__device__ inline Control* control_of(const Peers& p, int rank) {
  return reinterpret_cast<Control*>(p.base[rank] + p.control);
}
__device__ inline Line* lines_of(const Peers& p, int rank) {
  return reinterpret_cast<Line*>(p.base[rank] + p.control + kControlBytes);
}

/// Whether to wait any longer for a rank.
__device__ inline bool may_wait(const Peers& p, int rank, u32& looks, u64& since) {
  if (++looks % 1024 != 0) return true;
  if (look(&control_of(p, p.rank)->broken)) return false;
  const u64 t = now();
  if (since == 0) since = t;
  if (t - since < p.timeout) return true;
  *reinterpret_cast<volatile u32*>(&control_of(p, p.rank)->broken) = 1;
  *reinterpret_cast<volatile u64*>(p.failure) = 1 + rank;
  __threadfence_system();
  return false;
}

struct F16 {
  u16 bits;
};
struct BF16 {
  u16 bits;
};
struct Bool {
  u8 bits;
};
/// What elements are added as.
template <class T>
struct Added {
  typedef T type;
};
template <>
struct Added<F16> {
  typedef float type;
};
template <>
struct Added<BF16> {
  typedef float type;
};
template <>
struct Added<Bool> {
  typedef u8 type;
};
template <class T>
__device__ inline T widen(T v) {
  return v;
}
__device__ inline float widen(F16 v) { return from_half(v.bits); }
__device__ inline float widen(BF16 v) { return __uint_as_float(static_cast<u32>(v.bits) << 16); }
__device__ inline u8 widen(Bool v) { return v.bits; }
template <class T, class A>
__device__ inline T narrow(A v) {
  return static_cast<T>(v);
}
template <>
__device__ inline F16 narrow<F16, float>(float f) {
  F16 v;
  v.bits = to_half(f);
  return v;
}
template <>
__device__ inline BF16 narrow<BF16, float>(float f) {
  const u32 u = __float_as_uint(f);
  BF16 v;
  v.bits = f != f ? 0x7fff : static_cast<u16>((u + 0x7fff + (u >> 16 & 1)) >> 16);
  return v;
}
template <>
__device__ inline Bool narrow<Bool, u8>(u8 b) {
  Bool v;
  v.bits = b;
  return v;
}
template <class T, class A>
__device__ inline A plus(A a, A b) {
  return a + b;
}
template <>
__device__ inline u8 plus<Bool, u8>(u8 a, u8 b) {
  return a | b;
}

/// Sums of `W` words of memory.
template <class T, int W>
struct Sum {
  static constexpr int kCount = W * 4 / sizeof(T);
  typedef typename Added<T>::type A;
  union Words {
    u32 words[W];
    T values[kCount];
  };
  A sums[kCount];
  bool any;
  __device__ Sum() : any(false) {}
  __device__ void add(const u32* words) {
    Words w;
#pragma unroll
    for (int i = 0; i < W; ++i) w.words[i] = words[i];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const A v = widen(w.values[i]);
      sums[i] = any ? plus<T, A>(sums[i], v) : v;
    }
    any = true;
  }
  __device__ void get(u32* words) const {
    Words w;
#pragma unroll
    for (int i = 0; i < kCount; ++i) w.values[i] = narrow<T, A>(sums[i]);
#pragma unroll
    for (int i = 0; i < W; ++i) words[i] = w.words[i];
  }
};

/// Up to 16 bytes one by one: at the end of an operand, and where it begins between vectors.
__device__ __noinline__ uint4 load_bytes(const char* at, u32 count) {
  u32 words[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (u32 i = 0; i < count; ++i)
    words[i / 4] |= static_cast<u32>(reinterpret_cast<const volatile u8*>(at)[i]) << (i % 4 * 8);
  return make_uint4(words[0], words[1], words[2], words[3]);
}
__device__ __noinline__ void store_bytes(char* at, u32 count, uint4 v) {
  const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll 1
  for (u32 i = 0; i < count; ++i) reinterpret_cast<u8*>(at)[i] = static_cast<u8>(words[i / 4] >> (i % 4 * 8));
}

/// `W` words at `at`, of which `left` bytes are there.
template <int W>
__device__ inline void load(const char* at, u64 left, u32* words) {
  uint4 v;
  if (left < W * 4 || (reinterpret_cast<u64>(at) & (W * 4 - 1)) != 0)
    v = load_bytes(at, left < W * 4 ? left : W * 4);
  else if (W == 4)
    v = get_vector(at);
  else
    v = make_uint4(reinterpret_cast<const volatile u32*>(at)[0], reinterpret_cast<const volatile u32*>(at)[1], 0, 0);
  words[0] = v.x, words[1] = v.y;
  if (W == 4) words[W - 2] = v.z, words[W - 1] = v.w;
}

/// The same the other way round.
template <int W>
__device__ inline void store(char* at, u64 left, const u32* words) {
  const uint4 v = make_uint4(words[0], words[1], words[W - 2], words[W - 1]);
  if (left < W * 4 || (reinterpret_cast<u64>(at) & (W * 4 - 1)) != 0)
    store_bytes(at, left < W * 4 ? left : W * 4, v);
  else if (W == 4)
    *reinterpret_cast<uint4*>(at) = v;
  else
    *reinterpret_cast<uint2*>(at) = make_uint2(v.x, v.y);
}

/// A line that a rank has sent in this epoch; false where it does not come.
__device__ inline bool receive(const Peers& p, int rank, const Line* line, u32 epoch, u32* words) {
  u32 looks = 0;
  u64 since = 0;
  for (;;) {
    const Line l = get_line(line);
    words[0] = l.low, words[1] = l.high;
    if (l.first == epoch && l.second == epoch) return true;
    if (!may_wait(p, rank, looks, since)) return false;
  }
}

/// Each rank sends its operand to all others, in lines that tell themselves that they have come, so that nobody waits
/// for anything else. Lines lie in one of two places in turns: whoever sends in one epoch has received all of the last,
/// and so knows that the epoch before is over everywhere.
template <class T>
__device__ inline void send_sum(const Peers& p, const char* in, char* out, u64 bytes) {
  Control* mine = control_of(p, p.rank);
  const u32 epoch = look(&mine->epoch) + 1;
  const bool broken = look(&mine->broken) != 0;
  const u64 place = (epoch & 1) * kRanks, lines = (bytes + 7) / 8, step = static_cast<u64>(gridDim.x) * blockDim.x,
            begin = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (u64 i = begin; i < lines && !broken; i += step) {
    u32 own[2];
    load<2>(in + i * 8, bytes - i * 8, own);
#pragma unroll 1
    for (int r = 0; r < p.ranks; ++r) {
      if (r == p.rank) continue;
      put_line(lines_of(p, r) + (place + p.rank) * kLines + i, {own[0], epoch, own[1], epoch});
    }
  }
  bool whole = !broken;
#pragma unroll 1
  for (u64 i = begin; i < lines && whole; i += step) {
    Sum<T, 2> sum;
#pragma unroll 1
    for (int r = 0; r < p.ranks && whole; ++r) {
      u32 words[2];
      if (r == p.rank)
        load<2>(in + i * 8, bytes - i * 8, words);
      else
        whole = receive(p, r, lines_of(p, p.rank) + (place + r) * kLines + i, epoch, words);
      sum.add(words);
    }
    u32 words[2];
    sum.get(words);
    if (whole) store<2>(out + i * 8, bytes - i * 8, words);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&mine->ticket, 1) + 1 < gridDim.x) return;
  mine->ticket = 0;
  mine->epoch = epoch;
}

/// Barriers of one block with the same block of the other ranks.
struct Barrier {
  const Peers& p;
  Control* mine;
  u32 turn;
  bool broken;
  __device__ explicit Barrier(const Peers& peers)
      : p(peers),
        mine(control_of(peers, peers.rank)),
        turn(look(&mine->turns[blockIdx.x])),
        broken(look(&mine->broken) != 0) {}

  /// What any rank wrote before can be read behind it. False where a rank does not come.
  __device__ bool meet() {
    ++turn;
    __syncthreads();
    const int r = threadIdx.x;
    if (r < p.ranks && r != p.rank && !broken) {
      put_signal(&control_of(p, r)->signals[blockIdx.x][p.rank], turn);
      const u32* ours = &mine->signals[blockIdx.x][r];
      u32 looks = 0;
      u64 since = 0;
      for (;;) {
        if (static_cast<int>(get_signal(ours) - turn) >= 0) break;
        if (!may_wait(p, r, looks, since)) {
          broken = true;
          break;
        }
      }
    }
    broken = __syncthreads_or(broken);
    return !broken;
  }
  __device__ void end() {
    if (threadIdx.x == 0) mine->turns[blockIdx.x] = turn;
  }
};

/// Σ of one vector over the ranks.
template <class T>
__device__ inline void sum_at(const Peers& p, u64 at, u64 left, u32* words) {
  Sum<T, 4> sum;
  if (left < 16 || at % 16 != 0) {
#pragma unroll 1
    for (int r = 0; r < p.ranks; ++r) {
      load<4>(p.base[r] + at, left, words);
      sum.add(words);
    }
    return sum.get(words);
  }
  uint4 came[kRanks];
#pragma unroll
  for (int r = 0; r < kRanks; ++r)
    if (r < p.ranks) came[r] = get_vector(p.base[r] + at);
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    if (r >= p.ranks) break;
    words[0] = came[r].x, words[1] = came[r].y, words[2] = came[r].z, words[3] = came[r].w;
    sum.add(words);
  }
  sum.get(words);
}

/// Each rank reads the operands of all where they lie.
template <class T>
__device__ inline void read_sum(const Peers& p, u64 offset, char* out, u64 bytes) {
  Barrier barrier(p);
  if (barrier.meet()) {
    const u64 vectors = (bytes + 15) / 16, step = static_cast<u64>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += step) {
      u32 words[4];
      sum_at<T>(p, offset + i * 16, bytes - i * 16, words);
      store<4>(out + i * 16, bytes - i * 16, words);
    }
    barrier.meet();
  }
  barrier.end();
}

/// Each rank adds up its share, over its own operand, and reads the other shares' sums from their ranks. A block reads
/// what the same block of the other ranks has added up, so that no barrier of the whole grid is needed.
template <class T>
__device__ inline void share_sum(const Peers& p, u64 offset, char* out, u64 bytes) {
  const u64 vectors = (bytes + 15) / 16, share = (vectors + p.ranks - 1) / p.ranks,
            step = static_cast<u64>(gridDim.x) * blockDim.x,
            begin = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  Barrier barrier(p);
  if (barrier.meet()) {
    const u64 first = p.rank * share;
#pragma unroll 1
    for (u64 i = begin; i < share && first + i < vectors; i += step) {
      const u64 at = (first + i) * 16;
      u32 words[4];
      sum_at<T>(p, offset + at, bytes - at, words);
      store<4>(p.base[p.rank] + offset + at, bytes - at, words);
      store<4>(out + at, bytes - at, words);
    }
    if (barrier.meet()) {
#pragma unroll 1
      for (u64 i = begin; i < share; i += step) {
#pragma unroll 1
        for (int n = 1; n < p.ranks; ++n) {
          const int next = p.rank + n, r = next < p.ranks ? next : next - p.ranks;  // not all from one rank at a time
          const u64 v = r * share + i;
          if (v >= vectors) continue;
          u32 words[4];
          load<4>(p.base[r] + offset + v * 16, bytes - v * 16, words);
          store<4>(out + v * 16, bytes - v * 16, words);
        }
      }
      barrier.meet();
    }
  }
  barrier.end();
}

#define KERNELS(name, T)                                                                                               \
  extern "C" __global__ void coil_send_sum_##name(const __grid_constant__ Peers p, const char* in, char* out,          \
                                                  u64 bytes) {                                                         \
    send_sum<T>(p, in, out, bytes);                                                                                    \
  }                                                                                                                    \
  extern "C" __global__ void coil_read_sum_##name(const __grid_constant__ Peers p, u64 offset, char* out, u64 bytes) { \
    read_sum<T>(p, offset, out, bytes);                                                                                \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(512)                                                                    \
      coil_share_sum_##name(const __grid_constant__ Peers p, u64 offset, char* out, u64 bytes) {                       \
    share_sum<T>(p, offset, out, bytes);                                                                               \
  }
KERNELS(f32, float)
KERNELS(f64, double)
KERNELS(f16, F16)
KERNELS(bf16, BF16)
KERNELS(bool, Bool)
KERNELS(u8, u8)
KERNELS(u32, u32)
KERNELS(u64, u64)
