// The host compiler that turns kernel text into shared objects, and the cache of what it made.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/extension_api.h"

namespace coil::codegen {

/// A compiler and the instruction set that it compiles for.
struct Toolchain {
  std::filesystem::path compiler;
  std::string isa;                 ///< as packages state it and `machine_runs` reads it: `avx2`, `avx512+avx512bf16`
  int lanes = 4;                   ///< f32 in a vector: what `prelude` and the kernels are written for
  std::vector<std::string> flags;  ///< all but input and output
  std::string identity;            ///< tells one compiler from the next in cache keys
};

/// `compiler` (option `cpu.compiler`): a name or path; empty for the first of c++, g++, clang++ in PATH.
/// `isa` (option `cpu.isa`): `native`, `avx512`, `avx2` or `baseline`.
/// Throws Error when there is no compiler or the instruction set is not known.
Toolchain find_toolchain(const std::string& compiler = "", const std::string& isa = "native");

/// Whether a flag says how kernels are optimized.
bool is_optimization(std::string_view flag);

/// For kernels that run once, or are only tested: what they gain by more optimization is less than it takes.
void optimize_less(Toolchain&);

struct CompileSharedOptions {
  int jobs = 2;                                       ///< compilers that run at once
  std::optional<std::filesystem::path> cache_folder;  ///< made when it is not there; nothing is cached without it
};

/// Compiles each source (a whole translation unit) into a shared object and returns their bytes, in order.
/// Sources found in the cache are not compiled; a damaged entry is a miss. Throws Error with the compiler's first
/// complaint.
COIL_EXTENSION_API std::vector<std::vector<std::byte>> compile_shared(const Toolchain&,
                                                                      std::span<const std::string> sources,
                                                                      const CompileSharedOptions& = {});

}  // namespace coil::codegen
