// The text that every program written as Python has in front of its own: kernels compiled and called, library calls,
// weights, inputs checked.
#pragma once
#include <set>
#include <string>

#include "tensor/device.h"

namespace coil::wrapper {

/// Imports and helpers for programs of the device. `library_ops`: those that the program calls, whose equals in torch
/// are written out. `over_host`: it lies on the CPU as well.
std::string python_support(Device, const std::set<std::string>& library_ops, bool over_host);
/// Throws Error where one of them has no equal in torch, which alone carries them out on a GPU.
void require_torch_ops(Device, const std::set<std::string>& library_ops);
/// The torch operators through which an FX graph calls kernels and library operations, after python_support.
std::string python_fx_support(Device);
/// Names that the text defines: programs must not use them for their own.
std::set<std::string> python_support_names();

/// How a program runs its parts.
std::string python_parts();

}  // namespace coil::wrapper
