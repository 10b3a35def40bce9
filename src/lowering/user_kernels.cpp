// Calls of kernels that users wrote: each works in place on copies of what it writes to. Copies of values that nobody
// needs any more go again (passes/wrapper/coalesce_copies.h).
#include <map>

#include "lowering/common.h"
#include "lowering/fallback.h"
#include "support/error.h"

namespace coil::lowering {
namespace {

using ops::Values;

constexpr std::int64_t kAligned = 16;  // bytes: what Triton compiles loads of several elements for
// The least bytes of a workspace, whose parts kernels have at multiples of 128 bytes: memory of so many begins at a
// page (runtime/plan/arena_planner.h).
constexpr std::int64_t kLeastWorkspace = 1 << 20;

/// Memory that nobody has written to: a copy of it would be for nothing.
bool is_undefined(const fx::Node& n) {
  return n.target.starts_with("aten.empty") || n.target.starts_with("aten.new_empty");
}

class Call {
 public:
  Call(Context& ctx, const Values& args) : ctx_(ctx), tensors_(args[1].as_list()), written_(args[4].as_list()) {
    const std::string& symbol = *args[0].get_if<std::string>();
    const auto found = ctx.graph.user_kernels.find(symbol);
    if (found == ctx.graph.user_kernels.end()) refuse(ctx, fmt::format("has no definition of the kernel {}", symbol));
    call_.kernel = found->second;
    places_ = places(ctx.integers(args[5]));
    call_.numbers = ctx.integers(args[2]);
    call_.grid = ctx.integers(args[3]);
  }

  std::vector<TensorBox> run() {
    std::vector<ir::BufferId> outs;
    for (const ops::Value& place : written_) {
      const std::size_t memory = lies_at(number(place)).memory;
      auto [made, is_new] = made_.try_emplace(memory);
      if (is_new) outs.push_back(made->second = memory_for(*tensors_.at(memory).as_node(), lies_at(memory)));
    }
    for (std::size_t k = 0; k < call_.kernel->count(ops::UserKernel::Kind::Tensor); ++k) {
      const bool is_written = made_.contains(lies_at(k).memory);
      if (is_written) call_.written.push_back(k);
      call_.tensors.push_back(is_written ? window(k) : operand(k));
    }
    std::vector<TensorBox> results;
    for (const ops::Value& place : written_) results.push_back(left_in(call_.tensors[number(place)]));
    if (call_.kernel->has_workspace()) outs.push_back(workspace());
    ctx_.graph.add_operation({.node = std::move(call_),
                              .outs = std::move(outs),
                              .origins = ctx_.graph.provenance.origins,
                              .where = ctx_.graph.provenance.where});
    return results;
  }

 private:
  /// Where a tensor of the call lies: in the memory of another, or of itself, as its metadata had it when the graph
  /// came.
  struct Place {
    std::size_t memory;
    Exprs sizes, strides;
    Expr offset;  ///< from the beginning of `memory`
  };

  static std::size_t number(const ops::Value& v) { return static_cast<std::size_t>(*v.as_int().constant()); }
  const fx::Node& tensor(std::size_t k) const { return *tensors_.at(k).as_node(); }

  const Place& lies_at(std::size_t k) const { return places_.at(k); }

  /// Reads places from numbers, as fx::take_user_kernels writes them.
  std::vector<Place> places(const Exprs& numbers) const {
    std::vector<Place> out;
    for (auto at = numbers.begin(); at != numbers.end();) {
      Place& place = out.emplace_back();
      place.memory = static_cast<std::size_t>(*at++->constant());
      const auto rank = *at++->constant();
      place.sizes.assign(at, at + rank);
      at += rank;
      place.strides.assign(at, at + rank);
      at += rank;
      place.offset = *at++;
    }
    return out;
  }

  /// Memory of its own with the tensor's values, laid out as the tensor is.
  ir::BufferId memory_for(const fx::Node& node, const Place& place) {
    for (std::size_t d = 0; d < place.sizes.size(); ++d)
      if (place.strides[d].is_constant(0) && !place.sizes[d].is_constant(1))
        refuse(ctx_, fmt::format("writes to %{}, whose elements lie in the same memory; give it a copy", node.name));
    const sym::TensorMeta& meta = node.tensor();
    if (is_undefined(node)) {
      ir::Layout layout{meta.dtype, meta.device, place.sizes, place.strides, true};
      return ctx_.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
    }
    TensorBox copy = result(ctx_, element(ctx_, ctx_.tensor(const_cast<fx::Node*>(&node)), place.sizes), meta);
    copy.storage->strides = place.strides;  // with the gaps that are recorded: the kernel knows the strides
    const ir::BufferId id = copy.realize();
    ctx_.graph.buffer(id).layout.fixed = true;
    return id;
  }

  /// A tensor in memory that the kernel writes to.
  BufferView window(std::size_t k) const {
    const Place& place = lies_at(k);
    return {made_.at(place.memory), tensor(k).tensor().dtype, place.sizes, place.strides, place.offset};
  }

  /// What the kernel leaves there.
  TensorBox left_in(const BufferView& view) const {
    TensorBox box = ir::whole(ctx_.graph, view.buffer);
    const ir::Layout& layout = ctx_.graph.buffer(view.buffer).layout;
    if (view.sizes == layout.sizes && view.strides == layout.strides && view.offset.is_constant(0)) return box;
    Expr at = view.offset;
    for (std::size_t d = 0; d < view.sizes.size(); ++d) at += ctx_.graph.ivar(d) * view.strides[d];
    box.sizes = view.sizes;
    box.map = {at};
    box.linear = true;
    return box;
  }

  /// Memory that the kernel finds undefined and that nobody reads after it, as the last of the call's tensors.
  ir::BufferId workspace() {
    const Expr used = call_.kernel->workspace_bytes * sym::product(call_.grid),
               bytes = ctx_.graph.env().simplify(sym::max(kLeastWorkspace, used));
    const Device device = ctx_.graph.buffer(call_.tensors.at(0).buffer).layout.device;
    ir::Layout layout{DType::U8, device, {bytes}, {1}, true};
    const ir::BufferId id = ctx_.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
    call_.written.push_back(call_.tensors.size());
    call_.tensors.push_back({id, DType::U8, {bytes}, {1}, 0});
    return id;
  }

  BufferView operand(std::size_t k) {
    BufferView view = recorded_operand(ctx_, tensor(k));
    const Expr bytes = view.offset * static_cast<std::int64_t>(size_of(view.dtype));
    if (!call_.kernel->tensor(k).aligned || ctx_.graph.env().statically_known_equal(sym::mod(bytes, kAligned), 0))
      return view;
    return recorded_copy(ctx_, tensor(k));
  }

  Context& ctx_;
  const Values &tensors_, &written_;
  std::vector<Place> places_;  ///< of each tensor
  ir::UserCall call_;
  std::map<std::size_t, ir::BufferId> made_;  ///< by the tensor whose memory it stands for
};

Lowered user_kernel(Context& ctx, const Values& args) { return Call(ctx, args).run(); }

}  // namespace

void add_user_kernels(Table& t) { t[std::string(ops::kUserKernelCall)] = user_kernel; }

}  // namespace coil::lowering
