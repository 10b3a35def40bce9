#include "passes/loop/fuse_sums.h"

#include <algorithm>

#include "ir/comm_buffers.h"
#include "library_ops/collectives.h"
#include "library_ops/table.h"

namespace coil::ir {
namespace {

namespace names = library_ops::collectives;

class SumFuser {
 public:
  explicit SumFuser(Graph& graph) : graph_(graph), blocks_(blocks(graph)) {}

  void run() {
    std::vector<Operation> made;
    bool changed = false;
    for (const Operation& op : graph_.operations()) {
      if (!is_wanted(op)) {
        made.push_back(op);
        continue;
      }
      made.push_back(beginning(op));
      made.push_back(reading(op));
      changed = true;
    }
    if (changed) graph_.replace_operations(std::move(made));
  }

 private:
  bool is_wanted(const Operation& op) const {
    const auto* call = std::get_if<Extern>(&op.node);
    if (!call || !library_ops::has(call->op, library_ops::Trait::OneShotSum) || blocks_[op.id] != 0 ||
        device_of(graph_, op) != graph_.target().device)
      return false;
    const BufferView &x = call->inputs[0], &y = call->outputs[0];
    if (x.dtype != DType::F32 && x.dtype != DType::F16 && x.dtype != DType::BF16) return false;
    const auto bytes = comm_bytes(graph_.env(), x.dtype, x.sizes, x.strides);
    return bytes && *bytes <= names::kPeerSumBytes && x.offset.is_constant(0) && is_whole(y) && is_used_once(op) &&
           is_read_by_a_loop(op.outs[0]);
  }

  /// Whether the view has all of its buffer, by the buffer's own dimensions.
  bool is_whole(const BufferView& view) const {
    const Layout& l = graph_.buffer(view.buffer).layout;
    return view.dtype == l.dtype && view.sizes == l.sizes && view.strides == l.strides && view.offset.is_constant(0);
  }

  /// Whether the sum alone uses its operand, once something has made it.
  bool is_used_once(const Operation& sum) const {
    const BufferId operand = std::get<Extern>(sum.node).inputs[0].buffer;
    const Buffer& b = graph_.buffer(operand);
    if (b.is_output || b.layout.dtype != std::get<Extern>(sum.node).inputs[0].dtype) return false;
    for (const GraphOutput& o : graph_.outputs)
      if (auto* view = std::get_if<BufferView>(&o.value); view && view->buffer == operand) return false;
    return std::ranges::all_of(graph_.operations(), [&](const Operation& op) {
      if (op.id == sum.id) return true;
      const std::vector<BufferId> read = reads(op);
      const bool is_read = std::ranges::find(read, operand) != read.end(),
                 is_written = std::ranges::find(op.outs, operand) != op.outs.end();
      return !is_read && (!is_written || op.id < sum.id);
    });
  }

  bool is_read_by_a_loop(BufferId result) const {
    return std::ranges::any_of(graph_.operations(), [&](const Operation& op) {
      if (!std::holds_alternative<Pointwise>(op.node) && !std::holds_alternative<Reduction>(op.node)) return false;
      const std::vector<BufferId> read = reads(op);
      return blocks_[op.id] == 0 && std::ranges::find(read, result) != read.end();
    });
  }

  BufferId table_of(const std::string& group) {
    const auto found = tables_.find(group);
    if (found != tables_.end()) return found->second;
    Layout layout{.dtype = DType::I64,
                  .device = graph_.target().device,
                  .sizes = {names::kPeerTableWords},
                  .strides = {1},
                  .fixed = true,
                  .comm = CommBufferLayout{CommKind::Symmetric, group}};
    const BufferId id =
        graph_.add_buffer(fmt::format("buf{}", graph_.buffers().size()), BufferKind::Computed, std::move(layout)).id;
    return tables_.emplace(group, id).first->second;
  }

  Operation beginning(const Operation& sum) {
    const auto& call = std::get<Extern>(sum.node);
    const BufferView& x = call.inputs[0];
    const std::string group = read(call.attributes, names::kGroup);
    const BufferId table = table_of(group);
    const BufferView words{table, DType::I64, {names::kPeerTableWords}, {1}, 0};
    return {.node = Extern{std::string(names::kBeginPeerSum), {{"group", group}}, {x}, {x, words}},
            .outs = {x.buffer, table},
            .store_index = {},
            .origins = sum.origins,
            .where = sum.where};
  }

  Operation reading(const Operation& sum) {
    const auto& call = std::get<Extern>(sum.node);
    const BufferView& x = call.inputs[0];
    const Exprs& sizes = call.outputs[0].sizes;
    const Exprs at = graph_.ivars(sizes.size());
    Scalar body = nullptr;
    if (is_whole(x)) {
      body = graph_.pool().load(x.buffer, x.dtype, at);
    } else {
      Expr place = 0;
      for (std::size_t d = 0; d < at.size(); ++d) place = place + at[d] * x.strides[d];
      body = graph_.pool().linear_load(x.buffer, x.dtype, graph_.env().simplify(place));
    }
    return {.node = Pointwise{sizes, body},
            .outs = sum.outs,
            .store_index = {},
            .origins = sum.origins,
            .where = sum.where};
  }

  Graph& graph_;
  const std::vector<std::size_t> blocks_;
  std::map<std::string, BufferId> tables_;
};

}  // namespace

void fuse_sums(Graph& graph) { SumFuser(graph).run(); }

}  // namespace coil::ir
