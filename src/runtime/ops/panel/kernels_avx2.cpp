#ifdef __AVX2__
#include <immintrin.h>

#include <cstdint>

#include "runtime/ops/panel/kernels.h"

#ifdef __clang__
#define COIL_UNROLL _Pragma("unroll")
#else
#define COIL_UNROLL _Pragma("GCC unroll 16")
#endif

typedef float CoilVector __attribute__((vector_size(32)));

// Vector functions of the C library (libmvec).
extern "C" {
CoilVector _ZGVdN8v_expm1f(CoilVector);
CoilVector _ZGVdN8v_tanhf(CoilVector);
}
#define COIL_VECTOR_MATH(name) _ZGVdN8v_##name

namespace coil::runtime::panels {
namespace {

using Vector = CoilVector;
constexpr int kBytes = sizeof(Vector), kVectors = 2;
// Rows at once, by the vectors of a panel: as many sums as the sixteen registers hold beside a row of the panel and an
// element.
constexpr int kRowsOf[] = {0, 8, 6};
constexpr int kLanes = kBytes / 4, kWidth = kVectors * kLanes;
constexpr std::int64_t kDepth = 768;

typedef std::uint32_t Words __attribute__((vector_size(kBytes)));
typedef std::uint16_t Halves __attribute__((vector_size(kBytes / 2)));

typedef std::int32_t Integers __attribute__((vector_size(kBytes)));

Vector from_f16(Halves bits) { return (Vector)_mm256_cvtph_ps((__m128i)bits); }
Halves to_f16(Vector x) { return (Halves)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }

/// A mask of the first lanes of a vector.
struct Mask {
  int count;
  Integers lanes;
};
Mask mask_of(int count) { return {count, Integers{0, 1, 2, 3, 4, 5, 6, 7} < count}; }
/// Zeros where the mask has nothing.
Vector load_masked(const float* from, const Mask& there) {
  return (Vector)_mm256_maskload_ps(from, (__m256i)there.lanes);
}
/// By parts: the instruction that stores under a mask takes some twenty cycles on AMD's processors.
void store_masked(float* to, Vector x, const Mask& there) {
  if (there.count >= kLanes) return _mm256_storeu_ps(to, (__m256)x);
  __m128 rest = _mm256_castps256_ps128((__m256)x);
  if (there.count & 4) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps((__m256)x, 1);
    to += 4;
  }
  if (there.count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if (there.count & 1) _mm_store_ss(to, rest);
}

/// x y and x y - z, each rounded once.
[[gnu::always_inline]] inline Vector product(Vector x, Vector y) { return (Vector)_mm256_mul_ps((__m256)x, (__m256)y); }
[[gnu::always_inline]] inline Vector product_less(Vector x, Vector y, Vector z) {
  return (Vector)_mm256_fmsub_ps((__m256)x, (__m256)y, (__m256)z);
}
/// To the nearest whole number, even ones first.
[[gnu::always_inline]] inline Vector rounded(Vector x) {
  return (Vector)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// x 2^n for whole n between -252 and 254, in two steps so that both powers are numbers.
[[gnu::always_inline]] inline Vector scaled(Vector x, Vector n) {
  const Integers whole = (Integers)_mm256_cvtps_epi32((__m256)n), half = whole >> 1;
  return x * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
}

/// max(x, 0) - size e, without the second part where size is beyond sqrt 32.
[[gnu::always_inline]] inline Vector gelu_of(Vector x, Vector size, Vector e) {
  const Vector above = x < 0.f ? x * 0.f : x;
  return size > 5.65685425f ? above : above - size * e;
}

/// Eight rows of eight become columns; of them `rows` and `columns` are there.
void turn_block(float* to, std::int64_t to_step, const float* from, std::int64_t from_step, int rows, int columns) {
  const Mask present = mask_of(columns), stored = mask_of(rows);
  __m256 r[kLanes], t[kLanes];
  COIL_UNROLL
  for (int i = 0; i < kLanes; ++i) r[i] = (__m256)(i < rows ? load_masked(from + i * from_step, present) : Vector{});
  COIL_UNROLL
  for (int i = 0; i < kLanes; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  // r[4 i + j] has columns j and 4 + j of rows 4 i to 4 i + 3.
  COIL_UNROLL
  for (int i = 0; i < kLanes; i += 4) {
    COIL_UNROLL
    for (int half = 0; half < 2; ++half) {
      r[i + 2 * half] = _mm256_shuffle_ps(t[i + half], t[i + 2 + half], 0x44);
      r[i + 2 * half + 1] = _mm256_shuffle_ps(t[i + half], t[i + 2 + half], 0xee);
    }
  }
  COIL_UNROLL
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
    t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
  }
  COIL_UNROLL
  for (int i = 0; i < kLanes; ++i)
    if (i < columns) store_masked(to + i * to_step, (Vector)t[i], stored);
}

}  // namespace
}  // namespace coil::runtime::panels

#include "runtime/ops/panel/kernel_loops.h"

namespace coil::runtime::panels {

extern const Kernels kAvx2 = kKernels;

}  // namespace coil::runtime::panels
#endif
