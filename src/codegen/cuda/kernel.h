// A group of fused operations, or a scatter, as the text of one CUDA kernel.
#pragma once
#include "codegen/cuda/dialect.h"
#include "codegen/heuristics/launch_config.h"
#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

/// The kernel of the loops of a group (codegen/grid_nest.h), or of a scatter's, in CUDA C++ or a language like it. The
/// text is a function of the fused node alone. It stands behind cuda_machine(), cuda_prelude() and sym::cpp_helpers().
/// Kernels move packs of up to 16 bytes: every buffer must start at a multiple of 16 bytes. A scatter is a thread for
/// an iteration or a few neighbouring ones, by atomic updates; where several iterations assign to one place, any of
/// them wins, as in eager on a GPU.
Kernel print_cuda_nest(ir::Graph&, LoopNest, const target::Target&, const LaunchRequest& = {},
                       const Dialect& = cuda_dialect());

/// A kernel for several sets of its buffers in one launch (Backend::batch): the pointers come as one table.
KernelParts batch_cuda_kernel(KernelParts, std::size_t buffers, std::size_t count);

}  // namespace coil::codegen
