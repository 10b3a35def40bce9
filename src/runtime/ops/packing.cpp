#include <algorithm>

#include "runtime/device/library.h"
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/convolution.h"
#include "runtime/ops/panel/depthwise.h"
#include "runtime/ops/panel/few_results.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/ops/panel/windows.h"
#include "runtime/ops/panel/winograd.h"

namespace coil::runtime {

std::optional<Packed> pack_operand(std::string_view op, const Attributes& attributes, std::span<const BoundView> inputs,
                                   std::span<const BoundView> outputs, std::size_t input, const Tensor& value,
                                   std::string_view isa) {
  if (input != 1) return std::nullopt;  // only weights
  // A call without a result is not carried out, and oneDNN divides by the sizes of what it multiplies.
  const auto is_empty = [](const BoundView& v) { return numel(v.sizes) == 0; };
  if (std::ranges::all_of(outputs, is_empty)) return std::nullopt;
  if (op == "linear") {
    const GemmProblem problem = linear_problem(attributes, inputs, outputs);
    auto packed = panels::pack_gemm(problem, value, isa);
    return packed || problem.batch_invariant ? std::move(packed) : onednn::pack_gemm(problem, value);
  }
  if (op == "convolution") {
    const ConvolutionProblem problem = convolution_problem(attributes, inputs, outputs);
    auto packed = panels::pack_winograd(problem, value, isa);
    if (!packed) packed = panels::pack_convolution(problem, value, isa);
    if (!packed) packed = panels::pack_depthwise(problem, value, isa);
    if (!packed) packed = panels::pack_few_results(problem, value, isa);
    if (!packed) packed = panels::pack_windows(problem, value, isa);
    return packed ? std::move(packed) : onednn::pack_convolution(problem, value);
  }
  return std::nullopt;
}

}  // namespace coil::runtime
