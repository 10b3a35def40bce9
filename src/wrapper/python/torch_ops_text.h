// Library operations in torch, for programs written as Python: on a GPU, and on machines without Coil's runtime. One
// function of each; the table in library_ops/ says what they do.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "tensor/device.h"

namespace coil::wrapper {

/// The functions of these operations and the table `TORCH_OPS` of them. An operation that has no equal here can only be
/// run by Coil's runtime.
std::string python_torch_ops(DeviceType, const std::set<std::string>& ops);
/// Whether the operation has such an equal.
bool is_torch_op(DeviceType, std::string_view op);

}  // namespace coil::wrapper
