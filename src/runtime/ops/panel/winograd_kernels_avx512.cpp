#ifdef __AVX512F__
#include "runtime/ops/panel/winograd_kernels.h"

#include <immintrin.h>

#include <cstdint>

namespace coil::runtime::panels {
namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr int kLanes = 16;

/// A bit for each.
using Lanes = __mmask16;

[[gnu::always_inline]] inline Lanes first_lanes(int count) {
  return static_cast<Lanes>(count < kLanes ? (1u << count) - 1 : 0xffffu);
}
[[gnu::always_inline]] inline bool any(Lanes lanes) { return lanes != 0; }
[[gnu::always_inline]] inline Vector load_vector(const float* from) { return (Vector)_mm512_loadu_ps(from); }
/// Zeros elsewhere.
[[gnu::always_inline]] inline Vector load_lanes(const float* from, Lanes there) {
  return (Vector)_mm512_maskz_loadu_ps(there, from);
}
[[gnu::always_inline]] inline void store_vector(float* to, Vector x) { _mm512_storeu_ps(to, (__m512)x); }
/// Greater, or NaN.
[[gnu::always_inline]] inline Lanes not_below(Vector x, float most) {
  return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(most), _CMP_NLE_UQ);
}
[[gnu::always_inline]] inline Lanes not_finite(Vector x) {
  constexpr int kNotFinite = 0x99;  // quiet and signalling NaN, both infinities
  return _mm512_fpclass_ps_mask((__m512)x, kNotFinite);
}

}  // namespace
}  // namespace coil::runtime::panels

#include "runtime/ops/panel/winograd_kernel_loops.h"

namespace coil::runtime::panels {

extern const WinogradKernels kWinogradAvx512 = kTransforms;

}  // namespace coil::runtime::panels
#endif
