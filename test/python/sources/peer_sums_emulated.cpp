// The kernels of src/runtime/cuda/groups/peer_sums.cu with a thread of the host for each of theirs: sums of two to
// eight ranks, calls of all kinds in a row, and a rank that does not come. Prints what is wrong.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#define COIL_EMULATED
#define __device__
#define __global__
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(n)

struct Index {
  unsigned x = 0;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
thread_local Index threadIdx, blockIdx, blockDim, gridDim;

/// What the threads of a block share.
struct Block {
  explicit Block(unsigned threads) : barrier(threads) {}
  std::barrier<> barrier;
  std::atomic<int> any{0};
};
thread_local Block* block;
inline void __syncthreads() { block->barrier.arrive_and_wait(); }
inline int __syncthreads_or(int v) {
  if (v) block->any = 1;
  block->barrier.arrive_and_wait();
  const int all = block->any;
  block->barrier.arrive_and_wait();
  return all;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { __threadfence(); }
inline unsigned atomicAdd(unsigned* at, unsigned v) { return __atomic_fetch_add(at, v, __ATOMIC_SEQ_CST); }
inline float __uint_as_float(unsigned u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline unsigned __float_as_uint(float f) {
  unsigned u;
  std::memcpy(&u, &f, 4);
  return u;
}

struct Line;
inline unsigned long long now() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline unsigned look(const unsigned* at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
inline void put_line(Line* to, Line line);
inline Line get_line(const Line* at);
inline void put_signal(unsigned* to, unsigned turn) { __atomic_store_n(to, turn, __ATOMIC_RELEASE); }
inline unsigned get_signal(const unsigned* at) {
  std::this_thread::yield();
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline uint4 get_vector(const char* at) {
  uint4 v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
inline float from_half(unsigned short bits) {
  _Float16 h;
  std::memcpy(&h, &bits, 2);
  return h;
}
inline unsigned short to_half(float f) {
  const auto h = static_cast<_Float16>(f);
  unsigned short bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}

#include "peer_sums.cu"

inline void put_line(Line* to, Line line) {
  auto* half = reinterpret_cast<u64*>(to);
  __atomic_store_n(half, line.low | static_cast<u64>(line.first) << 32, __ATOMIC_RELEASE);
  __atomic_store_n(half + 1, line.high | static_cast<u64>(line.second) << 32, __ATOMIC_RELEASE);
}
inline Line get_line(const Line* at) {
  std::this_thread::yield();
  const auto* half = reinterpret_cast<const u64*>(at);
  const u64 a = __atomic_load_n(half, __ATOMIC_ACQUIRE), b = __atomic_load_n(half + 1, __ATOMIC_ACQUIRE);
  return {static_cast<u32>(a), static_cast<u32>(a >> 32), static_cast<u32>(b), static_cast<u32>(b >> 32)};
}

namespace {

constexpr u64 kBytes = 4096;
constexpr unsigned kThreads = 8;
int wrong = 0;

void run(unsigned blocks, const std::function<void()>& kernel) {
  std::vector<std::unique_ptr<Block>> shared;
  std::vector<std::thread> threads;
  for (unsigned b = 0; b < blocks; ++b) shared.push_back(std::make_unique<Block>(kThreads));
  for (unsigned b = 0; b < blocks; ++b)
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back([&, b, t] {
        threadIdx.x = t, blockIdx.x = b, blockDim.x = kThreads, gridDim.x = blocks, block = shared[b].get();
        kernel();
      });
  for (std::thread& t : threads) t.join();
}

struct Machine {
  explicit Machine(int count, u64 timeout) : failures(static_cast<std::size_t>(count)) {
    const std::size_t words = (kBytes + kControlBytes + 2 * kRanks * kLines * sizeof(Line)) / sizeof(uint4);
    for (int r = 0; r < count; ++r) memory.push_back(std::make_unique<uint4[]>(words));
    for (int r = 0; r < count; ++r) {
      Peers p{};
      for (int q = 0; q < count; ++q) p.base[q] = reinterpret_cast<char*>(memory[static_cast<std::size_t>(q)].get());
      p.control = kBytes, p.failure = &failures[static_cast<std::size_t>(r)], p.timeout = timeout;
      p.rank = r, p.ranks = count;
      peers.push_back(p);
    }
  }
  std::vector<std::unique_ptr<uint4[]>> memory;
  std::vector<u64> failures;
  std::vector<Peers> peers;
};

template <class T>
T value_of(double v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return narrow<T, float>(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<u8>(v > 4)};
  else
    return static_cast<T>(v);
}

enum Kind { kSend, kRead, kShare };

template <class T>
void check(Machine& m, Kind kind, u64 offset, u64 count, unsigned blocks, std::mt19937& random, const char* type) {
  const std::size_t ranks = m.peers.size();
  std::vector<std::vector<T>> in(ranks), out(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (u64 i = 0; i < count; ++i) in[r].push_back(value_of<T>(random() % 9));
    out[r].assign(count + 4, value_of<T>(0));
    std::memcpy(m.peers[r].base[r] + offset, in[r].data(), count * sizeof(T));
  }
  std::vector<std::thread> hosts;
  for (std::size_t r = 0; r < ranks; ++r)
    hosts.emplace_back([&, r] {
      const Peers& p = m.peers[r];
      auto* to = reinterpret_cast<char*>(out[r].data());
      run(blocks, [&] {
        if (kind == kSend) send_sum<T>(p, p.base[r] + offset, to, count * sizeof(T));
        if (kind == kRead) read_sum<T>(p, offset, to, count * sizeof(T));
        if (kind == kShare) share_sum<T>(p, offset, to, count * sizeof(T));
      });
    });
  for (std::thread& t : hosts) t.join();
  for (u64 i = 0; i < count + 4; ++i) {
    typename Added<T>::type sum = i < count ? widen(in[0][i]) : widen(value_of<T>(0));
    for (std::size_t r = 1; r < ranks && i < count; ++r) sum = plus<T>(sum, widen(in[r][i]));
    const T want = narrow<T, typename Added<T>::type>(sum);
    for (std::size_t r = 0; r < ranks; ++r)
      if (std::memcmp(&out[r][i], &want, sizeof want) != 0 && ++wrong < 10)
        std::printf("%s, kind %d, %zu ranks, %llu elements at %llu: element %llu of rank %zu\n", type, kind, ranks,
                    count, offset, i, r);
  }
}

template <class T>
void check_all(Machine& m, std::mt19937& random, const char* type) {
  for (u64 count : {1, 3, 17, 150})
    for (Kind kind : {kSend, kRead, kShare}) {
      const u64 offset = kind == kShare ? 256 : 256 + random() % 5 * sizeof(T);
      check<T>(m, kind, offset, count, 1 + random() % 2, random, type);
    }
}

void check_absent() {
  Machine m(2, 50'000'000);
  for (Kind kind : {kSend, kRead, kShare}) {
    float out[8];
    const Peers& p = m.peers[0];
    run(1, [&] {
      if (kind == kSend) send_sum<float>(p, p.base[0], reinterpret_cast<char*>(out), sizeof out);
      if (kind == kRead) read_sum<float>(p, 0, reinterpret_cast<char*>(out), sizeof out);
      if (kind == kShare) share_sum<float>(p, 0, reinterpret_cast<char*>(out), sizeof out);
    });
    const u64 told = kind == kSend ? 2 : 0;  // later kernels leave at once, and tell nothing new
    if (m.failures[0] != told && ++wrong) std::printf("kind %d: rank 1 does not come: %llu\n", kind, m.failures[0]);
    m.failures[0] = 0;
  }
}

}  // namespace

int main() {
  std::mt19937 random(7);
  for (int ranks : {2, 3, 8}) {
    Machine m(ranks, 60'000'000'000);
    check_all<float>(m, random, "f32");
    check_all<F16>(m, random, "f16");
    if (ranks > 3) continue;
    check_all<double>(m, random, "f64");
    check_all<BF16>(m, random, "bf16");
    check_all<Bool>(m, random, "bool");
    check_all<u8>(m, random, "u8");
    check_all<u32>(m, random, "u32");
    check_all<u64>(m, random, "u64");
    for (u64 failure : m.failures) wrong += failure != 0;
  }
  check_absent();
  return wrong != 0;
}
