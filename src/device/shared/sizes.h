// Arithmetic of sizes, as C++ and its kin print it (sym/print.h).
#pragma once

// @piece sizes
template <class A, class B> static inline constexpr auto coil_floordiv(A a, B b) {
  auto q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
template <class A, class B> static inline constexpr auto coil_ceildiv(A a, B b) {
  auto q = a / b;
  return q + ((a % b != 0) && ((a < 0) == (b < 0)));
}
template <class A, class B> static inline constexpr auto coil_mod(A a, B b) {
  auto r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
template <class A, class B> static inline constexpr auto coil_min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline constexpr auto coil_max(A a, B b) { return a < b ? b : a; }
template <class A, class B> static inline constexpr auto coil_pow(A a, B b) {
  decltype(a * b) r = 1;
  for (B i = 0; i < b; ++i) r *= a;
  return r;
}
template <class A, class B> static inline constexpr auto coil_shr(A a, B b) {
  return a >> coil_min(b, B(8 * sizeof(A) - 1));
}
