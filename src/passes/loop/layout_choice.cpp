#include "passes/loop/layout_choice.h"

#include <algorithm>
#include <unordered_map>

#include "ir/relayout.h"
#include "library_ops/convolutions.h"
#include "library_ops/table.h"

namespace coil::ir {

namespace {

using library_ops::Trait;

/// How an operation walks through a buffer: an expression of its loops' variables for each dimension.
struct Access {
  BufferId buffer;
  Exprs index;
};

std::vector<Access> accesses(Graph& graph, const Operation& op) {
  std::vector<Access> result;
  if (!op.is_loop()) return result;
  for (Scalar load : loads(op.body()))
    if (load->op == ScalarOp::Load) result.push_back({load->buffer, load->index});
  for (BufferId out : op.outs) {
    const std::size_t rank = graph.buffer(out).layout.sizes.size();
    if (!op.store_index.empty() && op.store_index.size() == rank) result.push_back({out, op.store_index});
    if (op.store_index.empty() && op.sizes().size() == rank) result.push_back({out, graph.ivars(rank)});
  }
  return result;
}

/// Spreads channels-last from convolutions through the operations between them.
class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph)
      : graph_(graph),
        list_(graph.operations().begin(), graph.operations().end()),
        views_(views_in_calls(graph_, list_)) {}

