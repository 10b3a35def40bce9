#include "codegen/cuda/group_convolutions.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/plain_kernel.h"
#include "codegen/heuristics/group_convolutions.h"
#include "library_ops/convolutions.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using library_ops::PostOp;
using Steps = std::array<std::int64_t, 2>;

constexpr std::size_t kSpatial = 2;

Steps pair(const std::vector<std::int64_t>& v) { return {v[0], v[1]}; }

std::string in_f32(DType dtype, const std::string& element) {
  if (dtype == DType::F32) return element;
  return fmt::format("{}({})", dtype == DType::BF16 ? "c_get_bf16" : "c_get_f16", element);
}

/// The kernel of one call, of either kind. A convolution that is transposed is a plain one over x with zeros between
/// its places and with its windows turned around.
class GroupConvolution : public PlainKernel {
 public:
  GroupConvolution(ir::Graph& graph, const ir::Extern& call, const target::Target& target)
      : graph_(graph), call_(call), target_(target) {}

  Kernel forward();
  Kernel of_weights();

 private:
  const ir::BufferView& in(std::size_t k) const { return call_.inputs[k]; }
  std::string at(int pointer, const ir::BufferView& v) { return fmt::format("p{} + {}", pointer, scalar(v.offset)); }
  std::string picture(int pointer, const ir::BufferView&);
  std::string squares(const ir::BufferView& result, Steps padding, const std::string& step);
  std::string constants(Steps apart) const;
  std::string index(int pointer, const ir::BufferView&);
  std::string post_op(const PostOp&, int& operand);
  std::string start();
  std::string finish(int result);
  void describe(const auto& view, const ir::BufferView& result, const Exprs& weight);
  /// Blocks of groups.
  std::int64_t blocks() const { return (facts_.groups + config_.groups - 1) / config_.groups; }
  /// Blocks of squares for each block of groups, so that all of them run at once.
  std::int64_t blocks_at_once() const;
  Kernel launched(std::string body, Expr shares);

  ir::Graph& graph_;
  const ir::Extern& call_;
  const target::Target& target_;
  GroupConvolutionFacts facts_;
  GroupConvolutionConfig config_;
};

/// Facts and the configuration, of a plain convolution with a weight [O, C / groups, ..].
void GroupConvolution::describe(const auto& view, const ir::BufferView& result, const Exprs& weight) {
  const auto& env = graph_.env();
  facts_.groups = view.groups();
  facts_.dilation = pair(view.dilation(kSpatial));
  for (std::size_t d = 0; d < kSpatial; ++d) {
    facts_.window[d] = *weight[2 + d].constant();
    facts_.sizes[d] = env.hint_or(result.sizes[2 + d], 32);
  }
  config_ = group_convolution_config(facts_, target_.costs);
}

std::string GroupConvolution::picture(int pointer, const ir::BufferView& v) {
  COIL_CHECK(v.strides[1].is_constant(1));
  return fmt::format("c_picture{{{}, {}, (int){}, (int){}, (int){}, (int){}, (int){}}}", at(pointer, v),
                     scalar(v.strides[0]), scalar(v.strides[2]), scalar(v.strides[3]), scalar(v.sizes[2]),
                     scalar(v.sizes[3]), scalar(v.sizes[1]));
}

std::string GroupConvolution::squares(const ir::BufferView& result, Steps padding, const std::string& step) {
  const auto along = [&](std::size_t d, int n) { return scalar(sym::ceil_div(result.sizes[2 + d], n)); };
  return fmt::format("c_squares{{share, (int){}, (int){}, (int){}, (int){}, {}, {}}}", step, along(0, config_.high),
                     along(1, config_.wide), scalar(result.sizes[0]), padding[0], padding[1]);
}

std::string GroupConvolution::constants(Steps apart) const {
  return fmt::format(
      "  struct s {{ enum : int {{ in = {}, out = {}, rows = {}, columns = {}, down = {}, right = {}, far_down = {}, "
      "far_right = {}, apart_down = {}, apart_right = {}, groups = {}, high = {}, wide = {}, threads = {} }}; }};\n",
      facts_.in, facts_.out, facts_.window[0], facts_.window[1], facts_.step[0], facts_.step[1], facts_.dilation[0],
      facts_.dilation[1], apart[0], apart[1], config_.groups, config_.high, config_.wide, config_.threads);
}

