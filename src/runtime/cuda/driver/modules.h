// Kernels from cubins, or from PTX where the cubins are for another architecture.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/driver/device.h"

namespace coil::runtime::cuda {

/// `isa`: the architecture that the cubins are for (`sm_90a`); empty: unknown. Throws Error when nothing among the
/// binaries runs on the device.
std::unique_ptr<LoadedKernels> load_modules(std::shared_ptr<const CudaDevice>, const std::string& isa,
                                            std::span<const std::vector<std::byte>> libraries);

/// Loads one cubin (or NUL-terminated PTX); `log` gets the compiler's words on a failure.
Result load_module(const Driver&, const void* image, Module&, std::string& log);

/// Whether cubins for `isa` run on a device of this capability: the same major version and no newer minor one; exactly
/// the same for `sm_90a` and its like.
bool runs_on(const std::string& isa, int capability);

}  // namespace coil::runtime::cuda
