// Descriptors of tensors, made by the driver.
#pragma once
#include "runtime/cuda/driver/driver.h"
#include "runtime/plan/tensor_map.h"

namespace coil::runtime::cuda {

/// The descriptor of the tensor at this address, kTensorMapBytes at `to`. Throws Error: a driver that makes none, or
/// what no descriptor can say.
void make_tensor_map(const Driver&, const TensorMapShape&, void* address, void* to);

}  // namespace coil::runtime::cuda
