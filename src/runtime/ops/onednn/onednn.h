// What oneDNN does for the library operations. Each function gives nothing where this build, this machine or oneDNN
// itself cannot; plain loops then take over.
#pragma once
#include "runtime/ops/convolution.h"
#include "runtime/ops/convolution_weights.h"
#include "runtime/ops/gemm.h"

namespace coil::runtime::onednn {

/// Whether products of bf16 are faster than those of f32 here.
bool multiplies_bf16();

std::unique_ptr<PreparedCall> make_gemm(const GemmProblem&);
/// Whether it multiplies so, with these post-operations, by another implementation than its reference loops.
bool has_gemm_kernel(const GemmProblem&);
std::unique_ptr<PreparedCall> make_convolution(const ConvolutionProblem&);
std::unique_ptr<PreparedCall> make_weight_gradient(const WeightGradientProblem&);

/// Whether it convolves so by a kernel for convolutions: where strides, paddings and post-operations fit none, it
/// copies windows for its GEMM, or takes reference loops.
bool has_convolution_kernel(const ConvolutionProblem&);

/// Whether it has a kernel for groups of one channel, of these strides, dilations and paddings.
bool has_depthwise_kernel(const ConvolutionProblem&);

/// The weight in the form that the primitive for this problem likes best.
std::optional<Packed> pack_gemm(const GemmProblem&, const Tensor& weight);
std::optional<Packed> pack_convolution(const ConvolutionProblem&, const Tensor& weight);

}  // namespace coil::runtime::onednn
