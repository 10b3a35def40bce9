// Kernels of Coil's own in Triton as users' kernels are: defined by their text, and compiled by Triton in a process.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "ops/user_kernel.h"

namespace coil::codegen {

/// The kernel without code.
std::shared_ptr<const ops::UserKernel> define_triton_kernel(const std::string& symbol, const TritonParts&);
/// Whether it is one of those.
bool is_triton_text(const ops::UserKernel&);
/// Whether it is one of those and has no code yet.
bool awaits_triton(const ops::UserKernel&);

struct CompileTritonOptions {
  std::string python;  ///< the Python that has Triton; empty for the first python3 or python in PATH
  std::string arch;    ///< `sm_90`
  int jobs = 2;        ///< processes at once
  std::optional<std::filesystem::path> cache_folder;
};

/// The kernels with their code, in order. What the cache holds is not compiled, but Triton must be there to say its
/// version. Throws Error where it is not, and with what Triton says of a kernel that it refuses.
std::vector<std::shared_ptr<const ops::UserKernel>> compile_triton(
    std::span<const std::shared_ptr<const ops::UserKernel>>, const CompileTritonOptions&);

}  // namespace coil::codegen
