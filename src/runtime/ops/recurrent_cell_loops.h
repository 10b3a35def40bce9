// The loops over cells, for vectors of COIL_CELL_BYTES: included by a file for each kind of machine, and seen by that
// file alone, since the linker keeps one copy of what files share, which other machines might not run.
#pragma once
#include <cstdint>

#include "runtime/ops/recurrent_cells.h"

namespace coil::runtime::cells {
namespace {

using Lanes = float __attribute__((vector_size(COIL_CELL_BYTES)));
using Bits = std::int32_t __attribute__((vector_size(COIL_CELL_BYTES)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = Lanes;
};
template <>
struct VectorOf<double> {
  using Type = double;
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
constexpr std::int64_t kCount = sizeof(Vector<T>) / sizeof(T);

Bits bits_of(Lanes x) {
  Bits b;
  __builtin_memcpy(&b, &x, sizeof b);
  return b;
}

Lanes from_bits(Bits b) {
  Lanes x;
  __builtin_memcpy(&x, &b, sizeof x);
  return x;
}

/// e^x = 2^n e^r with n whole and |r| <= ln 2 / 2, e^r by its series. NaN stays; what overflows is 2^127 or so.
Lanes exp(Lanes x) {
  constexpr float kLeast = -87.0f, kMost = 88.0f, kPerLn2 = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // the first has few bits: n times it is exact
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  x = x < kLeast ? Lanes{} + kLeast : x;
  x = x > kMost ? Lanes{} + kMost : x;
  const Lanes shifted = x * kPerLn2 + kWhole, n = shifted - kWhole;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  Lanes p = Lanes{} + 1.0f / 5040;
  constexpr float kSeries[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  for (const float c : kSeries) p = p * r + c;
  return p * from_bits((bits_of(shifted) << 23) + (127 << 23));
}

Lanes sigmoid(Lanes x) { return 1.0f / (1.0f + exp(-x)); }

/// Near zero by the odd series, whose next term is below 2^-28 of the result there.
Lanes tanh(Lanes x) {
  constexpr float kNear = 0.4f;
  const Lanes square = x * x;
  Lanes p = Lanes{} + 21844.0f / 6081075;
  constexpr float kSeries[] = {-1382.0f / 155925, 62.0f / 2835, -17.0f / 315, 2.0f / 15, -1.0f / 3};
  for (const float c : kSeries) p = p * square + c;
  const Lanes near = x + x * square * p, far = 1.0f - 2.0f / (exp(x + x) + 1.0f);
  return square < kNear * kNear ? near : far;
}

double sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }
double tanh(double x) { return __builtin_tanh(x); }
Lanes positive(Lanes x) { return x < 0.0f ? Lanes{} : x; }  // NaN stays
double positive(double x) { return x < 0 ? 0 : x; }

template <class T>
Vector<T> load(const T* from, std::int64_t count) {
  Vector<T> v{};
  if (count >= kCount<T>)
    __builtin_memcpy(&v, from, sizeof v);
  else
    __builtin_memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(T));
  return v;
}

template <class T>
void store(T* to, const Vector<T>& v, std::int64_t count) {
  if (count >= kCount<T>)
    __builtin_memcpy(to, &v, sizeof v);
  else
    __builtin_memcpy(to, &v, static_cast<std::size_t>(count) * sizeof(T));
}

/// Calls `cell(first, left)` for each vector of a row. `left` elements begin at `first`: a whole vector or fewer.
template <class T, class Cell>
void each_vector(std::int64_t count, Cell cell) {
  for (std::int64_t i = 0; i < count; i += kCount<T>) cell(i, count - i);
}

/// What a gate is told, at `i`: the input's part and the state's.
template <class T>
Vector<T> gate(const Row<T>& row, std::int64_t number, std::int64_t i, std::int64_t left) {
  const std::int64_t at = number * row.count + i;
  return load(row.x + at, left) + load(row.sums + at, left);
}

template <class T>
void save(const Row<T>& row, const Vector<T> (&gates)[4], std::int64_t i, std::int64_t left) {
  for (std::int64_t k = 0; k < 4; ++k) store(row.saved + k * row.count + i, gates[k], left);
}

template <class T>
void lstm(const Row<T>& row, T* c) {
  each_vector<T>(row.count, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> in = sigmoid(gate(row, 0, i, left)), kept = sigmoid(gate(row, 1, i, left)),
                    fresh = tanh(gate(row, 2, i, left)), out = sigmoid(gate(row, 3, i, left));
    const Vector<T> cell = kept * load(c + i, left) + in * fresh;
    store(c + i, cell, left);
    store(row.made + i, out * tanh(cell), left);
    if (!row.saved) return;
    const Vector<T> gates[] = {in, kept, fresh, out};
    save(row, gates, i, left);
    store(row.cells + i, cell, left);
  });
}

template <class T>
void gru(const Row<T>& row, const T* h) {
  const std::int64_t n = row.count;
  each_vector<T>(n, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> reset = sigmoid(gate(row, 0, i, left)), kept = sigmoid(gate(row, 1, i, left));
    const Vector<T> told = load(row.sums + 2 * n + i, left);
    const Vector<T> fresh = tanh(load(row.x + 2 * n + i, left) + reset * told);
    store(row.made + i, (load(h + i, left) - fresh) * kept + fresh, left);
    if (!row.saved) return;
    const Vector<T> gates[] = {reset, kept, fresh, told};
    save(row, gates, i, left);
  });
}

template <class T>
void plain_tanh(const Row<T>& row) {
  each_vector<T>(row.count,
                 [&](std::int64_t i, std::int64_t left) { store(row.made + i, tanh(gate(row, 0, i, left)), left); });
}

template <class T>
void plain_relu(const Row<T>& row) {
  each_vector<T>(row.count, [&](std::int64_t i, std::int64_t left) {
    store(row.made + i, positive(gate(row, 0, i, left)), left);
  });
}

// Gradients. Of sigmoid where it is y the slope is y - y y, of tanh 1 - y y.

template <class T>
void lstm_backward(const BackwardRow<T>& row, T* cell) {
  const std::int64_t n = row.count;
  each_vector<T>(n, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> in = load(row.saved + i, left), kept = load(row.saved + n + i, left),
                    fresh = load(row.saved + 2 * n + i, left), out = load(row.saved + 3 * n + i, left);
    const Vector<T> hidden = load(row.hidden + i, left), made = tanh(load(row.cells + i, left));
    const Vector<T> grad = load(cell + i, left) + hidden * out * (1 - made * made);
    store(row.gates + i, grad * fresh * (in - in * in), left);
    store(row.gates + n + i, grad * load(row.previous + i, left) * (kept - kept * kept), left);
    store(row.gates + 2 * n + i, grad * in * (1 - fresh * fresh), left);
    store(row.gates + 3 * n + i, hidden * made * (out - out * out), left);
    store(cell + i, grad * kept, left);
  });
}

