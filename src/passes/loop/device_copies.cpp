#include "passes/loop/device_copies.h"

#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil {
namespace {

using ir::BufferId, ir::Operation, ir::Scalar;

class CopyInserter {
 public:
  CopyInserter(ir::Graph& graph, const CarriesOut& carries_out) : graph_(graph), carries_out_(carries_out) {}

  void run() {
    spread();
    if (!graph_.on_several_devices) return;
    if (const auto seed = graph_.seed_buffer()) graph_.buffer(*seed).layout.device = device_of_seed(*seed);
    const std::vector<Operation> before(graph_.operations().begin(), graph_.operations().end());
    for (const Operation& op : before) place(op);
    graph_.replace_operations(std::move(list_));
  }

 private:
  bool is_left_to_host(const Operation& op) const {
    const auto* call = std::get_if<ir::Extern>(&op.node);
    return call && !ir::device_of(graph_, op).is_host() && library_ops::works_on_copies(call->op) &&
           !carries_out_(*call) &&
           std::ranges::all_of(call->outputs, [&](const ir::BufferView& v) { return v == whole(v.buffer); });
  }

  ir::BufferView whole(BufferId b) const {
    const ir::Layout& layout = graph_.buffer(b).layout;
    return {b, layout.dtype, layout.sizes, layout.strides, 0};
  }

  /// A program on one device is one over several where the CPU has something to do in it. Until then its buffers did
  /// not need devices of their own.
  void spread() {
    if (graph_.on_several_devices ||
        std::ranges::none_of(graph_.operations(), [&](const Operation& op) { return is_left_to_host(op); }))
      return;
    for (const ir::Buffer& b : graph_.buffers()) graph_.buffer(b.id).layout.device = graph_.target().device;
    graph_.on_several_devices = true;
  }

  /// The target's, unless the CPU alone draws: it would wait for the other device to read it.
  Device device_of_seed(BufferId seed) const {
    const bool drawn_there = std::ranges::any_of(graph_.operations(), [&](const Operation& op) {
      return !ir::device_of(graph_, op).is_host() && std::ranges::count(ir::reads(op), seed) > 0;
    });
    return drawn_there ? graph_.target().device : Device{};
  }

  /// Makes a call the CPU's: its results come to lie there. Returns the copies to where others expect them.
  std::vector<Operation> leave_to_host(Operation& op) {
    std::vector<Operation> back;
    auto& call = std::get<ir::Extern>(op.node);
    for (ir::BufferView& v : call.outputs) {
      const BufferId there = v.buffer;
      const BufferId here = twin_of(there, Device{});
      std::ranges::replace(op.outs, there, here);
      v.buffer = here;
      back.push_back(copy(here, there, op));
      copies_[{there, to_string(Device{}), std::nullopt}] = here;
    }
    return back;
  }

  void place(Operation op) {
    if (std::holds_alternative<ir::Control>(op.node)) copies_.clear();  // what one block copies is there in it alone
    const auto* call = std::get_if<ir::Extern>(&op.node);
    const bool is_copy = call && library_ops::has(call->op, library_ops::Trait::DeviceCopy);
    const bool left = is_left_to_host(op);
    const Device here = left ? Device{} : ir::device_of(graph_, op);
    check_user_kernel(op);
    // What is left to the host takes its operands where they lie, as in eager.
    if (!is_copy && !std::holds_alternative<ir::Fallback>(op.node)) {
      copy_parts(op, here);
      std::map<BufferId, BufferId> copies;
      for (BufferId b : ir::reads(op))
        if (graph_.buffer(b).layout.device != here && !std::holds_alternative<ir::ReadSymbol>(op.node))
          copies.emplace(b, copy_of(b, here, op));
      if (!copies.empty()) read_copies(op, copies);
    }
    for (BufferId b : op.outs) std::erase_if(copies_, [b](const auto& c) { return c.first.buffer == b; });
    std::vector<Operation> back;
    if (left) back = leave_to_host(op);
    list_.push_back(std::move(op));
    std::ranges::move(back, std::back_inserter(list_));
  }

  BufferId copy_of(BufferId from, Device here, const Operation& reader) {
    auto [known, added] = copies_.try_emplace({from, to_string(here), std::nullopt}, 0);
    if (!added) return known->second;
    known->second = twin_of(from, here);
    list_.push_back(copy(from, known->second, reader));
    return known->second;
  }

