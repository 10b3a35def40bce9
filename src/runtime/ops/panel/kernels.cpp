#ifdef __AVX512F__
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "runtime/ops/panel/kernels.h"

#ifdef __clang__
#define COIL_UNROLL _Pragma("unroll")
#else
#define COIL_UNROLL _Pragma("GCC unroll 16")
#endif

typedef float CoilVector __attribute__((vector_size(64)));

// Of the C library (libmvec).
extern "C" {
CoilVector _ZGVeN16v_expf(CoilVector);
CoilVector _ZGVeN16v_expm1f(CoilVector);
CoilVector _ZGVeN16v_erff(CoilVector);
CoilVector _ZGVeN16v_tanhf(CoilVector);
}
#define COIL_VECTOR_MATH(name) _ZGVeN16v_##name

namespace coil::runtime::panels {
namespace {

using Vector = CoilVector;
constexpr int kBytes = sizeof(Vector), kVectors = 4;
// As many sums as registers hold beside a row of the panel.
constexpr int kMaxRows = 6;
constexpr int kLanes = kBytes / 4, kWidth = kVectors * kLanes;
constexpr std::int64_t kDepth = 768;

typedef std::uint32_t Words __attribute__((vector_size(kBytes)));
typedef std::uint16_t Halves __attribute__((vector_size(kBytes / 2)));

template <class T>
T load(const void* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

Vector widened(Halves bits, Element element) {
  if (element == Element::BF16) return (Vector)(__builtin_convertvector(bits, Words) << 16);
  return (Vector)_mm512_cvtph_ps((__m256i)bits);
}

/// Rounded to nearest even; NaN stays NaN.
Halves narrowed(Vector x, Element element) {
  if (element == Element::BF16) {
    const Words bits = (Words)x;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Words quiet = Words{} + 0x7fc0;
    return __builtin_convertvector(x != x ? quiet : rounded, Halves);
  }
  return (Halves)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}

Vector load_as(const void* from, Element element) {
  return element == Element::F32 ? load<Vector>(from) : widened(load<Halves>(from), element);
}

constexpr std::int64_t bytes_of(Element e) { return e == Element::F32 ? 4 : 2; }

/// The first `count` elements; zeros behind them.
Vector load_part(const void* from, Element element, int count) {
  if (count >= kLanes) return load_as(from, element);
  char whole[kBytes] = {};
  std::memcpy(whole, from, static_cast<std::size_t>(count * bytes_of(element)));
  return load_as(whole, element);
}

void store_part(void* to, Vector x, Element element, int count) {
  const auto bytes = static_cast<std::size_t>((count < kLanes ? count : kLanes) * bytes_of(element));
  if (element == Element::F32) {
    if (count >= kLanes)
      std::memcpy(to, &x, sizeof x);
    else
      std::memcpy(to, &x, bytes);
    return;
  }
  const Halves half = narrowed(x, element);
  if (count >= kLanes)
    std::memcpy(to, &half, sizeof half);
  else
    std::memcpy(to, &half, bytes);
}

template <int kRows>
void multiply_rows(const Strip& s) {
  Vector sum[kRows][kVectors];
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    COIL_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = s.add ? load<Vector>(s.sum + r * kWidth + v * kLanes) : Vector{};
  }
  const float* panel = s.panel;
  const float* a[kRows];
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) a[r] = s.a + r * s.a_step;
  auto step = [&](std::int64_t k) __attribute__((always_inline)) {
    Vector b[kVectors];
    COIL_UNROLL
    for (int v = 0; v < kVectors; ++v) b[v] = load<Vector>(panel + v * kLanes);
    panel += kWidth;
    COIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      COIL_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r][k] * b[v];
    }
  };
  const char* ahead = s.ahead;
  std::int64_t k = 0;
  for (; k + 4 <= s.k; k += 4) {
    for (int line = 0; line < s.lines; ++line, ahead += 64) __builtin_prefetch(ahead, 0, 2);
    step(k);
    step(k + 1);
    step(k + 2);
    step(k + 3);
  }
  for (; k < s.k; ++k) step(k);
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    COIL_UNROLL
    for (int v = 0; v < kVectors; ++v) std::memcpy(s.sum + r * kWidth + v * kLanes, &sum[r][v], sizeof(Vector));
  }
}

