// The threads of a grid's kernels on a CPU. A block's threads are fibers that take turns; at a barrier each waits for
// the others of its block, or for the first of them, and at an exchange between lanes for those of its warp.
#pragma once

// @piece fibers
#undef _FORTIFY_SOURCE  // whose longjmp takes another stack for a frame that has returned
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>
struct c_dim {
  unsigned x = 0, y = 0, z = 0;
};
static thread_local c_dim c_thread_at, c_block_at;
static thread_local unsigned long c_grid_blocks;

// A block's threads: fibers where the kernel waits anywhere, else plain calls.
struct c_fiber {
  jmp_buf place;
  bool begun = false;
  bool done = false;
  unsigned waits = 0;    // for its warp, since the last barrier
  unsigned barrier = 0;  // how many threads, from the first on, meet where it stands; 0: it is at no barrier
};
constexpr unsigned long c_stack_bytes = 1 << 16;
struct c_block {
  std::vector<c_fiber> fibers;
  std::unique_ptr<char[]> stacks;
  jmp_buf main;
  unsigned now = 0;
  std::vector<unsigned long> slots;
  // Of the matrix unit: operands, and rows that lanes name. (Not variables of a thread: those have destructors, for
  // which the library would stay loaded.)
  std::vector<std::array<float, 6>> matrices;
  std::vector<const unsigned short*> rows;
  std::function<void()> body;
};
static thread_local c_block* c_here = nullptr;
// Goes on elsewhere until somebody goes on here. (swapcontext would ask the system for the signals' mask each time.)
__attribute__((noinline)) static void c_leave(jmp_buf& here, jmp_buf& elsewhere) {
  if (!_setjmp(here)) _longjmp(elsewhere, 1);
}
// A fiber serves one block of the grid after the other.
static void c_enter() {
  c_block* b = c_here;
  for (;;) {
    b->body();
    c_fiber& f = b->fibers[b->now];
    f.done = true;
    c_leave(f.place, b->main);
  }
}
__attribute__((noinline)) static void c_begin_fiber(c_block& block) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = block.stacks.get() + block.now * c_stack_bytes;
  context.uc_stack.ss_size = c_stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, c_enter, 0);
  if (!_setjmp(block.main)) setcontext(&context);
}
// The fiber `now` runs to its next wait.
static void c_resume(c_block& block) {
  c_fiber& f = block.fibers[block.now];
  if (f.begun) return c_leave(block.main, f.place);
  f.begun = true;
  c_begin_fiber(block);
}
// Every live thread of the warp that is at no barrier comes to its next wait before any goes on.
static void c_wait() {
  c_block* b = c_here;
  c_fiber& f = b->fibers[b->now];
  ++f.waits;
  c_leave(f.place, b->main);
}
// The first `count` threads of the block meet, as far as they are live.
static void c_meet(unsigned count) {
  c_block* b = c_here;
  c_fiber& f = b->fibers[b->now];
  f.barrier = count;
  c_leave(f.place, b->main);
}
static void c_meet_all() { c_meet((unsigned)c_here->fibers.size()); }
// The fewest waits of a warp's threads that may go on; ~0 where none may.
static unsigned c_least_waits(const c_block& block, unsigned warp) {
  unsigned least = ~0u;
  for (unsigned t = warp; t < warp + 32 && t < block.fibers.size(); ++t) {
    const c_fiber& f = block.fibers[t];
    if (!f.done && f.barrier == 0) least = std::min(least, f.waits);
  }
  return least;
}
// Lets those go on who have all met at a barrier. False where there are none.
static bool c_let_go(c_block& block) {
  for (const c_fiber& first : block.fibers) {
    const unsigned count = first.done ? 0 : first.barrier;
    if (count == 0) continue;
    bool all = true;
    for (unsigned t = 0; t < count; ++t) all = all && (block.fibers[t].done || block.fibers[t].barrier == count);
    if (!all) continue;
    for (unsigned t = 0; t < count; ++t) block.fibers[t].barrier = block.fibers[t].waits = 0;
    return true;
  }
  return false;
}
// Runs the block's threads to their ends. `at` tells them who they are.
template <class At> static void c_run_fibers(c_block& block, const At& at) {
  for (c_fiber& f : block.fibers) f.done = false, f.waits = f.barrier = 0;
  for (bool live = true; live;) {
    bool ran = false;
    for (unsigned warp = 0; warp < block.fibers.size(); warp += 32) {
      const unsigned least = c_least_waits(block, warp);
      for (unsigned t = warp; t < warp + 32 && t < block.fibers.size(); ++t) {
        const c_fiber& f = block.fibers[t];
        if (f.done || f.barrier != 0 || f.waits != least) continue;
        block.now = t;
        at(t);
        c_resume(block);
        ran = true;
      }
    }
    live = ran || c_let_go(block);
  }
  for (const c_fiber& f : block.fibers)
    if (!f.done) abort();  // some wait at a barrier for others who never come
}
static void c_launch(const unsigned long* grid, unsigned block_threads, unsigned cluster, bool waits,
                     const std::function<void()>& body) {
  // The blocks of a cluster run together; what they share is one variable, which all of them fill alike.
  const unsigned threads = block_threads * cluster;
  c_block block;
  c_here = &block;
  block.body = body;
  if (waits) {
    block.fibers.resize(threads);
    block.stacks.reset(new char[threads * c_stack_bytes]);
  }
  c_grid_blocks = grid[0] * grid[1] * grid[2];
  for (unsigned long z = 0; z < grid[2]; ++z)
    for (unsigned long y = 0; y < grid[1]; ++y)
      for (unsigned long x = 0; x < grid[0]; x += cluster) {
        c_block_at = {(unsigned)x, (unsigned)y, (unsigned)z};
        if (!waits) {
          for (unsigned t = 0; t < threads; ++t) {
            c_thread_at.x = t;
            body();
          }
          continue;
        }
        block.slots.assign(threads, 0);
        c_run_fibers(block, [&](unsigned t) {
          c_thread_at.x = t % block_threads;
          c_block_at.x = (unsigned)x + t / block_threads;
        });
      }
  c_here = nullptr;
}
template <class T> static T c_exchange(T x, unsigned from) {
  c_block* b = c_here;
  unsigned long w = 0;
  std::memcpy(&w, &x, sizeof x);
  b->slots[b->now] = w;
  c_wait();
  std::memcpy(&x, &b->slots[from], sizeof x);
  c_wait();
  return x;
}

