// One launch of a kernel in Triton for several calls, on different memory each.
#pragma once
#include <cstddef>

#include "codegen/kernel.h"

namespace coil::codegen {

/// The kernel on `count` calls' tensors, one call's behind the other's; which call a program works for is its number
/// along y.
TritonParts batch_triton_kernel(const TritonParts&, std::size_t count);

}  // namespace coil::codegen
