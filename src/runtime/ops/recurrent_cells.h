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
  /// What gradients need, or null: the gates as they are used, of a GRU also what the state adds to the last; the
  /// cells.
  T *saved = nullptr, *cells = nullptr;
};

/// One row of a step of the gradients. `hidden` is the gradient of the new state.
template <class T>
struct BackwardRow {
  const T *hidden, *saved;
  const T *cells, *previous;  ///< the cells after the step; these, or the hidden state, before it
  std::int64_t count;
  T* gates;  ///< their gradients
};

template <class T>
struct KernelsOf {
  void (*lstm)(const Row<T>&, T* c);       ///< gates: input, forget, cell, output; `c` is updated
  void (*gru)(const Row<T>&, const T* h);  ///< gates: reset, update, new; `h` is the state before
  void (*plain_tanh)(const Row<T>&);
  void (*plain_relu)(const Row<T>&);
  void (*lstm_backward)(const BackwardRow<T>&, T* cell);  ///< `cell`: its gradient, which is updated
  /// `sums`: the gradients of what the state adds to the gates; `direct`: what reaches the state before by itself.
  void (*gru_backward)(const BackwardRow<T>&, T* sums, T* direct);
  void (*tanh_backward)(const BackwardRow<T>&);
  void (*relu_backward)(const BackwardRow<T>&);
};

struct Kernels {
  KernelsOf<float> f32;
  KernelsOf<double> f64;
};

extern const Kernels kAvx2, kAvx512;  ///< on x86-64 alone
const Kernels& kernels_of_this_machine();

}  // namespace coil::runtime::cells
