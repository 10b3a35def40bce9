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
// Of a workspace, whose parts kernels have at multiples of 128 bytes: memory of so many begins at a page
// (runtime/plan/arena_planner.h).
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
    call_.numbers = ctx.integers(args[2]);
    call_.grid = ctx.integers(args[3]);
  }

  std::vector<TensorBox> run() {
    std::vector<TensorBox> results;
    std::vector<ir::BufferId> outs;
    for (const ops::Value& place : written_) {
      const fx::Node& node = tensor(static_cast<std::size_t>(*place.as_int().constant()));
      auto [made, is_new] = made_.try_emplace(&node);
      if (is_new) {
        made->second = memory_for(node, ctx_.result(results.size()));
        outs.push_back(made->second.buffer);
      }
      results.push_back(ir::whole(ctx_.graph, made->second.buffer));
    }
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      const auto made = made_.find(&tensor(k));
      if (made != made_.end()) call_.written.push_back(k);
      call_.tensors.push_back(made != made_.end() ? made->second : operand(k));
    }
    if (call_.kernel->has_workspace()) outs.push_back(workspace());
    ctx_.graph.add_operation({.node = std::move(call_),
                              .outs = std::move(outs),
                              .origins = ctx_.graph.provenance.origins,
                              .where = ctx_.graph.provenance.where});
    return results;
  }

 private:
  const fx::Node& tensor(std::size_t k) const { return *tensors_.at(k).as_node(); }

  /// Memory of its own with the tensor's values, laid out as the tensor is. A tensor that is given twice is one memory,
  /// as it is in eager.
  BufferView memory_for(const fx::Node& node, const sym::TensorMeta& meta) {
    BufferView view{0, meta.dtype, meta.sizes, meta.strides, 0};
    for (std::size_t d = 0; d < meta.rank(); ++d)
      if (meta.strides[d].is_constant(0) && !meta.sizes[d].is_constant(1))
        refuse(ctx_, fmt::format("writes to %{}, whose elements lie in the same memory; give it a copy", node.name));
    if (is_undefined(node)) {
      ir::Layout layout{meta.dtype, meta.device, meta.sizes, meta.strides, true};
      view.buffer = ctx_.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
      return view;
    }
    const TensorBox box = ctx_.tensor(const_cast<fx::Node*>(&node));
    TensorBox copy = result(ctx_, element(ctx_, box, meta.sizes), meta);
    copy.storage->strides = meta.strides;  // with the gaps that are recorded: the kernel knows the strides
    copy.realize();
    view.buffer = *copy.storage->buffer;
    ctx_.graph.buffer(view.buffer).layout.fixed = true;
    return view;
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
  ir::UserCall call_;
  std::map<const fx::Node*, BufferView> made_;
};

Lowered user_kernel(Context& ctx, const Values& args) { return Call(ctx, args).run(); }

}  // namespace

void add_user_kernels(Table& t) { t[std::string(ops::kUserKernelCall)] = user_kernel; }

}  // namespace coil::lowering
