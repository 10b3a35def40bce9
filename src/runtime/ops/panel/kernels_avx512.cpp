#ifdef __AVX512F__
#include <immintrin.h>

#include <cstdint>

#include "runtime/ops/panel/kernels.h"

#ifdef __clang__
#define COIL_UNROLL _Pragma("unroll")
#else
#define COIL_UNROLL _Pragma("GCC unroll 16")
#endif

typedef float CoilVector __attribute__((vector_size(64)));

// Vector functions of the C library (libmvec).
extern "C" {
CoilVector _ZGVeN16v_expm1f(CoilVector);
CoilVector _ZGVeN16v_tanhf(CoilVector);
}
#define COIL_VECTOR_MATH(name) _ZGVeN16v_##name

namespace coil::runtime::panels {
namespace {

using Vector = CoilVector;
constexpr int kBytes = sizeof(Vector), kVectors = 4;
// Rows at once, by the vectors of a panel: as many sums as registers hold beside a row of the panel; of narrow panels
// as many rows as there are registers for their addresses.
constexpr int kRowsOf[] = {0, 10, 9, 7, 6};
constexpr int kLanes = kBytes / 4, kWidth = kVectors * kLanes;
constexpr std::int64_t kDepth = 768;

typedef std::uint32_t Words __attribute__((vector_size(kBytes)));
typedef std::uint16_t Halves __attribute__((vector_size(kBytes / 2)));

Vector from_f16(Halves bits) { return (Vector)_mm512_cvtph_ps((__m256i)bits); }
Halves to_f16(Vector x) { return (Halves)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }

/// A mask of the first lanes of a vector.
using Mask = __mmask16;
Mask mask_of(int count) { return static_cast<Mask>(count < kLanes ? (1u << count) - 1 : 0xffff); }
/// Zeros where the mask has nothing.
Vector load_masked(const float* from, Mask there) { return (Vector)_mm512_maskz_loadu_ps(there, from); }
void store_masked(float* to, Vector x, Mask there) { _mm512_mask_storeu_ps(to, there, (__m512)x); }

/// x y and x y - z, each rounded once.
[[gnu::always_inline]] inline Vector product(Vector x, Vector y) { return (Vector)_mm512_mul_ps((__m512)x, (__m512)y); }
[[gnu::always_inline]] inline Vector product_less(Vector x, Vector y, Vector z) {
  return (Vector)_mm512_fmsub_ps((__m512)x, (__m512)y, (__m512)z);
}
/// To the nearest whole number, even ones first.
[[gnu::always_inline]] inline Vector rounded(Vector x) { return (Vector)_mm512_roundscale_ps((__m512)x, 0); }
/// x 2^n for whole n.
[[gnu::always_inline]] inline Vector scaled(Vector x, Vector n) {
  return (Vector)_mm512_scalef_ps((__m512)x, (__m512)n);
}

/// max(x, 0) - size e, without the second part where size is beyond sqrt 32.
[[gnu::always_inline]] inline Vector gelu_of(Vector x, Vector size, Vector e) {
  const __m512 v = (__m512)x, zero = _mm512_setzero_ps();
  const __m512 above = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ), v, zero);
  const __mmask16 near = _mm512_cmp_ps_mask((__m512)size, _mm512_set1_ps(5.65685425f), _CMP_NGT_UQ);
  return (Vector)_mm512_mask3_fnmadd_ps((__m512)size, (__m512)e, above, near);
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
  const Mask present = mask_of(columns), stored = mask_of(rows);
  Vector r[kLanes], t[kLanes];
  COIL_UNROLL
  for (int i = 0; i < kLanes; ++i) r[i] = i < rows ? load_masked(from + i * from_step, present) : Vector{};
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
    if (i < columns) store_masked(to + i * to_step, t[i], stored);
}

}  // namespace
}  // namespace coil::runtime::panels

#include "runtime/ops/panel/kernel_loops.h"

namespace coil::runtime::panels {

extern const Kernels kAvx512 = kKernels;

}  // namespace coil::runtime::panels
#endif
