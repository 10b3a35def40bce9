// Functions of f32 that activations are made of, and many quotients by one divisor: without branches, as near as f32
// has digits, or as 16 bits need.
#pragma once

// @piece activations
// x P(x²) / Q(x²), both of degree 5, fitted for the least relative error over [0, 4], past which f32 has no digit left
// below 1: 3e-7, without a branch.
C_FN f32 c_erf(f32 x) {
  x = c_min_nan(c_max_nan(x, -4.0f), 4.0f);
  const f32 s = x * x;
  const f32 p =
      c_fma(c_fma(c_fma(c_fma(c_fma(0x1.0a9ea6p-19f, s, 0x1.2a5cdep-12f), s, 0x1.fcfd14p-9f), s, 0x1.b301dcp-5f), s,
                  0x1.8c623ep-3f),
            s, 0x1.20dd74p+0f);
  const f32 q =
      c_fma(c_fma(c_fma(c_fma(c_fma(0x1.39dd6ep-15f, s, 0x1.36c63ap-10f), s, 0x1.f24eb8p-7f), s, 0x1.d87978p-4f), s,
                  0x1.027cdep-1f),
            s, 1.0f);
  return c_min_nan(c_max_nan(x * p * c_rcp_fast(q), -1.0f), 1.0f);
}
// 1 + erf(x) = erfc(-x). 2 to the power of a P(a), of degree 7, is erfc(a) for a > 0, fitted for the least absolute
// error (2e-8) over [0, 4.2]; further out its tail keeps falling.
C_FN f32 c_one_plus_erf(f32 x) {
  const f32 a = c_abs(x);
  const f32 p = c_fma(c_fma(c_fma(c_fma(c_fma(c_fma(c_fma(-0x1.7c7e7p-15f, a, 0x1.d325a2p-12f), a, -0x1.867268p-10f), a,
                                              -0x1.962214p-11f),
                                        a, 0x1.cee88ep-6f),
                                  a, -0x1.301722p-3f),
                            a, -0x1.d63aacp-1f),
                      a, -0x1.a0be9ep+0f);
  const f32 tail = c_ex2(a * p);
  return x > 0 ? 2 - tail : tail;
}
C_FN f32 c_one_plus_tanh(f32 x) { return 2 * c_rcp_fast(1.0f + c_exp(-2 * x)); }
C_FN f32 c_sigmoid(f32 x) { return c_rcp_fast(1.0f + c_exp(-x)); }
// For what ends rounded to 16 bits, and for softmax: the relative error is at most that of x by the rounding of x log2
// e, |x| times 6e-8, and results under the least normal number are 0.
C_FN f32 c_exp_coarse(f32 x) { return c_ex2(x * 0x1.715476p+0f); }
C_FN f32 c_sigmoid_coarse(f32 x) { return c_rcp_fast(1.0f + c_exp_coarse(-x)); }
C_FN f32 c_one_plus_tanh_coarse(f32 x) { return 2 * c_rcp_fast(1.0f + c_exp_coarse(-2 * x)); }
C_FN f32 c_one_plus_erf_coarse(f32 x) { return c_one_plus_erf(x); }
// x / y for many x and one y: y and its reciprocal, both scaled by a power of two where y is very large or small, so
// that neither they nor quotients leave the range that a quotient of any use stays in.
struct c_divisor {
  f32 y, r, scale;
};
C_FN c_divisor c_divisor_of(f32 y) {
  const f32 a = c_abs(y), scale = a < 0x1p-64f ? 0x1p64f : a > 0x1p64f ? 0x1p-64f : 1.0f;
  return {y * scale, 1.0f / (y * scale), scale};
}
// The quotient's residual makes up for the reciprocal's rounding.
C_FN f32 c_div_by(f32 x, c_divisor d) {
  x *= d.scale;
  const f32 q = x * d.r, better = c_fma(c_fma(-q, d.y, x), d.r, q);
  return c_abs(better) < c_f32_of(0x7f800000u) ? better : q;
}
C_FN f32 c_div_by_coarse(f32 x, c_divisor d) { return x * d.scale * d.r; }