/// An element of an operand of the result's shape, or of one that is broadcast to it, in f32.
std::string GroupConvolution::index(int pointer, const ir::BufferView& v) {
  std::string sum = scalar(v.offset);
  const char* const names[] = {"image", "channel", "row", "column"};
  for (std::size_t d = 0; d < 4; ++d)
    if (!v.sizes[d].is_constant(1)) sum += fmt::format(" + {} * {}", names[d], scalar(v.strides[d]));
  const std::string element = fmt::format("p{}[{}]", pointer, sum);
  return in_f32(v.dtype, element);
}

std::string GroupConvolution::post_op(const PostOp& op, int& operand) {
  using Kind = PostOp::Kind;
  const auto number = [](double x) { return fmt::format("(f32){}", fmt::format("{:.9e}", x)); };
  switch (op.kind) {
    case Kind::Relu: return "v = c_max_nan(v, 0.0f);";
    case Kind::Silu: return "v = v * c_sigmoid(v);";
    case Kind::Sigmoid: return "v = c_sigmoid(v);";
    case Kind::Clip: return fmt::format("v = c_min_nan(c_max_nan(v, {}), {});", number(op.a), number(op.b));
    case Kind::HardSwish: return "v = v * c_min_nan(c_max_nan(v + 3.0f, 0.0f), 6.0f) / 6.0f;";
    case Kind::HardSigmoid: return "v = c_min_nan(c_max_nan(v + 3.0f, 0.0f), 6.0f) / 6.0f;";
    case Kind::LeakyRelu: return fmt::format("v = v > 0.0f ? v : v * {};", number(op.a));
    case Kind::Scale: return fmt::format("v = v * {} + {};", number(op.a), number(op.b));
    case Kind::Add:
    case Kind::Mul: {
      const ir::BufferView& v = in(static_cast<std::size_t>(operand));
      take(v, v.dtype == DType::F32 ? "f32" : "u16", false);
      return fmt::format("v = v {} {};", op.kind == Kind::Add ? "+" : "*", index(operand++, v));
    }
    default: fail("a convolution in groups has no {} behind it", to_string(op));
  }
}

/// What sums begin with: the bias.
std::string GroupConvolution::start() {
  const library_ops::ConvolutionCall view(call_);
  std::string value = "0.0f";
  if (view.has_bias()) {
    const ir::BufferView& bias = view.bias();
    value = in_f32(bias.dtype, fmt::format("p2[{} + channel * {}]", scalar(bias.offset), scalar(bias.strides[0])));
  }
  return fmt::format("  const auto start = [&](i64 channel) {{ return {}; }};\n", value);
}

/// What stores the sums of a channel and of the next.
std::string GroupConvolution::finish(int result) {
  const library_ops::ConvolutionCall view(call_);
  const ir::BufferView& y = call_.outputs[0];
  std::string after;
  int operand = static_cast<int>(view.first_post_operand());
  for (const PostOp& op : view.post()) after += "    " + post_op(op, operand) + "\n";
  const bool bf16 = y.dtype == DType::BF16, dense = y.strides[1].is_constant(1);
  const std::string place = fmt::format("p{} + {} + image * {} + row * {} + column * {}", result, scalar(y.offset),
                                        scalar(y.strides[0]), scalar(y.strides[2]), scalar(y.strides[3])),
                    step = dense ? "1" : scalar(y.strides[1]);
  const auto even = [&](Expr e) { return graph_.env().statically_known_multiple_of(e, 2); };
  const bool pairs = dense && even(y.offset) && even(y.strides[0]) && even(y.strides[2]) && even(y.strides[3]);
  const std::string store = pairs ? fmt::format("*(u32*)to = {}(after(p, channel), after(q, channel + 1));",
                                                bf16 ? "c_put_bf16_pair" : "c_put_f16_pair")
                                  : fmt::format("to[0] = {0}(after(p, channel)), to[{1}] = {0}(after(q, channel + 1));",
                                                bf16 ? "c_put_bf16" : "c_put_f16", step);
  return fmt::format(
      "  const auto finish = [&](i64 image, i64 row, i64 column, int channel, f32 p, f32 q) {{\n"
      "    const auto after = [&](f32 v, int channel) {{\n{}    return v;\n    }};\n"
      "    u16* const to = {} + channel * {};\n    {}\n  }};\n",
      after, place, step, store);
}

std::int64_t GroupConvolution::blocks_at_once() const {
  return std::max<std::int64_t>(1, target_.costs.multiprocessors * config_.min_blocks / blocks());
}

