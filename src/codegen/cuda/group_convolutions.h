// Convolutions in groups of few channels, and the gradients of their weights, as kernels of Coil's own.
#pragma once
#include <string>
#include <string_view>

#include "codegen/kernel.h"
#include "target/target.h"

namespace coil::codegen {

/// Whether `cuda_group_convolution` makes kernels of operations of this name:
///     blocked_convolution          x [N, C, H, W], weight, bias?, operands -> y
///     blocked_convolution_weights  x, dy -> sums [P, O, C / groups, ..]
/// in 16 bits, with channels of x and dy innermost and their places on 16 bytes.
bool is_cuda_group_convolution(std::string_view op);
Kernel cuda_group_convolution(ir::Graph&, const ir::Extern& call, const target::Target&);

}  // namespace coil::codegen
