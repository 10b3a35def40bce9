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
    for (int v = 0; v < kCount; ++v) sum[r][v] = s.add ? load<Vector>(s.sum + r * s.sum_step + v * kLanes) : Vector{};
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
    for (int v = 0; v < kCount; ++v) std::memcpy(s.sum + r * s.sum_step + v * kLanes, &sum[r][v], sizeof(Vector));
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

/// `kRows` rows from `row` on of one vector of channels, of which the mask's are there.
template <int kRows>
void multiply_vector(const Channels& s, int row, int column, __mmask16 there) {
  Vector sum[kRows] = {};
  const float* x = s.x + row * s.x_step + column;
  for (std::int64_t t = 0; t < s.taps; ++t) {
    const Vector w = (Vector)_mm512_maskz_loadu_ps(there, s.weight + s.weights[t] + column);
    const float* at = x + s.places[t];
    COIL_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] += w * (Vector)_mm512_maskz_loadu_ps(there, at + r * s.x_step);
  }
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) std::memcpy(s.sum + (row + r) * kWidth + column, &sum[r], sizeof(Vector));
}

void multiply_channels(const Channels& s) {
  for (int column = 0; column < s.columns; column += kLanes) {
    const int left = s.columns - column;
    const auto there = static_cast<__mmask16>(left < kLanes ? (1u << left) - 1 : 0xffff);
    int row = 0;
    for (; row + 8 <= s.rows; row += 8) multiply_vector<8>(s, row, column, there);
    for (; row + 2 <= s.rows; row += 2) multiply_vector<2>(s, row, column, there);
    for (; row < s.rows; ++row) multiply_vector<1>(s, row, column, there);
  }
}

void widen(float* to, const void* from, Element element, std::int64_t count) {
  const char* at = static_cast<const char*>(from);
  for (; count > 0; count -= kLanes, to += kLanes, at += kLanes * bytes_of(element))
    store_part(to, load_part(at, element, count < kLanes ? static_cast<int>(count) : kLanes), Element::F32,
               count < kLanes ? static_cast<int>(count) : kLanes);
}

/// 2^r for r between -0.5 and 0.5.
[[gnu::always_inline]] inline Vector power_of_rest(Vector r) {
  const Vector q = r * 0.0013434287f + 0.009673548f;
  return (((q * r + 0.055502422f) * r + 0.24022208f) * r + 0.69314724f) * r + 1.0f;
}

/// 2^x, within 1.2e-7 of it.
[[gnu::always_inline]] inline Vector power_of_two(Vector x) {
  const Vector whole = (Vector)_mm512_roundscale_ps((__m512)x, 0);
  return (Vector)_mm512_scalef_ps((__m512)power_of_rest(x - whole), (__m512)whole);
}

/// e^x for x between -150 and 150, within 1.8e-7 of it: the part of log2(e) that its f32 lacks is added to the rest.
[[gnu::always_inline]] inline Vector exponential(Vector x) {
  const __m512 log2e = _mm512_set1_ps(1.44269502f), v = (__m512)x;
  const __m512 whole = _mm512_roundscale_ps(_mm512_mul_ps(v, log2e), 0);
  const Vector r = (Vector)_mm512_fmsub_ps(v, log2e, whole) + x * 1.92596303e-8f;
  return (Vector)_mm512_scalef_ps((__m512)power_of_rest(r), whole);
}

/// 1 / (1 + exp(-x)); NaN stays NaN.
[[gnu::always_inline]] inline Vector sigmoid(Vector x) {
  const Vector bound = Vector{} + 150.0f, below = x > bound ? bound : x;
  return 1.0f / (1.0f + exponential(below < -bound ? bound : -below));
}

/// x / (1 + exp(-x)), as eager computes it: NaN for negative infinity.
[[gnu::always_inline]] inline Vector silu(Vector x) {
  const Vector bound = Vector{} + 150.0f, below = x > bound ? bound : x;
  return x / (1.0f + exponential(below < -bound ? bound : -below));
}

