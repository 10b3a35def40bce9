// A group of fused operations as the text of one C++ kernel.
#pragma once
#include <string>

#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "scheduler/schedule.h"

namespace coil::codegen {

struct KernelOptions {
  int lanes = 16;  ///< f32 lanes of a vector: 16 for AVX-512, 8 for AVX2, 4 for the baseline
};

/// Text that stands between the prelude and the kernels: index arithmetic, checked indices.
std::string kernel_support();

/// Prelude functions that the text calls are found by codegen::prelude_names.
Kernel print_kernel(ir::Graph&, const scheduler::Group&, const KernelOptions&);
/// A scatter: threads share the places that are written to.
Kernel print_scatter(ir::Graph&, const ir::Operation&, const KernelOptions&);
/// The loops of either, once they are made ready.
Kernel print_nest(ir::Graph&, LoopNest, const KernelOptions&);

}  // namespace coil::codegen