/// `shares`: blocks that share out the squares of each block of groups.
Kernel GroupConvolution::launched(std::string body, Expr shares) {
  body = fmt::format("  C_DYNAMIC_SHARED(shared);\n  const int block = blockIdx.x % {0}, share = blockIdx.x / {0};\n",
                     blocks()) +
         body;
  return write("coil_group_convolution_",
               {.grid = {graph_.env().simplify(shares * blocks()), 1, 1},
                .block = config_.threads,
                .resident = config_.min_blocks,
                .shared_bytes = config_.shared_bytes},
               body);
}

Kernel GroupConvolution::forward() {
  const library_ops::ConvolutionCall view(call_);
  const ir::BufferView &x = view.x(), &weight = view.weight(), &y = call_.outputs[0];
  const bool turned = view.transposed();
  const Steps stride = pair(view.stride(kSpatial)), padding = pair(view.padding(kSpatial));
  facts_.in = *x.sizes[1].constant() / view.groups();
  facts_.out = *y.sizes[1].constant() / view.groups();
  if (!turned) facts_.step = stride;
  describe(view, y, weight.sizes);
  take(x, "u16", false);
  take(weight, "u16", false);
  if (view.has_bias()) take(view.bias(), view.bias().dtype == DType::F32 ? "f32" : "u16", false);
  Steps before = padding;
  Expr first = weight.offset, row = weight.strides[2], column = weight.strides[3];
  if (turned) {
    // Windows are read from their last place on.
    first = first + row * (facts_.window[0] - 1) + column * (facts_.window[1] - 1);
    row = row * -1, column = column * -1;
    for (std::size_t d = 0; d < kSpatial; ++d) before[d] = facts_.dilation[d] * (facts_.window[d] - 1) - padding[d];
  }
  const std::string group = scalar(weight.strides[0] * (turned ? facts_.in : facts_.out));
  const std::string of_weights = fmt::format(
      "  const auto weights = [&](i64 group) {{ return c_weights{{p1 + {} + group * {}, {}, {}, {}, {}}}; }};\n",
      scalar(first), group, scalar(weight.strides[turned ? 1 : 0]), scalar(weight.strides[turned ? 0 : 1]), scalar(row),
      scalar(column));
  const int result = static_cast<int>(view.first_post_operand() + library_ops::operands_of(view.post()));
  std::string body = constants(turned ? stride : Steps{1, 1}) + of_weights + start() + finish(result);
  take(y, "u16", true);
  const Expr all = y.sizes[0] * sym::ceil_div(y.sizes[2], config_.high) * sym::ceil_div(y.sizes[3], config_.wide),
             shares = graph_.env().simplify(sym::min(all, blocks_at_once()));
  body += fmt::format(
      "  c_convolution<{}, s, {}, {}>((u16*)shared, {}, {}, (int){}, (int){}, {}, block, weights, start, finish);\n",
      x.dtype == DType::BF16, config_.each, config_.parts, picture(0, x), squares(y, before, scalar(shares)),
      scalar(y.sizes[2]), scalar(y.sizes[3]), facts_.groups);
  return launched(std::move(body), shares);
}

Kernel GroupConvolution::of_weights() {
  const library_ops::ConvolutionWeightsCall view(call_);
  const ir::BufferView &x = view.x(), &dy = view.dy(), &sums = view.dw();
  facts_.in = *x.sizes[1].constant() / view.groups();
  facts_.out = *dy.sizes[1].constant() / view.groups();
  facts_.step = pair(view.stride(kSpatial));
  facts_.gradient = true;
  describe(view, dy, {sums.sizes.begin() + 1, sums.sizes.end()});
  take(x, "u16", false);
  take(dy, "u16", false);
  take(sums, "f32", true);
  std::string body = constants({1, 1});
  body +=
      fmt::format("  c_convolution_weights<{}, s, {}>((u16*)shared, {}, {}, {}, {}, block, p2 + {} + share * {});\n",
                  x.dtype == DType::BF16, config_.each, picture(0, x), picture(1, dy),
                  squares(dy, pair(view.padding(kSpatial)), scalar(sums.sizes[0])), facts_.groups, scalar(sums.offset),
                  scalar(sums.strides[0]));
  return launched(std::move(body), sums.sizes[0]);
}

}  // namespace

bool is_cuda_group_convolution(std::string_view op) {
  return op == library_ops::convolution::kBlocked || op == library_ops::convolution_weights::kBlocked;
}

Kernel cuda_group_convolution(ir::Graph& graph, const ir::Extern& call, const target::Target& target) {
  GroupConvolution kernel(graph, call, target);
  return call.op == library_ops::convolution::kBlocked ? kernel.forward() : kernel.of_weights();
}

}  // namespace coil::codegen