/// x (1 + erf(x / sqrt 2)) / 2, within 1.2e-7 |x|, as max(x, 0) - |x| e with e = erfc(|x| / sqrt 2) / 2. e is
/// 2^(|x| P(|x|) - 1) by a polynomial that fits it to that over [0, sqrt 32], from where on erf is 1 in f32. NaN stays
/// NaN, and negative infinity gives it, as in eager.
[[gnu::always_inline]] inline Vector gelu_erf(Vector x) {
  const Vector size = (Vector)((Words)x & 0x7fffffff);
  Vector p = Vector{} + 5.12866418e-07f;
  constexpr float kPowers[] = {-9.56029087e-06f, 7.49741295e-05f, -0.000284348469f,
                               1.49920101e-05f,  0.00693111867f,  -0.0524347627f,
                               -0.459221452f,    -1.15110428f,    -1.0f};
  COIL_UNROLL
  for (const float power : kPowers) p = p * size + power;
  const __m512 e = (__m512)power_of_two(p), v = (__m512)x, zero = _mm512_setzero_ps();
  const __m512 above = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ), v, zero);
  const __mmask16 near = _mm512_cmp_ps_mask((__m512)size, _mm512_set1_ps(5.65685425f), _CMP_NGT_UQ);
  return (Vector)_mm512_mask3_fnmadd_ps((__m512)size, e, above, near);
}

/// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), as x / (1 + exp(-2 u)). Beyond 2^150 and below 2^-150
/// the power is infinity and 0, which bounds on its logarithm leave so.
[[gnu::always_inline]] inline Vector gelu_tanh(Vector x) {
  const Vector bound = Vector{} + 150.0f, log = x * (x * x * -0.10294324f + -2.3022082f);
  const Vector below = log > bound ? bound : log, bounded = below < -bound ? -bound : below;
  return x / (1.0f + power_of_two(bounded));
}

