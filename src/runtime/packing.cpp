#include "runtime/library.h"
#include "runtime/onednn.h"

namespace coil::runtime {

std::optional<Packed> pack_operand(std::string_view op, const Attributes& attributes, std::span<const BoundView> inputs,
                                   std::span<const BoundView> outputs, std::size_t input, const Tensor& value) {
  if (input != 1) return std::nullopt;  // only weights
  if (op == "linear") return onednn::pack_gemm(linear_problem(attributes, inputs, outputs), value);
  if (op == "convolution") return onednn::pack_convolution(convolution_problem(attributes, inputs, outputs), value);
  return std::nullopt;
}

}  // namespace coil::runtime
