#include "runtime/groups/reductions.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>

#include "runtime/views/half.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<T>)  // without the overflow of signed types, or of what narrow ones widen to
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
      return a * b;
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a) ? a : b < a || std::isnan(b) ? b : a;
    else
      return std::min(a, b);
  }
};
struct Greatest {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a) ? a : b > a || std::isnan(b) ? b : a;
    else
      return std::max(a, b);
  }
};
struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

template <class Stored, class Computed, class F>
void combine(void* to, const void* from, std::size_t count) {
  auto* out = static_cast<Stored*>(to);
  const auto* in = static_cast<const Stored*>(from);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<Stored>(F{}(static_cast<Computed>(out[i]), static_cast<Computed>(in[i])));
}

template <class Stored, class Computed = Stored>
Combine of_numbers(std::string_view reduce) {
  if (reduce == "sum" || reduce == "avg") return combine<Stored, Computed, Add>;
  if (reduce == "product") return combine<Stored, Computed, Multiply>;
  if constexpr (std::is_arithmetic_v<Computed>) {
    if (reduce == "min") return combine<Stored, Computed, Least>;
    if (reduce == "max") return combine<Stored, Computed, Greatest>;
  }
  if constexpr (std::is_integral_v<Computed>) {
    if (reduce == "band") return combine<Stored, Computed, BitAnd>;
    if (reduce == "bor") return combine<Stored, Computed, BitOr>;
    if (reduce == "bxor") return combine<Stored, Computed, BitXor>;
  }
  return {};
}

Combine find(std::string_view reduce, DType dtype) {
  switch (dtype) {
    case DType::U8: return of_numbers<std::uint8_t>(reduce);
    case DType::I8: return of_numbers<std::int8_t>(reduce);
    case DType::I16: return of_numbers<std::int16_t>(reduce);
    case DType::I32: return of_numbers<std::int32_t>(reduce);
    case DType::I64: return of_numbers<std::int64_t>(reduce);
    case DType::U16: return of_numbers<std::uint16_t>(reduce);
    case DType::U32: return of_numbers<std::uint32_t>(reduce);
    case DType::U64: return of_numbers<std::uint64_t>(reduce);
    case DType::Bool: return of_numbers<bool>(reduce);
    case DType::F16: return of_numbers<F16, float>(reduce);
    case DType::BF16: return of_numbers<BF16, float>(reduce);
    case DType::F32: return of_numbers<float>(reduce);
    case DType::F64: return of_numbers<double>(reduce);
    case DType::C64: return of_numbers<std::complex<float>>(reduce);
    case DType::C128: return of_numbers<std::complex<double>>(reduce);
    default: return {};
  }
}

template <class Stored, class Computed = Stored>
void divide(void* sums, std::size_t count, int ranks) {
  auto* at = static_cast<Stored*>(sums);
  for (std::size_t i = 0; i < count; ++i)
    at[i] = static_cast<Stored>(static_cast<Computed>(at[i]) / static_cast<Computed>(static_cast<float>(ranks)));
}

}  // namespace

Combine combination(std::string_view reduce, DType dtype) {
  if (Combine found = find(reduce, dtype)) return found;
  fail("a collective does not combine {} by '{}'", torch_name(dtype), reduce);
}

void average(void* sums, std::size_t count, DType dtype, int ranks) {
  switch (dtype) {
    case DType::F16: return divide<F16, float>(sums, count, ranks);
    case DType::BF16: return divide<BF16, float>(sums, count, ranks);
    case DType::F32: return divide<float>(sums, count, ranks);
    case DType::F64: return divide<double>(sums, count, ranks);
    case DType::C64: return divide<std::complex<float>>(sums, count, ranks);
    case DType::C128: return divide<std::complex<double>>(sums, count, ranks);
    default: fail("a collective takes no average of {}", torch_name(dtype));
  }
}

}  // namespace coil::runtime::groups
