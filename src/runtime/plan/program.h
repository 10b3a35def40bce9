// A compiled program: the plan, and the binaries and weights that it names.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Kernel binaries and weights, beside the plan.
struct StoredProgram {
  Plan plan;
  std::vector<Tensor> constants;  ///< one for each of plan.constants; may be mapped
  std::vector<std::vector<std::byte>>
      libraries;                      ///< what holds the kernels' symbols: shared objects; for CUDA cubins and PTX
  std::string kernel_source;          ///< for people; may be empty
  std::vector<Tensor> sample_inputs;  ///< one for each of plan.inputs, or none; packages keep them when they are small
  std::filesystem::path file;         ///< the package it was read from, which errors name; empty for others
  std::string provenance;             ///< where each call comes from, as JSON; empty where nobody asked
  std::vector<std::vector<std::vector<std::byte>>> other_libraries = {};  ///< `libraries`, for each of plan.others
};

}  // namespace coil::runtime
