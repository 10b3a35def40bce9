// Behind the text of CUDA kernels and the machine that emulates a GPU: kernels called as the driver would.
// emulated_cuda.py
#include <tuple>
template <class T>
static T next_word(const i64*& at) {
  T x;
  memcpy(&x, at, sizeof x);
  at += (sizeof x + 7) / 8;
  return x;
}
template <class... P>
static void run(void (*kernel)(P...), const i64* words, const u64* grid, u32 block, u32 cluster) {
  const tuple<P...> arguments{next_word<P>(words)...};
  c_launch((const unsigned long*)grid, block, cluster, true, [&] { apply(kernel, arguments); });
}