/// One vector after a post-operation without operand, as eager computes it; where x is NaN, so is the result.
template <PostOpKind kKind>
[[gnu::always_inline]] inline Vector after(Vector x, const Post& p) {
  const Vector zero{};
  if constexpr (kKind == PostOpKind::Relu) return x <= 0.f ? zero : x;
  if constexpr (kKind == PostOpKind::GeluErf) return gelu_erf(x);
  if constexpr (kKind == PostOpKind::GeluTanh) return gelu_tanh(x);
  if constexpr (kKind == PostOpKind::Silu) return silu(x);
  if constexpr (kKind == PostOpKind::Sigmoid) return sigmoid(x);
  if constexpr (kKind == PostOpKind::Tanh) return COIL_VECTOR_MATH(tanhf)(x);
  if constexpr (kKind == PostOpKind::Elu) return x > 0.f ? x : p.a * COIL_VECTOR_MATH(expm1f)(x);
  if constexpr (kKind == PostOpKind::LeakyRelu) return x > 0.f ? x : p.a * x;
  if constexpr (kKind == PostOpKind::Scale) return p.a * x + p.b;
  if constexpr (kKind == PostOpKind::Clip) {
    const Vector low = zero + p.a, high = zero + p.b;
    const Vector raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  if constexpr (kKind == PostOpKind::HardSwish || kKind == PostOpKind::HardSigmoid) {
    const Vector shifted = x + 3.f, six = zero + 6.f;
    const Vector raised = shifted < 0.f ? zero : shifted;
    const Vector part = raised > 6.f ? six : raised;
    return kKind == PostOpKind::HardSwish ? x * part / 6.f : part / 6.f;
  }
  return x;
}

/// `kCount` vectors, so that their instructions overlap.
template <PostOpKind kKind, int kCount>
[[gnu::always_inline]] inline void after_all(Vector* x, const Post& p) {
  COIL_UNROLL
  for (int v = 0; v < kCount; ++v) x[v] = after<kKind>(x[v], p);
}

template <int kCount>
[[gnu::always_inline]] inline void after_operation(Vector* x, const Post& p) {
  using enum PostOpKind;
  switch (p.kind) {
    case Relu: return after_all<Relu, kCount>(x, p);
    case GeluErf: return after_all<GeluErf, kCount>(x, p);
    case GeluTanh: return after_all<GeluTanh, kCount>(x, p);
    case Silu: return after_all<Silu, kCount>(x, p);
    case Sigmoid: return after_all<Sigmoid, kCount>(x, p);
    case Tanh: return after_all<Tanh, kCount>(x, p);
    case Clip: return after_all<Clip, kCount>(x, p);
    case HardSwish: return after_all<HardSwish, kCount>(x, p);
    case HardSigmoid: return after_all<HardSigmoid, kCount>(x, p);
    case Elu: return after_all<Elu, kCount>(x, p);
    case LeakyRelu: return after_all<LeakyRelu, kCount>(x, p);
    case Scale: return after_all<Scale, kCount>(x, p);
    case Add:
    case Mul:
    case Sum: return;
  }
}

/// `kWhole`: a vector of f32, all of whose elements are there.
template <bool kWhole>
[[gnu::always_inline]] inline Vector load_columns(const void* from, Element element, int count) {
  return kWhole ? load<Vector>(from) : load_part(from, element, count);
}

template <bool kWhole>
[[gnu::always_inline]] inline Vector operand_of(const Post& p, std::int64_t row, std::int64_t column, int count) {
  const std::int64_t bytes = kWhole ? 4 : bytes_of(p.element);
  const char* at = static_cast<const char*>(p.operand) + row * p.operand_step * bytes;
  if (!p.one_column) return load_columns<kWhole>(at + column * bytes, p.element, count);
  return Vector{} + (kWhole ? load<float>(at) : load_part(at, p.element, 1)[0]);
}

/// Vectors of a row, `columns` of them to be stored. All go through one post-operation together, so that their
/// instructions overlap.
template <int kCount, bool kWhole>
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
             __attribute__((always_inline)) { one += load_columns<kWhole>(f.bias + column, Element::F32, count); });
  for (const Post* p = f.post; p != f.post + f.posts; ++p) {
    if (p->kind == PostOpKind::Mul)
      each([&](Vector& one, std::int64_t column, int count)
               __attribute__((always_inline)) { one *= operand_of<kWhole>(*p, row, column, count); });
    else if (p->operand)
      each([&](Vector& one, std::int64_t column, int count)
               __attribute__((always_inline)) { one += operand_of<kWhole>(*p, row, column, count); });
    else
      after_operation<kCount>(x, *p);
  }
  each([&](Vector& one, std::int64_t column, int count) __attribute__((always_inline)) {
    char* to = static_cast<char*>(f.y) + (row * f.y_step + column) * (kWhole ? 4 : bytes_of(f.element));
    if constexpr (kWhole)
      std::memcpy(to, &one, sizeof one);
    else
      store_part(to, one, f.element, count);
  });
}

/// Whether y and the operands are f32, and y has every column of the vectors.
bool is_whole(const Rows& f) {
  bool whole = f.columns % kLanes == 0 && f.element == Element::F32;
  for (int i = 0; i < f.posts; ++i) whole = whole && f.post[i].element == Element::F32;
  return whole;
}

template <bool kWhole>
void finish_rows(const Rows& f) {
  for (int r = 0; r < f.rows; ++r) switch ((f.columns + kLanes - 1) / kLanes) {
      case 1: finish_row<1, kWhole>(f, r); break;
      case 2: finish_row<2, kWhole>(f, r); break;
      case 3: finish_row<3, kWhole>(f, r); break;
      default: finish_row<4, kWhole>(f, r);
    }
}

void finish(const Rows& f) { is_whole(f) ? finish_rows<true>(f) : finish_rows<false>(f); }

