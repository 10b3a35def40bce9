// Sums over the ranks of a group, by kernels that go on with what they have added up.
//
// Each rank sends its elements to all others in lines of 16 bytes, of which 8 say that they have come: whoever waits
// for a line waits for nothing else, and reads it in memory of its own device. All ranks add in the order of the ranks,
// in f32, and so get the same bits. Ranks run the same kernels in the same order, on grids alike, whose blocks are all
// there at once or begin in order.
//
// Lines lie in one of two places in turns (`epoch`): a rank that sends in one epoch has run all of the kernel before,
// and so has lines of that epoch from every rank, each of which had read all of the epoch before.
//
// A rank may be at another sum: at one of other sizes, or at another place of the program. Lines say which sum they are
// of, so that nobody adds up what is not of its own, and behind all lines each rank has one, its notice, that says it
// in words. Whoever has waited for a while looks there, and need not wait for the timeout.
#pragma once
#include "memory.cuh"

// @piece peer_sums
// The runtime fills it (runtime/cuda/groups/peer_sums.h: PeerTable). Where ranks share no memory it holds zeros, and
// what kernels read is the sum already.
struct c_peer_table {
  c_line* lines[8];  // of each rank, as this one sees them
  u64* failure;      // how a sum failed (runtime/cuda/groups/peer_sums.h: PeerFailure)
  u64 timeout;       // nanoseconds
  u32 rank, ranks, epoch, ticket, broken;
  u32 most;  // bytes of an operand that ranks send; a larger one is the sum already
};
constexpr i64 c_lines_of_rank = (256 << 10) / 8;

// The turn of this kernel among those that send, and whether it does. The last block that has read the epoch begins the
// next one.
struct c_sum_turn {
  c_peer_table* table;
  u32 epoch, ticket;
  bool sends;
  C_METHOD c_sum_turn(i64* at, i64 bytes)
      : table((c_peer_table*)at), epoch(0), ticket(0), sends(bytes <= (i64)table->most) {
    if (!sends) return;
    epoch = *(volatile const u32*)&table->epoch + 1;
    c_sync();
    if (threadIdx.x != 0) return;
    c_fence();
    ticket = (u32)c_count((c_counter*)&table->ticket);
  }
  C_METHOD void settle() const {
    if (!sends || threadIdx.x != 0 || ticket + 1 != c_blocks()) return;
    *(volatile u32*)&table->ticket = 0;
    *(volatile u32*)&table->epoch = epoch;
  }
};

// A sum: how many elements, and where its operand lies before the table, in words of 8 bytes, as on every rank.
struct c_sum_id {
  u32 count, place;
  // What lines of it say beside the epoch.
  C_METHOD u32 mark(u32 epoch) const { return epoch + count * 0x9e3779b1u + place * 0x85ebca6bu; }
};
// Where the notice of a rank lies among another's lines.
C_FN c_line* c_notice(c_line* lines, u32 epoch, u32 from) {
  return lines + 2 * 8 * c_lines_of_rank + (epoch & 1) * 8 + from;
}

// Whether to wait any longer for a rank.
C_LARGE_FN bool c_may_wait(c_peer_table* table, c_sum_id sum, u32 epoch, u32 rank, u32 looks, u64& since) {
  if (looks % 1024 != 0) return true;
  if (*(volatile u32*)&table->broken) return false;
  const c_line told = c_get_line(c_notice(table->lines[table->rank], epoch, rank));
  const bool is_told = told.first == epoch && told.second == epoch;
  const bool is_other = is_told && (told.low != sum.count || told.high != sum.place);
  const u64 t = c_nanoseconds();
  if (since == 0) since = t;
  if (!is_other && t - since < table->timeout) return true;
  *(volatile u32*)&table->broken = 1;
  const u64 counts = (u64)told.low << 16 | (u64)sum.count << 40;
  *(volatile u64*)table->failure = (is_other ? counts | 256 : 0) | (1 + rank);
  return false;
}

