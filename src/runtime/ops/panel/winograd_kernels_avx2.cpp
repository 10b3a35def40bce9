#ifdef __AVX2__
#include "runtime/ops/panel/winograd_kernels.h"

#include <immintrin.h>

#include <cstdint>

namespace coil::runtime::panels {
namespace {

typedef float Vector __attribute__((vector_size(32)));
constexpr int kLanes = 8;

/// All bits of each.
typedef std::int32_t Lanes __attribute__((vector_size(32)));

[[gnu::always_inline]] inline Lanes first_lanes(int count) { return Lanes{0, 1, 2, 3, 4, 5, 6, 7} < count; }
[[gnu::always_inline]] inline bool any(Lanes lanes) { return _mm256_movemask_ps((__m256)lanes) != 0; }
[[gnu::always_inline]] inline Vector load_vector(const float* from) { return (Vector)_mm256_loadu_ps(from); }
/// Zeros elsewhere.
[[gnu::always_inline]] inline Vector load_lanes(const float* from, Lanes there) {
  return (Vector)_mm256_maskload_ps(from, (__m256i)there);
}
[[gnu::always_inline]] inline void store_vector(float* to, Vector x) { _mm256_storeu_ps(to, (__m256)x); }
/// Greater, or NaN.
[[gnu::always_inline]] inline Lanes not_below(Vector x, float most) {
  return (Lanes)_mm256_cmp_ps((__m256)x, _mm256_set1_ps(most), _CMP_NLE_UQ);
}
/// x - x is NaN for NaN and infinities.
[[gnu::always_inline]] inline Lanes not_finite(Vector x) {
  const auto zero = _mm256_sub_ps((__m256)x, (__m256)x);
  return (Lanes)_mm256_cmp_ps(zero, zero, _CMP_UNORD_Q);
}

}  // namespace
}  // namespace coil::runtime::panels

#include "runtime/ops/panel/winograd_kernel_loops.h"

namespace coil::runtime::panels {

extern const WinogradKernels kWinogradAvx2 = kTransforms;

}  // namespace coil::runtime::panels
#endif