  /// Elements of a buffer side by side.
  struct Part {
    std::int64_t offset = 0, count = 0;
    auto operator<=>(const Part&) const = default;
  };

  /// The part from the first element that a view reads to the last, where that is at most half of the buffer.
  std::optional<Part> part_of(const ir::BufferView& v) const {
    const ir::Layout& layout = graph_.buffer(v.buffer).layout;
    const auto offset = v.offset.constant(), all = graph_.env().simplify(sym::product(layout.sizes)).constant();
    if (!offset || !all || v.dtype != layout.dtype) return std::nullopt;
    Part part{*offset, 1};
    for (std::size_t d = 0; d < v.sizes.size(); ++d) {
      const auto size = v.sizes[d].constant(), stride = v.strides[d].constant();
      if (!size || !stride || *size < 1 || *stride < 0) return std::nullopt;
      part.count += (*size - 1) * *stride;
    }
    return 2 * part.count <= *all ? std::optional(part) : std::nullopt;
  }

  /// Operands of a library call that are small views of what lies elsewhere become copies of what they show.
  void copy_parts(Operation& op, Device here) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call) return;
    for (ir::BufferView& v : call->inputs) {
      const ir::Layout& layout = graph_.buffer(v.buffer).layout;
      if (layout.device == here || copies_.contains({v.buffer, to_string(here), std::nullopt})) continue;
      const auto part = part_of(v);
      if (!part) continue;
      auto [known, added] = copies_.try_emplace({v.buffer, to_string(here), part}, 0);
      if (added) known->second = add_copy(v.buffer, *part, here, op);
      v = {known->second, v.dtype, v.sizes, v.strides, 0};
    }
  }

  BufferId add_copy(BufferId from, const Part& part, Device device, const Operation& reader) {
    ir::Layout layout = graph_.buffer(from).layout;
    graph_.buffer(from).layout.fixed = layout.fixed = true;
    layout.sizes = {part.count}, layout.strides = {1}, layout.device = device;
    const BufferId to = graph_.add_buffer("", ir::BufferKind::Computed, layout).id;
    list_.push_back(copy({from, layout.dtype, layout.sizes, layout.strides, part.offset}, to, reader));
    return to;
  }

  /// A buffer of the same layout on another device.
  BufferId twin_of(BufferId from, Device device) {
    ir::Layout layout = graph_.buffer(from).layout;
    graph_.buffer(from).layout.fixed = layout.fixed = true;
    layout.device = device;
    return graph_.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
  }

  /// From a buffer to its twin, for what somebody else reads or makes.
  Operation copy(BufferId from, BufferId to, const Operation& whose) const { return copy(whole(from), to, whose); }
  Operation copy(const ir::BufferView& from, BufferId to, const Operation& whose) const {
    return {.node = ir::Extern{std::string(library_ops::copies::kDeviceCopy), {}, {from}, {whole(to)}},
            .outs = {to},
            .origins = whose.origins,
            .where = whose.where};
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

  /// A kernel of the user's is launched on the program's device, and reads memory of no other.
  void check_user_kernel(const Operation& op) const {
    const auto* user = std::get_if<ir::UserCall>(&op.node);
    if (!user) return;
    std::vector<BufferId> touched = ir::reads(op);
    touched.insert(touched.end(), op.outs.begin(), op.outs.end());
    for (BufferId b : touched)
      if (graph_.buffer(b).layout.device != graph_.target().device)
        throw Error(fmt::format("{} touches memory of {}, but a kernel of the user's runs on {}: compile with --set "
                                "one_device=true",
                                user->kernel->name, to_string(graph_.buffer(b).layout.device),
                                to_string(graph_.target().device)),
                    user->kernel->name, op.where);
  }

  ir::Graph& graph_;
  const CarriesOut& carries_out_;
  std::vector<Operation> list_;
  /// What a copy is of, and where it lies; of all of a buffer, or of a part.
  struct Copied {
    BufferId buffer = 0;
    std::string device;
    std::optional<Part> part;
    auto operator<=>(const Copied&) const = default;
  };
  std::map<Copied, BufferId> copies_;
};

}  // namespace

void copy_between_devices(ir::Graph& graph, const CarriesOut& carries_out) { CopyInserter(graph, carries_out).run(); }

}  // namespace coil
