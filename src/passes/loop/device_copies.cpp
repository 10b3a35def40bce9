#include "passes/loop/device_copies.h"

#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil {
namespace {

using ir::BufferId, ir::Operation, ir::Scalar;

class CopyInserter {
 public:
  explicit CopyInserter(ir::Graph& graph) : graph_(graph) {}

  void run() {
    if (const auto seed = graph_.seed_buffer()) graph_.buffer(*seed).layout.device = graph_.target().device;
    const std::vector<Operation> before(graph_.operations().begin(), graph_.operations().end());
    for (const Operation& op : before) place(op);
    graph_.replace_operations(std::move(list_));
  }

 private:
  void place(Operation op) {
    if (std::holds_alternative<ir::Control>(op.node)) copies_.clear();  // what one block copies is there in it alone
    const auto* call = std::get_if<ir::Extern>(&op.node);
    const bool is_copy = call && library_ops::has(call->op, library_ops::Trait::DeviceCopy);
    const Device here = ir::device_of(graph_, op);
    check_caller(op);
    if (!is_copy) {
      std::map<BufferId, BufferId> copies;
      for (BufferId b : ir::reads(op))
        if (graph_.buffer(b).layout.device != here && !std::holds_alternative<ir::ReadSymbol>(op.node))
          copies.emplace(b, copy_of(b, here, op));
      if (!copies.empty()) read_copies(op, copies);
    }
    for (BufferId b : op.outs) std::erase_if(copies_, [b](const auto& c) { return c.first.first == b; });
    list_.push_back(std::move(op));
  }

  BufferId copy_of(BufferId from, Device here, const Operation& reader) {
    auto [known, added] = copies_.try_emplace({from, to_string(here)}, 0);
    if (!added) return known->second;
    ir::Layout layout = graph_.buffer(from).layout;
    graph_.buffer(from).layout.fixed = layout.fixed = true;
    layout.device = here;
    const ir::BufferView source{from, layout.dtype, layout.sizes, layout.strides, 0};
    ir::BufferView to = source;
    known->second = to.buffer = graph_.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
    list_.push_back({.node = ir::Extern{std::string(library_ops::copies::kDeviceCopy), {}, {source}, {to}},
                     .outs = {to.buffer},
                     .origins = reader.origins,
                     .where = reader.where});
    return to.buffer;
  }

  void read_copies(Operation& op, const std::map<BufferId, BufferId>& copies) {
    auto body = [&](Scalar root) {
      return graph_.pool().replace_loads(root, [&](Scalar load) -> Scalar {
        const auto copy = copies.find(load->buffer);
        if (copy == copies.end()) return nullptr;
        ir::ScalarNode node = *load;
        node.buffer = copy->second;
        return graph_.pool().exactly(std::move(node));
      });
    };
    if (auto* p = std::get_if<ir::Pointwise>(&op.node)) p->body = body(p->body);
    if (auto* r = std::get_if<ir::Reduction>(&op.node)) r->body = body(r->body);
    if (auto* s = std::get_if<ir::Scan>(&op.node)) s->body = body(s->body);
    if (auto* s = std::get_if<ir::Scatter>(&op.node)) {
      s->body = body(s->body);
      for (Scalar& index : s->indirect) index = body(index);
    }
    if (auto* call = std::get_if<ir::Extern>(&op.node))
      for (ir::BufferView& v : call->inputs)
        if (const auto copy = copies.find(v.buffer); copy != copies.end()) v.buffer = copy->second;
  }

  /// Whoever carries out such calls is given memory of the one device.
  void check_caller(const Operation& op) const {
    const auto* host = std::get_if<ir::Fallback>(&op.node);
    const auto* user = std::get_if<ir::UserCall>(&op.node);
    if (!host && !user) return;
    std::vector<BufferId> touched = ir::reads(op);
    touched.insert(touched.end(), op.outs.begin(), op.outs.end());
    for (BufferId b : touched)
      if (graph_.buffer(b).layout.device != graph_.target().device)
        throw Error(fmt::format("{} touches memory of {}, but in a program over several devices what the host, or a "
                                "kernel of the user's, carries out lies on {}: compile with --set one_device=true",
                                host ? host->op : user->kernel->name, to_string(graph_.buffer(b).layout.device),
                                to_string(graph_.target().device)),
                    host ? host->op : user->kernel->name, op.where);
  }

  ir::Graph& graph_;
  std::vector<Operation> list_;
  std::map<std::pair<BufferId, std::string>, BufferId> copies_;  ///< by what they are of, and where they lie
};

}  // namespace

void copy_between_devices(ir::Graph& graph) {
  if (graph.on_several_devices) CopyInserter(graph).run();
}

}  // namespace coil
