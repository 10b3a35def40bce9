// The text in front of generated Metal kernels: the functions (`c_…`) that kernels call, as CUDA's do
// (codegen/cuda/prelude.h), over Metal's own library. The texts are the files of device/metal, device/grid and
// device/shared.
#pragma once
#include <string>
#include <string_view>

namespace coil::codegen {

/// All that stands in front of `kernels` in a file for Metal's compiler.
std::string metal_head(std::string_view kernels);
/// The same for a compiler of C++, which runs the kernels on this machine.
std::string metal_head_on_cpu(std::string_view kernels);

}  // namespace coil::codegen