/// `kVectorsOf`: whole vectors of each piece, where they are few; -1 otherwise.
template <int kVectorsOf>
void copy_pieces(const Pieces& p) {
  const std::int64_t vectors = kVectorsOf < 0 ? p.length / kLanes : kVectorsOf;
  const auto rest = static_cast<__mmask16>((1u << (p.length % kLanes)) - 1);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float* from = p.from + r * p.from_step;
    float* to = p.to + r * p.to_step;
    for (std::int64_t t = 0; t < p.taps; ++t, from += p.tap_step, to += p.length) {
      for (std::int64_t v = 0; v < vectors; ++v) _mm512_storeu_ps(to + v * kLanes, _mm512_loadu_ps(from + v * kLanes));
      if (rest == 0) continue;
      const std::int64_t at = vectors * kLanes;
      _mm512_mask_storeu_ps(to + at, rest, _mm512_maskz_loadu_ps(rest, from + at));
    }
  }
}

void copy(const Pieces& p) {
  switch (p.length / kLanes) {
    case 0: return copy_pieces<0>(p);
    case 1: return copy_pieces<1>(p);
    case 2: return copy_pieces<2>(p);
    default: return copy_pieces<-1>(p);
  }
}

// Elements, pairs and quarters of two vectors in turn, from the lower or the upper half of each quarter, pair or
// vector.
Vector low_elements(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
Vector high_elements(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
Vector low_pairs(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
Vector high_pairs(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
Vector low_halves(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
Vector high_halves(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
Vector even_quarters(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
Vector odd_quarters(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

/// Sixteen rows of sixteen become columns; of them `rows` and `columns` are there.
void turn_block(float* to, std::int64_t to_step, const float* from, std::int64_t from_step, int rows, int columns) {
  const auto present = static_cast<__mmask16>((1u << columns) - 1), stored = static_cast<__mmask16>((1u << rows) - 1);
  Vector r[kLanes], t[kLanes];
  COIL_UNROLL
  for (int i = 0; i < kLanes; ++i)
    r[i] = i < rows ? (Vector)_mm512_maskz_loadu_ps(present, from + i * from_step) : Vector{};
  COIL_UNROLL
  for (int i = 0; i < kLanes; i += 2) {
    t[i] = low_elements(r[i], r[i + 1]);
    t[i + 1] = high_elements(r[i], r[i + 1]);
  }
  // r[4 i + j] has column j of each quarter, of rows 4 i to 4 i + 3.
  COIL_UNROLL
  for (int i = 0; i < kLanes; i += 4) {
    COIL_UNROLL
    for (int half = 0; half < 2; ++half) {
      r[i + 2 * half] = low_pairs(t[i + half], t[i + 2 + half]);
      r[i + 2 * half + 1] = high_pairs(t[i + half], t[i + 2 + half]);
    }
  }
  COIL_UNROLL
  for (int j = 0; j < 4; ++j) {
    const Vector low01 = low_halves(r[j], r[4 + j]), high01 = high_halves(r[j], r[4 + j]),
                 low23 = low_halves(r[8 + j], r[12 + j]), high23 = high_halves(r[8 + j], r[12 + j]);
    t[j] = even_quarters(low01, low23);
    t[4 + j] = odd_quarters(low01, low23);
    t[8 + j] = even_quarters(high01, high23);
    t[12 + j] = odd_quarters(high01, high23);
  }
  COIL_UNROLL
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) _mm512_mask_storeu_ps(to + i * to_step, stored, (__m512)t[i]);
}

void turn(const Turn& m) {
  const auto part = [](std::int64_t left) { return left < kLanes ? static_cast<int>(left) : kLanes; };
  for (std::int64_t row = 0; row < m.rows; row += kLanes)
    for (std::int64_t column = 0; column < m.columns; column += kLanes)
      turn_block(m.to + column * m.to_step + row, m.to_step, m.from + row * m.from_step + column, m.from_step,
                 part(m.rows - row), part(m.columns - column));
}

}  // namespace

const Kernels kAvx512 = {kWidth, kLanes, kRowsOf, kDepth, multiply, widen, finish, copy, turn, multiply_channels};

}  // namespace coil::runtime::panels
#endif
