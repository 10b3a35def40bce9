// The inner loops of kernels.h, for the file that includes this: it gives, before, what differs between instruction
// sets (CoilVector, COIL_VECTOR_MATH, and in namespace coil::runtime::panels the functions that kernels_avx2.cpp
// lists).
#include <cstdint>
#include <cstring>

namespace coil::runtime::panels {
namespace {

template <class T>
T load(const void* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

Vector widened(Halves bits, Element element) {
  if (element == Element::BF16) return (Vector)(__builtin_convertvector(bits, Words) << 16);
  return from_f16(bits);
}

/// Rounded to nearest even; NaN stays NaN.
Halves narrowed(Vector x, Element element) {
  if (element == Element::BF16) {
    const Words bits = (Words)x;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Words quiet = Words{} + 0x7fc0;
    return __builtin_convertvector(x != x ? quiet : rounded, Halves);
  }
  return to_f16(x);
}

Vector load_as(const void* from, Element element) {
  return element == Element::F32 ? load<Vector>(from) : widened(load<Halves>(from), element);
}

constexpr std::int64_t bytes_of(Element e) { return e == Element::F32 ? 4 : 2; }

/// A vector of the first `count` elements at `from`, with zeros behind them.
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

/// Products that are added up one by one before they join the sum: so the error of a long sum grows with the number of
/// such runs, and not with that of products.
constexpr std::int64_t kRun = 256;

/// Adds a run to the sums, or begins them with it.
template <int kRows, int kCount>
[[gnu::always_inline]] inline void add_run(const Strip& s, const Vector (&run)[kRows][kCount], bool add) {
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) {
    COIL_UNROLL
    for (int v = 0; v < kCount; ++v) {
      float* at = s.sum + r * s.sum_step + v * kLanes;
      const Vector sum = add ? load<Vector>(at) + run[r][v] : run[r][v];
      std::memcpy(at, &sum, sizeof sum);
    }
  }
}

template <int kRows, int kCount>
void multiply_rows(const Strip& s) {
  const float* panel = s.panel;
  const float* a[kRows];
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) a[r] = s.a + r * s.a_step;
  const char* ahead = s.ahead;
  std::int64_t k = 0;
  do {
    Vector run[kRows][kCount] = {};
    auto step = [&](std::int64_t i) __attribute__((always_inline)) {
      Vector b[kCount];
      COIL_UNROLL
      for (int v = 0; v < kCount; ++v) b[v] = load<Vector>(panel + v * kLanes);
      panel += s.panel_step;
      COIL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        COIL_UNROLL
        for (int v = 0; v < kCount; ++v) run[r][v] += a[r][i] * b[v];
      }
    };
    const std::int64_t begin = k, end = s.k - k < kRun + kRun / 2 ? s.k : k + kRun;
    for (; k + 4 <= end; k += 4) {
      for (int line = 0; line < s.lines; ++line, ahead += 64) __builtin_prefetch(ahead, 0, 2);
      step(k);
      step(k + 1);
      step(k + 2);
      step(k + 3);
    }
    for (; k < end; ++k) step(k);
    add_run<kRows, kCount>(s, run, s.add || begin > 0);
  } while (k < s.k);
}

template <int kCount, int kRows = kRowsOf[kCount]>
void multiply_some(const Strip& s) {
  if (s.rows == kRows) return multiply_rows<kRows, kCount>(s);
  if constexpr (kRows > 1) multiply_some<kCount, kRows - 1>(s);
}

template <int kCount = kVectors>
void multiply_vectors(const Strip& s) {
  if (s.vectors == kCount) return multiply_some<kCount>(s);
  if constexpr (kCount > 1) multiply_vectors<kCount - 1>(s);
}

void multiply(const Strip& s) { multiply_vectors(s); }

/// `kRows` rows from `row` on of one vector of channels, of which the mask's are there.
template <int kRows>
void multiply_vector(const Channels& s, int row, int column, const Mask& there) {
  Vector sum[kRows] = {};
  const float* x = s.x + row * s.x_step + column;
  for (std::int64_t t = 0; t < s.taps; ++t) {
    const Vector w = load_masked(s.weight + s.weights[t] + column, there);
    const float* at = x + s.places[t];
    COIL_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] += w * load_masked(at + r * s.x_step, there);
  }
  COIL_UNROLL
  for (int r = 0; r < kRows; ++r) std::memcpy(s.sum + (row + r) * kWidth + column, &sum[r], sizeof(Vector));
}

void multiply_channels(const Channels& s) {
  for (int column = 0; column < s.columns; column += kLanes) {
    const Mask there = mask_of(s.columns - column);
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
  const Vector whole = rounded(x);
  return scaled(power_of_rest(x - whole), whole);
}

/// e^x for x between -150 and 150, within 1.8e-7 of it: the part of log2(e) that its f32 lacks is added to the rest.
[[gnu::always_inline]] inline Vector exponential(Vector x) {
  const Vector log2e = Vector{} + 1.44269502f, whole = rounded(product(x, log2e));
  return scaled(power_of_rest(product_less(x, log2e, whole) + x * 1.92596303e-8f), whole);
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
  return gelu_of(x, size, power_of_two(p));
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

template <bool kWhole, int kCount = kVectors>
void finish_rows(const Rows& f) {
  if constexpr (kCount > 1)
    if ((f.columns + kLanes - 1) / kLanes < kCount) return finish_rows<kWhole, kCount - 1>(f);
  for (int r = 0; r < f.rows; ++r) finish_row<kCount, kWhole>(f, r);
}

void finish(const Rows& f) { is_whole(f) ? finish_rows<true>(f) : finish_rows<false>(f); }

/// `kVectorsOf`: whole vectors of each piece, where they are few; -1 otherwise.
template <int kVectorsOf>
void copy_pieces(const Pieces& p) {
  const std::int64_t vectors = kVectorsOf < 0 ? p.length / kLanes : kVectorsOf;
  const auto rest = static_cast<int>(p.length % kLanes);
  const Mask there = mask_of(rest);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float* from = p.from + r * p.from_step;
    float* to = p.to + r * p.to_step;
    for (std::int64_t t = 0; t < p.taps; ++t, from += p.tap_step, to += p.length) {
      for (std::int64_t v = 0; v < vectors; ++v) std::memcpy(to + v * kLanes, from + v * kLanes, sizeof(Vector));
      if (rest == 0) continue;
      const std::int64_t at = vectors * kLanes;
      store_masked(to + at, load_masked(from + at, there), there);
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

void turn(const Turn& m) {
  const auto part = [](std::int64_t left) { return left < kLanes ? static_cast<int>(left) : kLanes; };
  for (std::int64_t row = 0; row < m.rows; row += kLanes)
    for (std::int64_t column = 0; column < m.columns; column += kLanes)
      turn_block(m.to + column * m.to_step + row, m.to_step, m.from + row * m.from_step + column, m.from_step,
                 part(m.rows - row), part(m.columns - column));
}

constexpr Kernels kKernels = {kWidth, kLanes, kRowsOf, kDepth, multiply, widen, finish, copy, turn, multiply_channels};

}  // namespace
}  // namespace coil::runtime::panels