  void run() {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (auto* call = as_convolution(list_[i])) {
        const bool weights = converts_weight(*call);
        for (std::size_t k = 0; k < call->inputs.size(); ++k)
          if ((k != kWeight || weights) && call->inputs[k].sizes.size() > 2) want(call->inputs[k].buffer);
        want(call->outputs[0].buffer);
      }
      if (is_weight_gradient(list_[i]))
        for (const BufferView& operand : std::get<Extern>(list_[i].node).inputs) want(operand.buffer);
      for (const Access& access : accesses(graph_, list_[i])) users_[access.buffer].push_back(i);
    }
    if (pending_.empty() && !graph_.has_convolutions()) return;
    while (!pending_.empty()) {
      const BufferId id = pending_.back();
      pending_.pop_back();
      for (std::size_t i : users_[id]) spread(list_[i], id);
    }
    convert_at_borders();
  }

 private:
  static constexpr std::size_t kWeight = library_ops::ConvolutionCall<Extern>::kWeight;

  static Extern* as_convolution(Operation& op) {
    auto* call = std::get_if<Extern>(&op.node);
    return call && library_ops::has(call->op, Trait::Convolution) ? call : nullptr;
  }

  /// Whether the call is one of a kernel of Coil's own, which reads weights as they lie.
  static bool is_own(const Extern& call) { return library_ops::has(call.op, Trait::Kernel); }

  /// The GPU's library takes both operands of a weight's gradient channels-last; the CPU's has layouts of its own.
  bool is_weight_gradient(const Operation& op) const {
    auto* call = std::get_if<Extern>(&op.node);
    return call && library_ops::has(call->op, Trait::ConvolutionGradient) &&
           (is_own(*call) || takes_channels_last(call->inputs[0].buffer));
  }

  /// The CPU's library has layouts of its own for weights.
  bool converts_weight(const Extern& call) const {
    return takes_channels_last(call.outputs[0].buffer) && !is_own(call);
  }

  bool takes_channels_last(BufferId buffer) const {
    return graph_.target(graph_.buffer(buffer).layout.device).has(target::Feature::ChannelsLastWeights);
  }

  /// Gives a buffer channels-last strides when it is free to have them.
  void want(BufferId id, std::size_t channel = 1) {
    const Layout& layout = graph_.buffer(id).layout;
    if (layout.sizes.size() < 3 || channels_of_.contains(id) ||
        !relayout(graph_, id, channels_last(layout.sizes, channel), views_[id]))
      return;
    channels_of_.emplace(id, channel);
    pending_.push_back(id);
  }

  /// Buffers of a loop's rank that it reads or writes with the channel as its own loop variable.
  std::vector<BufferId> loop_buffers(const Operation& op) {
    const Exprs& sizes = op.sizes();
    std::vector<BufferId> result;
    if (!op.is_loop() || sizes.size() < 3) return result;
    for (Scalar load : loads(op.body()))
      if (load->op == ScalarOp::Load && load->index.size() == sizes.size() && load->index[0] == graph_.ivar(0) &&
          sym::contains(load->index[1], graph_.ivar(1)) &&
          !graph_.buffer(load->buffer).layout.sizes.back().is_constant(1))
        result.push_back(load->buffer);
    for (BufferId out : op.outs)
      if (graph_.buffer(out).layout.sizes.size() == sizes.size()) result.push_back(out);
    return result;
  }

  /// From a buffer with its channels innermost to the others that the operation walks through.
  void spread(const Operation& op, BufferId from) {
    const std::size_t channel = channels_of_.at(from);
    const std::vector<BufferId> alike = loop_buffers(op);
    if (channel == 1 && std::ranges::find(alike, from) != alike.end())
      for (BufferId b : alike) want(b);
    spread_pictures(op, from, graph_.buffer(from).layout.sizes.size() - channel - 1);
  }

  /// Pictures that are stacked, or cut from a stack, have dimensions in front of their channels: they stay in step with
  /// the pictures of `from`, of so many dimensions, that the operation walks through.
  void spread_pictures(const Operation& op, BufferId from, std::size_t spatial) {
    const std::size_t rank = op.is_loop() ? op.sizes().size() : 0;
    if (spatial < 2 || rank < spatial + 2) return;
    const std::vector<Access> all = accesses(graph_, op);
    auto walks = [&](const Access& access) { return walks_pictures(access, rank, spatial); };
    if (std::ranges::none_of(all, [&](const Access& a) { return a.buffer == from && walks(a); })) return;
    for (const Access& access : all)
      if (walks(access)) want(access.buffer, access.index.size() - spatial - 1);
  }

  /// Whether a batch comes first, and channels and places last, in the buffer as in the loops.
  bool walks_pictures(const Access& access, std::size_t rank, std::size_t spatial) {
    const std::size_t own = access.index.size();
    if (own < spatial + 2 || !(access.index[0] == graph_.ivar(0)) ||
        graph_.buffer(access.buffer).layout.sizes.back().is_constant(1))
      return false;
    for (std::size_t d = 1; d <= spatial + 1; ++d)
      if (!sym::contains(access.index[own - d], graph_.ivar(rank - d))) return false;
    return true;
  }

  /// A convolution's operand or result whose layout is settled otherwise is converted by a copy. So are weights: as
  /// kernels of the program, copies of many small weights become one launch.
  void convert_at_borders() {
    std::vector<Operation> result;
    std::unordered_map<BufferId, std::vector<std::pair<BufferView, BufferView>>>
        converted;  // several views of one buffer, each with its copy
    auto convert = [&](BufferView& x, const Operation& reader) {
      if (!needs_conversion(x) && !(is_own(std::get<Extern>(reader.node)) && !begins_on_vector(x))) return;
      auto& copies = converted[x.buffer];
      auto found = std::find_if(copies.begin(), copies.end(), [&](const auto& known) { return known.first == x; });
      if (found == copies.end()) {
        const BufferView copy = temporary(x);
        result.push_back(copy_operation(load_of(x), x.sizes, copy.buffer, reader));
        found = copies.emplace(copies.end(), x, copy);
      }
      x = found->second;
    };
    for (Operation& op : list_) {
      Extern* call = as_convolution(op);
      const bool is_gradient = is_weight_gradient(op);
      if (is_gradient)
        for (BufferView& x : std::get<Extern>(op.node).inputs) convert(x, op);
      if (call) convert(library_ops::ConvolutionCall(*call).x(), op);
      if (call && converts_weight(*call) && !is_packed(call->inputs[kWeight])) convert(call->inputs[kWeight], op);
      if (is_gradient && !is_own(std::get<Extern>(op.node))) call = &std::get<Extern>(op.node);
      auto copy = call ? convert_result(op, call->outputs[0]) : std::nullopt;
      result.push_back(std::move(op));
      if (copy) result.push_back(std::move(*copy));
    }
    graph_.replace_operations(std::move(result));
  }

  /// The call writes to memory of its own, which the operation that is returned copies to where the result belongs.
  std::optional<Operation> convert_result(Operation& op, BufferView& y) {
    const BufferView settled = y;
    if (!needs_conversion(settled) || !is_whole(settled, graph_.buffer(settled.buffer).layout)) return std::nullopt;
    y = temporary(settled);
    op.outs = {y.buffer};
    return copy_operation(load_of(y), settled.sizes, settled.buffer, op);
  }

  /// Whether the weight is brought into the library's form as the program is compiled (pack_weights.h).
  bool is_packed(const BufferView& weight) const { return graph_.is_known(weight.buffer); }

  bool needs_conversion(const BufferView& v) const {
    if (v.sizes.size() < 3) return false;
    bool spatial = false;
    for (std::size_t d = 2; d < v.sizes.size(); ++d) spatial |= !v.sizes[d].is_constant(1);
    if (!spatial || v.sizes[1].is_constant(1)) return false;
    return !lies_channels_last(v);
  }

  /// Whether the first of the channels, which kernels of Coil's own read in vectors, lies where a vector begins.
  bool begins_on_vector(const BufferView& v) const {
    constexpr std::int64_t kVector = 8;
    return graph_.env().statically_known_multiple_of(v.offset, kVector);
  }

  BufferView temporary(const BufferView& like) {
    BufferView view{0, like.dtype, like.sizes, channels_last(like.sizes), 0};
    view.buffer =
        graph_
            .add_buffer("", BufferKind::Computed,
                        {like.dtype, graph_.buffer(like.buffer).layout.device, view.sizes, view.strides, true})
            .id;
    return view;
  }

  Scalar load_of(const BufferView& v) {
    const Layout& layout = graph_.buffer(v.buffer).layout;
    const Exprs i = graph_.ivars(v.sizes.size());
    if (is_whole(v, layout)) return graph_.pool().load(v.buffer, v.dtype, i);
    Expr at = v.offset;
    for (std::size_t d = 0; d < i.size(); ++d) at += i[d] * v.strides[d];
    return graph_.pool().linear_load(v.buffer, v.dtype, at);
  }

  /// A copy that is a part of what the convolution `of` computes.
  Operation copy_operation(Scalar body, const Exprs& sizes, BufferId to, const Operation& of) {
    return {.node = Pointwise{sizes, body}, .outs = {to}, .origins = of.origins, .where = of.where};
  }

  Graph& graph_;
  std::vector<Operation> list_;
  BufferViews views_;
  std::unordered_map<BufferId, std::vector<std::size_t>> users_;
  std::unordered_map<BufferId, std::size_t> channels_of_;  ///< the dimension that is innermost, of those chosen
  std::vector<BufferId> pending_;
};

}  // namespace

void choose_layouts(Graph& graph) {
  ChannelsLast(graph).run();
  for (Buffer& buffer : graph.buffers()) buffer.layout.fixed = true;
}

}  // namespace coil::ir
