// Kernels that the fake driver runs, by the names that tests and Coil's copier give them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace coil::fake_cuda {

/// A kernel's parameters, eight bytes each, and how many threads run along x.
using HostKernel = void (*)(const std::uint64_t* words, std::uint64_t threads);
/// Null where there is none of that name.
HostKernel find_kernel(std::string_view name);

/// A compiler's kernel behind the machine of `cuda.emulate`, with its grid and the threads of a block: from the shared
/// object that COIL_FAKE_CUDA_KERNELS names (test/python/emulated_cuda.py makes them).
using EmulatedKernel = void (*)(const std::uint64_t* words, const std::uint64_t* grid, unsigned block);
EmulatedKernel find_emulated_kernel(const std::string& name);

}  // namespace coil::fake_cuda
