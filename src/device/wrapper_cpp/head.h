// What every program written as C++ begins with: includes, errors, arithmetic of sizes.
#pragma once

// @piece head
#include <coil/runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC diagnostic ignored "-Wunused-function"  // a program needs some of what follows

namespace {

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }
void check(int error) {
  if (error) fail(coil_last_error());
}

/// 64-bit arithmetic on sizes that refuses to overflow.
struct Size {
  int64_t value = 0;
  Size() = default;
  constexpr Size(std::integral auto v) : value(static_cast<int64_t>(v)) {}
  explicit operator int64_t() const { return value; }
  explicit operator bool() const { return value != 0; }
};
[[noreturn]] void overflow() { fail("the sizes of this call overflow 64 bits"); }
Size operator+(Size a, Size b) {
  if (__builtin_add_overflow(a.value, b.value, &a.value)) overflow();
  return a;
}
Size operator-(Size a, Size b) {
  if (__builtin_sub_overflow(a.value, b.value, &a.value)) overflow();
  return a;
}
Size operator*(Size a, Size b) {
  if (__builtin_mul_overflow(a.value, b.value, &a.value)) overflow();
  return a;
}
Size operator/(Size a, Size b) {
  if (b.value == 0) fail("the sizes of this call lead to a division by zero");
  return b.value == -1 ? Size() - a : Size(a.value / b.value);
}
Size operator%(Size a, Size b) {
  if (b.value == 0) fail("the sizes of this call lead to a division by zero");
  return b.value == -1 ? 0 : a.value % b.value;
}
Size operator-(Size a) { return Size() - a; }
Size operator&(Size a, Size b) { return a.value & b.value; }
Size operator|(Size a, Size b) { return a.value | b.value; }
Size operator^(Size a, Size b) { return a.value ^ b.value; }
Size operator<<(Size a, Size b) {
  if (b.value < 0 || b.value > 62) overflow();
  return a * Size(int64_t{1} << b.value);
}
Size operator>>(Size a, Size b) { return a.value >> (b.value < 0 || b.value > 63 ? 63 : b.value); }
Size& operator*=(Size& a, Size b) { return a = a * b; }
Size& operator++(Size& a) { return a = a + 1; }
bool operator==(Size a, Size b) { return a.value == b.value; }
bool operator<(Size a, Size b) { return a.value < b.value; }
bool operator<=(Size a, Size b) { return a.value <= b.value; }
using Sizes = std::initializer_list<Size>;

// Sizes that are made of floats.
double to_float(Size v) { return static_cast<double>(v.value); }
Size to_size(double x) {
  if (!(std::fabs(x) < 0x1p63))
    fail("a size is made of the float " + std::to_string(x) + ", which does not fit in 64 bits");
  return static_cast<int64_t>(x);
}
// Floats that are read from data, and those that kernels are given, travel as their bits.
double float_of_bits(Size v) {
  double x;
  std::memcpy(&x, &v.value, sizeof x);
  return x;
}
Size bits_of_float(double x) {
  Size v;
  std::memcpy(&v.value, &x, sizeof x);
  return v;
}
double float_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/// Element types, by the numbers that C has for them; the table `dtypes` follows.
struct Dtype {
  coil_dtype number;
  int bytes;
  const char *short_name, *name;
};

}  // namespace
