// Floats of 64 bits, which Metal does not have, as they are stored: their bits, made of other numbers and rounded to
// f32 by operations on integers.
#pragma once
#include "machine.h"

// @piece doubles
// Without constructors, which Metal would want for each address space that it lies in.
struct f64 {
  u64 bits;
};
C_FN f64 c_f64_of(u64 bits) {
  f64 r;
  r.bits = bits;
  return r;
}
C_FN f64 c_get_f64(f64 x) { return x; }
C_FN f64 c_put_f64(f64 x) { return x; }
C_FN f64 c_cast_f64(f64 x) { return x; }
C_FN f64 c_cast_f64(f32 x) {
  const u32 b = c_bits_of(x), size = b & 0x7fffffffu;
  const u64 sign = (u64)(b >> 31) << 63;
  if (size >= 0x7f800000u) return c_f64_of(sign | (u64)0x7ff << 52 | (u64)(size & 0x7fffffu) << 29);
  if (size == 0) return c_f64_of(sign);
  // Below the least normal number of f32 the digits are moved up to where f64 has its first.
  const int up = size < 0x800000u ? (int)metal::clz(size) - 8 : 0;
  const u64 digits = (u64)size << up;
  return c_f64_of(sign | ((digits << 29) + ((u64)(896 - (up ? up - 1 : 0)) << 52) - (up ? (u64)1 << 52 : 0)));
}
// To the nearest, of two equally near the even one.
C_FN f64 c_cast_f64(i64 x) {
  const u64 sign = x < 0 ? (u64)1 << 63 : 0, size = x < 0 ? 0 - (u64)x : (u64)x;
  if (size == 0) return c_f64_of(0);
  const int top = 63 - (int)metal::clz(size);
  u64 digits = top <= 52 ? size << (52 - top) : size >> (top - 52);
  if (top > 52) {
    const u64 middle = (u64)1 << (top - 53), rest = size & (2 * middle - 1);
    digits += rest > middle || (rest == middle && (digits & 1));
  }
  return c_f64_of(sign | (((u64)(top + 1022) << 52) + digits));
}
// @for $t: i32, i16, i8, u32, u16, u8, bool
C_FN f64 c_cast_f64($t x) { return c_cast_f64((i64)x); }
// @end
C_FN f32 c_cast_f32(f64 x) {
  const u32 sign = (u32)(x.bits >> 63) << 31;
  const u64 size = x.bits & (((u64)1 << 63) - 1), infinity = (u64)0x7ff << 52;
  if (size >= infinity) return c_f32_of(sign | 0x7f800000u | (size > infinity ? 0x400000u : 0u));
  const int exponent = (int)(size >> 52) - 896;  // of f32, where it has one
  if (exponent < -24) return c_f32_of(sign);
  u64 digits = (size & (((u64)1 << 52) - 1)) | (u64)1 << 52;
  const int drop = exponent > 0 ? 29 : 30 - exponent;
  const u64 middle = (u64)1 << (drop - 1), rest = digits & (2 * middle - 1);
  digits >>= drop;
  digits += rest > middle || (rest == middle && (digits & 1));
  // A carry out of the digits raises the exponent.
  const u64 made = exponent > 0 ? digits + ((u64)(exponent - 1) << 23) : digits;
  return c_f32_of(sign | (u32)(made > 0x7f800000u ? 0x7f800000u : made));
}
