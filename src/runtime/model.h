// What a loaded model holds, for the executor's own files.
#pragma once
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/kernel_library.h"
#include "runtime/output_pool.h"

namespace coil::runtime {

struct Model::Impl {
  Plan plan;
  std::vector<Tensor> constants;
  std::vector<KernelLibrary> libraries;
  std::vector<KernelFunction> kernels;  ///< one for each of plan.kernels
  std::shared_ptr<OutputPool> pool;
  std::uint64_t weight_bytes = 0;
};

}  // namespace coil::runtime
