// The text in front of generated CPU kernels: vector types and the scalar and vector functions (`c_…`) that kernels
// call, from the files of device/cpp and device/shared.
//
// Generated kernels include nothing; they are compiled with this text before them, cut down to what they use.
//
// Types, for L lanes (macro COIL_L): scalars `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool`; L-lane vectors of them with
// a `v` behind (`f32v`, `i64v`, …), and `boolv`, a mask. f16, bf16 and the floats of 8 bits live in memory only: their
// values are f32 in registers. 64-bit vectors and masks are structs, so kernels use the functions below and no
// operators on them.
//
// Functions take scalars or vectors alike (both operands of one type). `<d>` is a short dtype name (`f32`, `bf16`,
// `b8`, …). Strides and indices count elements; n: only the first n lanes, others read as 0.
//
//   memory      c_load_<d>(p) c_load_<d>v(p) c_loadn_<d>v(p, n)
//               c_loads_<d>v(p, stride) c_loadsn_<d>v(p, stride, n)
//               c_gather_<d>v(p, i64v) c_gathern_<d>v(p, i64v, n)
//               c_store_<d>(p, x) c_storen_<d>(p, x, n) c_stores_<d>(p, stride, x) c_storesn_<d>(p, stride, x, n)
//               c_scatter_<d>(p, i64v, x) c_scattern_<d>(p, i64v, x, n)
//               c_loads2_<d>v(p) c_loads4_<d>v(p) c_loadsn2_<d>v(p, n) c_loadsn4_<d>v(p, n): every second, every
//               fourth element, by whole loads
//               c_tile_<d>v(rows, p, stride, n): L vectors, transposed in registers
//               c_stream_<d>(p, x, past), of 16 bits and more: past the cache where `past` is c_past_cache(bytes that
//               the kernel stores so), which says no where the last cache holds them; c_stream_end(past) at the end
//               c_fetch(p) c_fetch_far(p): will be read soon, into the nearest cache and into the next
//   making      c_splat_<d>v(x) c_iota_i64v(start) c_iota_i32v(start) c_lane(v, i) c_firstn(n) (a mask)
//   converting  c_cast_<d>(x) c_round_<d>(x) (of the narrow floats) c_bitcast_<d>(x)
//   arithmetic  c_add c_sub c_mul c_div c_div_by(v, x) c_fma c_floordiv c_truncdiv c_rem c_fmod c_pow c_max c_min
//               c_fmax c_fmin c_neg c_abs c_sign c_sqrt c_rsqrt c_recip c_floor c_ceil c_trunc c_round c_copysign
//               c_nextafter
//   compare     c_eq c_ne c_lt c_le c_gt c_ge c_where(condition, x, y) c_isnan c_isinf c_signbit
//   bits        c_and c_or c_xor c_not c_shl c_shr
//   functions   c_exp c_exp2 c_expm1 c_log c_log2 c_log10 c_log1p c_sin c_cos c_tan c_asin c_acos c_atan c_atan2
//               c_sinh c_cosh c_tanh c_asinh c_acosh c_atanh c_erf c_erfc c_erfinv c_sigmoid c_hypot c_lgamma
//               c_digamma, and those of device/shared/special.h
//   lanes       c_hsum c_hprod c_hmax c_hmin c_hany c_hall c_hxor c_prefix_add c_prefix_mul c_prefix_max c_prefix_min
//               c_last c_permute c_transpose c_check c_require
//
// Semantics are torch's (CPU): NaN goes through max and min, integer division by zero gives 0, shifts past the width
// give 0 or the sign. f32 functions are within 2 ulp over the whole range (sigmoid 2.5); test/unit/prelude_test.cpp
// states the bound of each. c_coarse_exp and c_coarse_sigmoid (within 2^-16), c_coarse_one_plus_erf and
// c_coarse_one_plus_tanh (2^-14), c_coarse_erf and c_coarse_tanh (15 and 6 ulp), and c_coarse_div_by (1.5) serve values
// that end in f16 or bf16 (codegen/coarse.h).
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace coil::codegen {

/// The prelude for vectors of `lanes` f32 (16, 8 or 4) with the functions `used` and what these need, in a fixed order.
/// A name that the prelude does not have is an invariant error.
std::string prelude(int lanes, const std::set<std::string>& used);

/// The prelude names (`c_…`) that a kernel's text mentions.
std::set<std::string> prelude_names(std::string_view kernel_text);
/// All names that the prelude has.
std::set<std::string> prelude_names();

/// Whether the prelude has this function.
bool has_prelude_function(std::string_view name);

}  // namespace coil::codegen
