// What CUDA's binaries say of their kernels. A cubin is an ELF file, whose sections are laid out as `nvdisasm` and
// `cuobjdump` print them.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/resources.h"

namespace coil::codegen {

bool is_cubin(std::span<const std::byte> binary);
/// The resources of each kernel, in the order of their names. Throws Error on a file that is torn.
std::vector<KernelResources> cubin_resources(std::span<const std::byte> cubin);
/// The instructions of its kernels, by the toolkit's `nvdisasm`, from PATH or the toolkit's folder; where there is none
/// a line that says so.
std::string disassembled(std::span<const std::byte> cubin);

}  // namespace coil::codegen
