// The products that Philox is made of, for threads.
#pragma once

// @piece products
struct c_product {
  u32 low, high;
};
C_FN c_product c_wide_mul(u32 x, u32 m) { return {x * m, c_mul_high(x, m)}; }
C_FN u32 c_high_of(c_product x) { return x.high; }
C_FN u32 c_low_of(c_product x) { return x.low; }
// How functions of shared texts begin.
#define COIL_FN C_FN