#define C_SUM_OF(t, E)                                    \
  struct c_of_##t {                                       \
    typedef E element;                                    \
    static C_METHOD f32 get(E x) { return c_get_##t(x); } \
    static C_METHOD E put(f32 x) { return c_put_##t(x); } \
  };
C_SUM_OF(f32, f32)
C_SUM_OF(f16, u16)
C_SUM_OF(bf16, u16)

template <class D> struct c_peer_sum_at;
// What stands for the pointer to the operand.
template <class D> struct c_peer_sum {
  typedef typename D::element E;
  const E* own;
  c_peer_table* table;
  u32 epoch, rank, ranks;
  c_sum_id id;
  C_METHOD c_peer_sum(const E* p, const c_sum_turn& turn, u32 count) : own(p), table(turn.table), epoch(turn.epoch) {
    rank = turn.sends ? table->rank : 0, ranks = turn.sends ? table->ranks : 1;
    id.count = count, id.place = (u32)(((const char*)table - (const char*)p) >> 3);
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) give_notice();
  }
  C_METHOD void give_notice() const {
    for (u32 r = 0; r < ranks; ++r)
      if (r != rank) c_put_line(c_notice(table->lines[r], epoch, rank), id.count, epoch, id.place, epoch);
  }
  C_METHOD c_line* lines(u32 to, u32 from) const {
    return table->lines[to] + ((epoch & 1) * 8 + from) * c_lines_of_rank;
  }
  // N lines from `line` on, of these words.
  template <int N> C_METHOD void send(i64 line, const u32 (&w)[2 * N]) const {
#pragma unroll 1
    for (u32 r = 0; r < ranks; ++r) {
      if (r == rank) continue;
      c_line* const to = lines(r, rank) + line;
#pragma unroll
      for (int k = 0; k < N; ++k) c_put_line(to + k, w[2 * k], epoch, w[2 * k + 1], id.mark(epoch));
    }
  }
  template <int N> C_METHOD void come(u32 from, i64 line, u32 (&w)[2 * N]) const {
    const c_line* const at = lines(rank, from) + line;
    const u32 mark = id.mark(epoch);
    u64 since = 0;
    u32 looks = 0;
    for (bool whole = false; !whole;) {
      whole = true;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const c_line l = c_get_line(at + k);
        w[2 * k] = l.low, w[2 * k + 1] = l.high;
        whole = whole && l.first == epoch && l.second == mark;
      }
      if (!whole && !c_may_wait(table, id, epoch, from, ++looks, since)) return;
    }
  }
  // Own words become those of the sums.
  template <int N> C_METHOD void receive(i64 line, u32 (&w)[2 * N]) const {
    if (ranks < 2) return;
    constexpr int count = 8 * N / sizeof(E);
    f32 sums[count] = {};
    E e[count];
#pragma unroll 1
    for (u32 r = 0; r < ranks; ++r) {
      u32 came[2 * N];
      memcpy(came, w, sizeof w);
      if (r != rank) come<N>(r, line, came);
      memcpy(e, came, sizeof e);
#pragma unroll
      for (int k = 0; k < count; ++k) sums[k] = r == 0 ? D::get(e[k]) : sums[k] + D::get(e[k]);
    }
#pragma unroll
    for (int k = 0; k < count; ++k) e[k] = D::put(sums[k]);
    memcpy(w, e, sizeof w);
  }
  C_METHOD c_peer_sum_at<D> operator+(i64 at) const { return c_peer_sum_at<D>{*this, at}; }
  C_METHOD E operator[](i64 at) const { return one(at); }
  // An element, with the others of its line.
  C_METHOD E one(i64 at) const {
    constexpr i64 count = 8 / sizeof(E);
    const i64 line = at / count;
    u32 w[2];
    memcpy(w, own + line * count, sizeof w);
    send<1>(line, w);
    receive<1>(line, w);
    const u32 shift = (u32)(at % count * sizeof(E) % 4 * 8), word = at % count * sizeof(E) < 4 ? w[0] : w[1];
    const u32 bits = word >> shift;
    E x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }
};
template <class D> struct c_peer_sum_at {
  const c_peer_sum<D>& sum;
  i64 at;
};

// V elements, in two halves: what the others are given, and what comes of it.
template <int V, class D> C_FN c_pack<typename D::element, V> c_send(const c_peer_sum_at<D>& p) {
  typedef typename D::element E;
  const c_pack<E, V> own = c_read<V>(p.sum.own + p.at);
  constexpr int N = sizeof own / 8;
  if constexpr (N > 0) {
    u32 w[2 * N];
    memcpy(w, &own, sizeof own);
    p.sum.template send<N>(p.at / (i64)(8 / sizeof(E)), w);
  }
  return own;
}
template <int V, class D>
C_FN c_pack<typename D::element, V> c_receive(const c_peer_sum_at<D>& p, const c_pack<typename D::element, V>& own) {
  typedef typename D::element E;
  constexpr int N = sizeof own / 8;
  c_pack<E, V> x = own;
  if constexpr (N > 0) {
    u32 w[2 * N];
    memcpy(w, &own, sizeof own);
    p.sum.template receive<N>(p.at / (i64)(8 / sizeof(E)), w);
    memcpy(&x, w, sizeof x);
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k) x.e[k] = p.sum.one(p.at + k);
  }
  return x;
}
template <int V, class D> C_FN c_pack<typename D::element, V> c_read(const c_peer_sum_at<D>& p) {
  return c_receive<V>(p, c_send<V>(p));
}
template <int V, class D> C_FN c_pack<typename D::element, V> c_read_part(const c_peer_sum_at<D>& p, i64 rest) {
  if (rest >= V) return c_read<V>(p);
  c_pack<typename D::element, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) r.e[k] = p.sum.one(p.at + (k < rest ? k : 0));
  return r;
}
