// Library operations in torch, for programs written as Python on machines without Coil's runtime: one function of each, beside runtime/library.h, which says what they do.
#pragma once
#include <set>
#include <string>

namespace coil::wrapper {

/// The functions of these operations and the table `TORCH_OPS` of them. An operation that has no equal here can only be run by Coil's runtime.
std::string python_torch_ops(const std::set<std::string>& ops);

}  // namespace coil::wrapper
