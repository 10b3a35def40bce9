// Kernels that the fake driver runs, by the names that tests and Coil's copier give them.
#pragma once
#include <cstdint>
#include <string_view>

namespace coil::fake_cuda {

/// A kernel's parameters, eight bytes each, and how many threads run along x.
using HostKernel = void (*)(const std::uint64_t* words, std::uint64_t threads);
/// Null where there is none of that name.
HostKernel find_kernel(std::string_view name);

}  // namespace coil::fake_cuda
