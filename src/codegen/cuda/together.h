// Several small kernels as one, where launches would take longer than their work.
#pragma once
#include <optional>
#include <span>

#include "codegen/kernel.h"

namespace coil::codegen {

/// Backend::launch_together and Backend::together.
std::optional<SymbolicLaunch> launch_cuda_kernels_together(std::span<const MemberKernel>);
KernelParts put_cuda_kernels_together(std::span<const MemberKernel>, const SymbolicLaunch&);

}  // namespace coil::codegen
