// How collectives combine elements: by name, for each dtype that has such a combination.
#pragma once
#include <string_view>
#include <type_traits>

#include "runtime/groups/transport.h"
#include "tensor/dtype.h"

namespace coil::runtime::groups {

/// a + b: integers wrap around as two's complement does, booleans are joined by or.
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};

/// For `sum`, `avg` (a sum; `average` ends it), `product`, `min`, `max` (NaN wins), `band`, `bor`, `bxor`. 16-bit
/// floats are combined as f32 and rounded each time. Throws Error for a dtype that has none.
Combine combination(std::string_view reduce, DType);

/// Divides the sums of `avg`.
void average(void* sums, std::size_t count, DType, int ranks);

}  // namespace coil::runtime::groups
