// How collectives combine elements: by name, for each dtype that has such a combination.
#pragma once
#include <string_view>

#include "runtime/groups/transport.h"
#include "tensor/dtype.h"

namespace coil::runtime::groups {

/// For `sum`, `avg` (a sum; `average` ends it), `product`, `min`, `max` (NaN wins), `band`, `bor`, `bxor`. 16-bit
/// floats are combined as f32 and rounded each time. Throws Error for a dtype that has none.
Combine combination(std::string_view reduce, DType);

/// Divides the sums of `avg`.
void average(void* sums, std::size_t count, DType, int ranks);

}  // namespace coil::runtime::groups
