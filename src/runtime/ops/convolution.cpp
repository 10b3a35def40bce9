#include "runtime/ops/convolution.h"

#include <algorithm>

#include "library_ops/convolutions.h"
#include "runtime/ops/nan_guard.h"
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/argument_weight.h"
#include "runtime/ops/panel/convolution.h"
#include "runtime/ops/panel/depthwise.h"
#include "runtime/ops/panel/few_results.h"
#include "runtime/ops/panel/windows.h"
#include "runtime/ops/panel/winograd.h"
#include "runtime/ops/place_product.h"
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

/// One image after another, by the call of one.
class ImageByImage : public PreparedCall {
 public:
  explicit ImageByImage(const ConvolutionProblem& p, std::unique_ptr<PreparedCall> one) : p_(p), one_(std::move(one)) {}

  std::size_t workspace_bytes() const override { return one_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::vector<const void*> in(inputs.begin(), inputs.end());
    std::vector<void*> out(outputs.begin(), outputs.end());
    for (std::int64_t i = 0; i < p_.images; ++i) {
      const auto bytes = [&](const BoundView& v) {
        return i * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
      };
      const auto at = [&](std::size_t input, const BoundView& v) {
        in[input] = static_cast<const std::byte*>(inputs[input]) + bytes(v);
      };
      at(0, p_.x);
      for (std::size_t o = 0; o < p_.operands.size(); ++o) at(p_.first_operand + o, p_.operands[o]);
      out[0] = static_cast<std::byte*>(outputs[0]) + bytes(p_.y);
      one_->run(in, out, workspace);
    }
  }

 private:
  const ConvolutionProblem p_;
  std::unique_ptr<PreparedCall> one_;
};

/// The problem of its first image.
void take_one_image(ConvolutionProblem& p) {
  p.images = p.x.sizes[0];
  p.x.sizes[0] = p.y.sizes[0] = 1;
  for (BoundView& o : p.operands) o.sizes[0] = 1;
}

std::unique_ptr<PreparedCall> make_call_of_all(const ConvolutionProblem& problem);

std::unique_ptr<PreparedCall> make_call(const ConvolutionProblem& problem) {
  auto call = make_call_of_all(problem);
  return problem.images == 1 ? std::move(call) : std::make_unique<ImageByImage>(problem, std::move(call));
}

/// Whether oneDNN would bring the weight into another form in each call: its products read one as it lies.
bool is_better_a_product(const ConvolutionProblem& p) {
  return p.packed_desc.empty() && p.x.dtype == DType::F32 && p.weight.dtype == DType::F32 && p.y.dtype == DType::F32 &&
         numel(p.x.sizes) > 0 && numel(p.y.sizes) > 0;
}

std::unique_ptr<PreparedCall> make_library_call(const ConvolutionProblem& problem) {
  if (const auto product = is_better_a_product(problem) ? product_of_places(problem) : std::nullopt)
    if (auto call = onednn::make_gemm(*product)) return call;
  if (auto call = onednn::make_convolution(problem)) return call;
  return make_plain_convolution(problem);
}

std::unique_ptr<PreparedCall> make_call_of_all(const ConvolutionProblem& problem) {
  if (auto call = panels::make_convolution(problem)) return call;
  if (auto call = panels::make_depthwise(problem)) return call;
  if (auto call = panels::make_few_results(problem)) return call;
  if (auto call = panels::make_windows(problem)) return call;
  if (auto call = panels::make_winograd(problem)) return call;
  if (auto call = panels::make_packing_call(problem, make_library_call)) return call;
  return make_library_call(problem);
}

class ConvolutionOp : public CachedOp {
 public:
  explicit ConvolutionOp(const Attributes& attributes) : attributes_(attributes) {
    library_ops::parse_post_ops(read(attributes, library_ops::kPost));
  }

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const ConvolutionProblem problem = convolution_problem(attributes_, inputs, outputs);
    std::vector<EpilogueOperand> operands;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      operands.push_back({problem.first_operand + i, problem.operands[i]});
      operands.back().view.sizes[0] = outputs[0].sizes[0];
    }
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
  const BoundCall call{attributes, inputs, outputs};
  const library_ops::ConvolutionCall given(call);
  ConvolutionProblem p;
  p.x = given.x();
  p.y = given.result();
  p.weight = given.weight();
  if (p.x.sizes.size() < 3 || p.x.sizes.size() > 5 || p.y.sizes.size() != p.x.sizes.size())
    fail("convolution: x has {} dimensions; 3, 4 and 5 are possible", p.x.sizes.size());
  p.packed_desc = given.packed_desc();
  if (!p.packed_desc.empty()) {
    p.packed_bytes = dense_bytes(p.weight);
    p.weight = dense_view(p.x.dtype, given.weight_sizes());
  }
  p.stride = given.stride(p.spatial());
  p.padding = given.padding(p.spatial());
  p.padding_end = given.padding_end(p.spatial());
  p.dilation = given.dilation(p.spatial());
  p.groups = given.groups();
  p.transposed = given.transposed();
  p.tf32 = given.tf32();
  p.fixed_engine = given.fixed_engine();
  p.winograd_tile = given.winograd_slices();
  p.post = given.post();
  check(p);
  p.first_operand = given.first_post_operand();
  if (given.has_bias()) {
    if (inputs.size() < p.first_operand || given.bias().sizes != Sizes{p.y.sizes[1]})
      fail("convolution: the bias does not have one value for each channel");
    p.bias = given.bias();
  }
  for (const PostOp& op : p.post) {
    if (!op.takes_operand()) continue;
    const std::size_t at = p.first_operand + p.operands.size();
    if (at >= inputs.size()) fail("a post-operation of a convolution has no operand");
    p.operands.push_back(expand_view(inputs[at], p.y.sizes));
  }
  if (given.batch_invariant()) take_one_image(p);
  return p;
}

std::unique_ptr<LibraryOp> make_convolution(const Attributes& attributes) {
  return std::make_unique<ConvolutionOp>(attributes);
}

namespace {

const DefineLibraryOps kConvolution({{library_ops::convolution::kName, make_convolution}});

}  // namespace

}  // namespace coil::runtime
