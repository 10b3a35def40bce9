// Weights that are arguments of a program, brought into the form of panels in each call.
#pragma once
#include <functional>

#include "runtime/ops/convolution.h"

namespace coil::runtime::panels {

/// How a weight is packed for a convolution.
struct WeightForm {
  std::string desc;       ///< of calls that take it
  std::size_t bytes = 0;  ///< of the packed weight
  /// The weight, which lies as the problem says, into its packed form; false for values that the form does not serve.
  std::function<bool(float* to, const float* weight)> pack;
};

/// A constant in its form.
Packed packed_in(const WeightForm&, const ConvolutionProblem&, const Tensor& weight);

/// A convolution whose weight is packed in each call; null where it is packed already, or that would take longer than
/// packing saves. `plain` makes the call for weights that the form does not serve.
std::unique_ptr<PreparedCall> make_packing_call(
    const ConvolutionProblem&, std::function<std::unique_ptr<PreparedCall>(const ConvolutionProblem&)> plain);

}  // namespace coil::runtime::panels
