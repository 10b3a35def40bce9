// The cells of recurrent networks, element by element: f32 in vectors with exp and tanh of our own (a few units in the
// last place from the exact), f64 by the C library. This header and the files that are compiled for one kind of machine
// include nothing with inline functions.
#pragma once
#include <cstdint>

namespace coil::runtime::cells {

/// One row of a step. `x` and `sums` hold the gates' parts side by side, `count` of each: what the input and what the
/// state adds.
template <class T>
struct Row {
  const T *x, *sums;
  std::int64_t count;
  T* made;  ///< the new state
};

template <class T>
struct KernelsOf {
  void (*lstm)(const Row<T>&, T* c);       ///< gates: input, forget, cell, output; `c` is updated
  void (*gru)(const Row<T>&, const T* h);  ///< gates: reset, update, new; `h` is the state before
  void (*plain_tanh)(const Row<T>&);
  void (*plain_relu)(const Row<T>&);
};

struct Kernels {
  KernelsOf<float> f32;
  KernelsOf<double> f64;
};

extern const Kernels kAvx2, kAvx512;  ///< on x86-64 alone
const Kernels& kernels_of_this_machine();

}  // namespace coil::runtime::cells
