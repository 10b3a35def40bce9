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
CoilVector _ZGVeN16v_tanhf(CoilVector);
}
#define COIL_VECTOR_MATH(name) _ZGVeN16v_##name

namespace coil::runtime::panels {
namespace {

using Vector = CoilVector;
constexpr int kBytes = sizeof(Vector), kVectors = 4;
// As many sums as registers hold beside a row of the panel; of narrow panels as many rows as there are registers for
// their addresses.
constexpr int kMaxRows = 6;
constexpr int kRowsOf[] = {0, 10, 9, 7, kMaxRows};
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

template <int kRows, int kCount>
void multiply_rows(const Strip& s) {
  Vector sum[kRows][kCount];
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    COIL_UNROLL
    for (int v = 0; v < kCount; ++v) sum[r][v] = s.add ? load<Vector>(s.sum + r * kWidth + v * kLanes) : Vector{};
  }
  const float* panel = s.panel;
  const float* a[kRows];
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) a[r] = s.a + r * s.a_step;
  auto step = [&](std::int64_t k) __attribute__((always_inline)) {
    Vector b[kCount];
    COIL_UNROLL
    for (int v = 0; v < kCount; ++v) b[v] = load<Vector>(panel + v * kLanes);
    panel += s.panel_step;
    COIL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      COIL_UNROLL
      for (int v = 0; v < kCount; ++v) sum[r][v] += a[r][k] * b[v];
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
    for (int v = 0; v < kCount; ++v) std::memcpy(s.sum + r * kWidth + v * kLanes, &sum[r][v], sizeof(Vector));
  }
}

template <int kCount, int kRows = kRowsOf[kCount]>
void multiply_some(const Strip& s) {
  if (s.rows == kRows) return multiply_rows<kRows, kCount>(s);
  if constexpr (kRows > 1) multiply_some<kCount, kRows - 1>(s);
}

void multiply(const Strip& s) {
  switch (s.vectors) {
    case 1: return multiply_some<1>(s);
    case 2: return multiply_some<2>(s);
    case 3: return multiply_some<3>(s);
    default: return multiply_some<4>(s);
  }
}

void widen(float* to, const void* from, Element element, std::int64_t count) {
  const char* at = static_cast<const char*>(from);
  for (; count > 0; count -= kLanes, to += kLanes, at += kLanes * bytes_of(element))
    store_part(to, load_part(at, element, count < kLanes ? static_cast<int>(count) : kLanes), Element::F32,
               count < kLanes ? static_cast<int>(count) : kLanes);
}

/// 1 + erf(x), within 5e-8: erfc(|x|) = 2^(|x| P(|x|)) by a polynomial that fits it to that over [0, 4], from where on
/// erf is 1 in f32. (Near zero erf itself is not as exact as it could be, which does not show behind 1.)
[[gnu::always_inline]] inline Vector one_plus_erf(Vector x) {
  const Vector y = (Vector)((Words)x & 0x7fffffff), most = Vector{} + 4.0f, near = y > most ? most : y;
  Vector p = Vector{} + 1.16048423e-05f;
  constexpr float kPowers[] = {-0.000152964654f, 0.000848235446f, -0.00227478775f, 8.48076161e-05f,
                               0.0277244747f,    -0.148307905f,   -0.918442905f,   -1.62790728f};
  COIL_UNROLL
  for (const float power : kPowers) p = p * near + power;
  const Vector l = p * near, whole = (Vector)_mm512_roundscale_ps((__m512)l, 0), r = l - whole;
  Vector q = r * 0.0013434287f + 0.009673548f;
  q = (((q * r + 0.055502422f) * r + 0.24022208f) * r + 0.69314724f) * r + 1.0f;
  const Vector erf = 1.0f - (Vector)_mm512_scalef_ps((__m512)q, (__m512)whole);
  return 1.0f + (Vector)(((Words)x & 0x80000000) | (Words)erf);
}

[[gnu::always_inline]] inline Vector gelu_erf(Vector x) { return 0.5f * x * one_plus_erf(x * 0.70710678f); }

/// As eager computes it; where x is NaN, so is the result.
[[gnu::noinline]] Vector after(Vector x, const Post& p) {
  const Vector zero{}, one = zero + 1.f;
  switch (p.kind) {
    case PostOpKind::Relu: return x <= 0.f ? zero : x;
    case PostOpKind::GeluErf: return gelu_erf(x);
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

/// Vectors of a row, `columns` of them to be stored. All go through one post-operation together, so that their
/// instructions overlap.
template <int kCount>
void finish_row(const Rows& f, int r) {
  const std::int64_t row = f.row + r;
  Vector x[kCount];
  const auto each = [&](auto change) __attribute__((always_inline)) {
    COIL_UNROLL
    for (int v = 0; v < kCount; ++v) change(x[v], f.column + v * kLanes, f.columns - v * kLanes);
  };
  each([&](Vector& one, std::int64_t column, int)
           __attribute__((always_inline)) { one = load<Vector>(f.sum + r * kWidth + (column - f.column)); });
  if (f.bias)
    each([&](Vector& one, std::int64_t column, int count)
             __attribute__((always_inline)) { one += load_part(f.bias + column, Element::F32, count); });
  for (const Post* p = f.post; p != f.post + f.posts; ++p) {
    if (p->kind == PostOpKind::Mul)
      each([&](Vector& one, std::int64_t column, int count)
               __attribute__((always_inline)) { one *= operand_of(*p, row, column, count); });
    else if (p->operand)
      each([&](Vector& one, std::int64_t column, int count)
               __attribute__((always_inline)) { one += operand_of(*p, row, column, count); });
    else if (p->kind == PostOpKind::GeluErf)
      each([&](Vector& one, std::int64_t, int) __attribute__((always_inline)) { one = gelu_erf(one); });
    else
      each([&](Vector& one, std::int64_t, int) __attribute__((always_inline)) { one = after(one, *p); });
  }
  each([&](Vector& one, std::int64_t column, int count) __attribute__((always_inline)) {
    store_part(static_cast<char*>(f.y) + (row * f.y_step + column) * bytes_of(f.element), one, f.element, count);
  });
}

void finish(const Rows& f) {
  for (int r = 0; r < f.rows; ++r) switch ((f.columns + kLanes - 1) / kLanes) {
      case 1: finish_row<1>(f, r); break;
      case 2: finish_row<2>(f, r); break;
      case 3: finish_row<3>(f, r); break;
      default: finish_row<4>(f, r);
    }
}

}  // namespace

const Kernels kAvx512 = {kWidth, kLanes, kRowsOf, kDepth, multiply, widen, finish};

}  // namespace coil::runtime::panels
#endif
