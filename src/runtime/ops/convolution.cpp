#include "runtime/ops/convolution.h"

#include <algorithm>

#include "runtime/ops/nan_guard.h"
#include "runtime/ops/onednn/onednn.h"
#include "runtime/plan/attributes.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// Size of y in a spatial dimension, but for the output padding of a transposed convolution.
std::int64_t result_size(const ConvolutionProblem& p, std::size_t d) {
  const std::int64_t reach = (p.kernel(d) - 1) * p.dilation[d] + 1, in = p.x.sizes[d + 2];
  if (p.transposed) return (in - 1) * p.stride[d] + reach - p.padding[d] - p.padding_end[d];
  return (in + p.padding[d] + p.padding_end[d] - reach) / p.stride[d] + 1;
}

void check(const ConvolutionProblem& p) {
  auto require = [&](bool good, const char* what) {
    if (!good)
      fail("convolution: {} (x [{}], weight [{}], y [{}])", what, fmt::join(p.x.sizes, ", "),
           fmt::join(p.weight.sizes, ", "), fmt::join(p.y.sizes, ", "));
  };
  const std::int64_t channels = p.x.sizes[1], results = p.y.sizes[1];
  require(p.weight.sizes.size() == p.x.sizes.size(), "the weight has another rank than x");
  require(p.groups > 0 && channels % p.groups == 0 && results % p.groups == 0, "channels do not divide into groups");
  require(p.weight.sizes[0] == (p.transposed ? channels : results), "the weight has other channels");
  require(p.weight.sizes[1] == (p.transposed ? results : channels) / p.groups, "the weight has other channels");
  require(p.x.sizes[0] == p.y.sizes[0], "x and y have other batch sizes");
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    require(p.stride[d] > 0 && p.dilation[d] > 0 && p.kernel(d) > 0, "stride, dilation and kernel must be positive");
    const std::int64_t size = result_size(p, d), given = p.y.sizes[d + 2];
    require(p.transposed ? given >= size : given == size, "y has another size than the operation gives");
  }
}

std::unique_ptr<PreparedCall> make_call(const ConvolutionProblem& problem) {
  if (auto call = onednn::make_convolution(problem)) return call;
  return make_plain_convolution(problem);
}

class ConvolutionOp : public CachedOp {
 public:
  explicit ConvolutionOp(const Attributes& attributes) : attributes_(attributes) { parse_post_ops(attributes); }

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const ConvolutionProblem problem = convolution_problem(attributes_, inputs, outputs);
    std::vector<EpilogueOperand> operands;
    for (std::size_t i = 0; i < problem.operands.size(); ++i)
      operands.push_back({problem.first_operand + i, problem.operands[i]});
    return make_with_nan_kept(attributes_, problem.post, outputs[0], std::move(operands), inputs.size(),
                              [problem](std::size_t post) { return make_call(with_post(problem, post)); });
  }

 private:
  Attributes attributes_;
};

}  // namespace

ConvolutionProblem convolution_problem(const Attributes& attributes, std::span<const BoundView> inputs,
                                       std::span<const BoundView> outputs) {
  if (inputs.size() < 2 || outputs.size() != 1) fail("convolution takes x and a weight and gives y");
  ConvolutionProblem p;
  p.x = inputs[0];
  p.y = outputs[0];
  p.weight = inputs[1];
  if (p.x.sizes.size() < 3 || p.x.sizes.size() > 5 || p.y.sizes.size() != p.x.sizes.size())
    fail("convolution: x has {} dimensions; 3, 4 and 5 are possible", p.x.sizes.size());
  p.packed_desc = string_attribute(attributes, "packed_desc");
  if (!p.packed_desc.empty()) {
    p.packed_bytes = dense_bytes(p.weight);
    p.weight = dense_view(p.x.dtype, ints_attribute(attributes, "weight_sizes", {}));
  }
  p.stride = per_dimension(attributes, "stride", 1, p.spatial(), "convolution");
  p.padding = per_dimension(attributes, "padding", 0, p.spatial(), "convolution");
  p.padding_end = attributes.contains("padding_end")
                      ? per_dimension(attributes, "padding_end", 0, p.spatial(), "convolution")
                      : p.padding;
  p.dilation = per_dimension(attributes, "dilation", 1, p.spatial(), "convolution");
  p.groups = int_attribute(attributes, "groups", 1);
  p.transposed = int_attribute(attributes, "transposed", 0) != 0;
  p.tf32 = flag_attribute(attributes, "tf32");
  p.post = parse_post_ops(attributes);
  check(p);
  if (int_attribute(attributes, "has_bias", 0)) {
    if (inputs.size() < 3 || inputs[2].sizes != Sizes{p.y.sizes[1]})
      fail("convolution: the bias does not have one value for each channel");
    p.bias = inputs[2];
    p.first_operand = 3;
  }
  for (const PostOp& op : p.post) {
    if (!op.takes_operand()) continue;
    const std::size_t at = p.first_operand + p.operands.size();
    if (at >= inputs.size()) fail("a post-operation of a convolution has no operand");
    p.operands.push_back(expand_view(inputs[at], p.y.sizes));
  }
  return p;
}

std::unique_ptr<LibraryOp> make_convolution(const Attributes& attributes) {
  return std::make_unique<ConvolutionOp>(attributes);
}

}  // namespace coil::runtime
