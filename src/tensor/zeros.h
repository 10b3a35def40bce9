// Tensors that stand for values that nobody has: all zeros, whose memory costs nothing until somebody touches it.
#pragma once
#include <optional>
#include <span>

#include "tensor/tensor.h"

namespace coil {

/// One that lies so; nothing where there is no room for it, or a size or stride is negative.
std::optional<Tensor> zeros(DType, std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

}  // namespace coil