template <class T>
void gru_backward(const BackwardRow<T>& row, T* sums, T* direct) {
  const std::int64_t n = row.count;
  each_vector<T>(n, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> reset = load(row.saved + i, left), kept = load(row.saved + n + i, left),
                    fresh = load(row.saved + 2 * n + i, left), told = load(row.saved + 3 * n + i, left);
    const Vector<T> hidden = load(row.hidden + i, left);
    const Vector<T> grad = (hidden - hidden * kept) * (1 - fresh * fresh);
    const Vector<T> of_reset = grad * told * (reset - reset * reset);
    const Vector<T> of_kept = hidden * (load(row.previous + i, left) - fresh) * (kept - kept * kept);
    store(row.gates + i, of_reset, left);
    store(row.gates + n + i, of_kept, left);
    store(row.gates + 2 * n + i, grad, left);
    store(sums + i, of_reset, left);
    store(sums + n + i, of_kept, left);
    store(sums + 2 * n + i, grad * reset, left);
    store(direct + i, hidden * kept, left);
  });
}

template <class T>
void tanh_backward(const BackwardRow<T>& row) {
  each_vector<T>(row.count, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> made = load(row.saved + i, left);
    store(row.gates + i, load(row.hidden + i, left) * (1 - made * made), left);
  });
}

template <class T>
void relu_backward(const BackwardRow<T>& row) {
  each_vector<T>(row.count, [&](std::int64_t i, std::int64_t left) {
    const Vector<T> made = load(row.saved + i, left), hidden = load(row.hidden + i, left);
    store(row.gates + i, made <= T{} ? Vector<T>{} : hidden, left);
  });
}

template <class T>
constexpr KernelsOf<T> kKernelsOf = {lstm<T>,          gru<T>,          plain_tanh<T>,    plain_relu<T>,
                                     lstm_backward<T>, gru_backward<T>, tanh_backward<T>, relu_backward<T>};
constexpr Kernels kKernels = {kKernelsOf<float>, kKernelsOf<double>};

}  // namespace
}  // namespace coil::runtime::cells