// The CPU's way to call: pointers and numbers from two arrays. Behind a kernel's own numbers stand the grid and the
// threads of a block. Last come, in a language that has them as parameters, the places of the block and of the thread.
template <class P> static P c_argument(void* const* buffers, const long* scalars, int nb, int k, int count) {
  if constexpr (std::is_pointer<P>::value)
    return (P)buffers[k < nb ? k : nb];
  else if constexpr (std::is_same<P, c_dim>::value)
    return k == count - 2 ? c_block_at : c_thread_at;
  else
    return (P)scalars[k - nb];
}
template <class... P, std::size_t... K>
static void c_call_with(void (*f)(P...), void* const* buffers, const long* scalars, int nb, std::index_sequence<K...>) {
  f(c_argument<P>(buffers, scalars, nb, (int)K, (int)sizeof...(P))...);
}
template <class... P> static void c_call(void (*f)(P...), void* const* buffers, const long* scalars, int nb, int ns,
                                         unsigned threads, unsigned cluster, bool waits) {
  const unsigned long grid[3] = {(unsigned long)scalars[ns], (unsigned long)scalars[ns + 1],
                                 (unsigned long)scalars[ns + 2]};
  c_launch(grid, threads, cluster, waits,
           [&] { c_call_with(f, buffers, scalars, nb, std::index_sequence_for<P...>{}); });
}