template <int kRows = kMaxRows>
void multiply(const Strip& s) {
  if (s.rows == kRows) return multiply_rows<kRows>(s);
  if constexpr (kRows > 1) multiply<kRows - 1>(s);
}

void widen(float* to, const void* from, Element element, std::int64_t count) {
  const char* at = static_cast<const char*>(from);
  for (; count > 0; count -= kLanes, to += kLanes, at += kLanes * bytes_of(element))
    store_part(to, load_part(at, element, count < kLanes ? static_cast<int>(count) : kLanes), Element::F32,
               count < kLanes ? static_cast<int>(count) : kLanes);
}

/// As eager computes it; where x is NaN, so is the result.
Vector after(Vector x, const Post& p) {
  const Vector zero{}, one = zero + 1.f;
  switch (p.kind) {
    case PostOpKind::Relu: return x <= 0.f ? zero : x;
    case PostOpKind::GeluErf: return 0.5f * x * (one + COIL_VECTOR_MATH(erff)(x * 0.70710678f));
    case PostOpKind::GeluTanh:
      return 0.5f * x * (one + COIL_VECTOR_MATH(tanhf)(0.79788456f * (x + 0.044715f * x * x * x)));
    case PostOpKind::Silu: return x / (one + COIL_VECTOR_MATH(expf)(-x));
    case PostOpKind::Sigmoid: return one / (one + COIL_VECTOR_MATH(expf)(-x));
    case PostOpKind::Tanh: return COIL_VECTOR_MATH(tanhf)(x);
    case PostOpKind::Clip: {
      const Vector low = zero + p.a, high = zero + p.b;
      const Vector raised = x < low ? low : x;
      return raised > high ? high : raised;
    }
    case PostOpKind::HardSwish:
    case PostOpKind::HardSigmoid: {
      const Vector shifted = x + 3.f, six = zero + 6.f;
      const Vector raised = shifted < 0.f ? zero : shifted;
      const Vector part = raised > 6.f ? six : raised;
      return p.kind == PostOpKind::HardSwish ? x * part / 6.f : part / 6.f;
    }
    case PostOpKind::Elu: return x > 0.f ? x : p.a * COIL_VECTOR_MATH(expm1f)(x);
    case PostOpKind::LeakyRelu: return x > 0.f ? x : p.a * x;
    case PostOpKind::Scale: return p.a * x + p.b;
    case PostOpKind::Add:
    case PostOpKind::Mul:
    case PostOpKind::Sum: break;
  }
  return x;
}

Vector operand_of(const Post& p, std::int64_t row, std::int64_t column, int count) {
  const char* at = static_cast<const char*>(p.operand) + row * p.operand_step * bytes_of(p.element);
  if (!p.one_column) return load_part(at + column * bytes_of(p.element), p.element, count);
  const Vector first = load_part(at, p.element, 1);
  return Vector{} + first[0];
}

void finish(const Rows& f) {
  for (int r = 0; r < f.rows; ++r) {
    const std::int64_t row = f.row + r;
    for (int in = 0; in < f.columns; in += kLanes) {
      const int count = f.columns - in;
      const std::int64_t column = f.column + in;
      Vector x = load<Vector>(f.sum + r * kWidth + in);
      if (f.bias) x += load_part(f.bias + column, Element::F32, count);
      for (const Post* p = f.post; p != f.post + f.posts; ++p) {
        if (p->kind == PostOpKind::Mul)
          x *= operand_of(*p, row, column, count);
        else if (p->operand)
          x += operand_of(*p, row, column, count);
        else
          x = after(x, *p);
      }
      store_part(static_cast<char*>(f.y) + (row * f.y_step + column) * bytes_of(f.element), x, f.element, count);
    }
  }
}

}  // namespace

const Kernels kAvx512 = {kWidth, kMaxRows, kDepth, multiply<>, widen, finish};

}  // namespace coil::runtime::panels
#endif
