// Packages: programs as files (docs/package.md).
#pragma once
#include <filesystem>

#include "runtime/plan/program.h"

namespace coil::runtime {

/// Writes `model.coil` (docs/package.md): plan, kernels, weights; constants that share memory share it in the file too.
/// Same program, same bytes. Written aside and renamed.
void save_package(const StoredProgram&, const std::filesystem::path&);

/// What loading verifies of the weights; plan and kernels are always checked against their hashes.
enum class WeightCheck {
  Size,  ///< that they are all there: the file is only mapped
  Hash,  ///< every byte, which reads them all
};
/// Throws Error on a file that is no package, is cut short or was altered. Constants lie in the mapped file,
/// copy-on-write.
StoredProgram load_program(const std::filesystem::path&, WeightCheck = WeightCheck::Size);

}  // namespace coil::runtime
