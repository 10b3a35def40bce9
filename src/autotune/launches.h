// Launch configs by measurement: each kernel of a schedule is timed in the configs that heuristics find worth trying;
// the fastest goes into the schedule, and is remembered on disk.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/sizes.h"
#include "autotune/timer.h"
#include "codegen/backend.h"
#include "ir/ir.h"
#include "ops/user_kernel.h"
#include "scheduler/schedule.h"

namespace coil::autotune {

struct LaunchOptions {
  int jobs = 2;
  std::optional<std::filesystem::path> cache;  ///< folder of the kernel cache; none: what is found is not remembered
  ToldSizes told = {};                         ///< sizes that data tell, on example inputs
  /// Kernels in Triton with their code; none: they are not timed.
  using Kernels = std::vector<std::shared_ptr<const ops::UserKernel>>;
  std::function<Kernels(std::span<const std::shared_ptr<const ops::UserKernel>>)> compile_triton = {};
};

/// A kernel at the sizes that are measured; nothing where one is not known.
std::optional<Trial> trial_of(ir::Graph&, const codegen::Kernel&, const ToldSizes&);

/// Sets Group::launch_config of each group whose sizes are known or taken for something (MeasuredSizes). A kernel with
/// the same text, sizes and device as one that was measured before takes what was found then. The first config, the
/// heuristics' own, stays unless another is clearly faster. Configs of one kernel may be in CUDA C++ and in Triton.
/// Returns a line for each kernel, for logs. Throws Error when kernels cannot be compiled, or the device fails.
std::string choose_launches(ir::Graph&, scheduler::Schedule&, const codegen::Backend&, Timer&, const LaunchOptions&);

}  // namespace coil::autotune
