#include "runtime/plan/plan_check.h"

#include "library_ops/check.h"
#include "library_ops/table.h"
#include "runtime/plan/parts.h"
#include "runtime/plan/shape_program.h"
#include "support/error.h"
#include "support/float_functions.h"

namespace coil::runtime {
namespace {

class PlanChecker {
 public:
  PlanChecker(const Plan& plan, const HasOperation& has) : plan_(plan), has_(has) {}

  void check() {
    check_devices();
    require(!(plan_.stops_on_failure || plan_.dependent_launches) || !plan_.device.is_host(),
            "a status that the device keeps");
    check_shape_program();
    for (const Check& c : plan_.checks) slot(c.condition, "a check");
    for (const Input& in : plan_.inputs) layout(in.sizes, in.strides, "input " + in.name);
    for (const Constant& c : plan_.constants) {
      require(c.sizes.size() == c.strides.size(), "constant " + c.name);
      require(!c.seed || (c.state && c.dtype == DType::I64 && c.sizes == Sizes{1}), "seed " + c.name);
    }
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) check_buffer(id);
    for (const Step& step : plan_.steps) std::visit([&](const auto& s) { check_step(s); }, step);
    check_blocks();
    check_parts();
    for (const Output& out : plan_.outputs) check_output(out);
    if (plan_.signature) check_signature(*plan_.signature);
  }

 private:
  /// Every input once and in order; outputs in order, but for those that are None.
  void check_signature(const Signature& s) const {
    std::int64_t inputs = 0, outputs = 0;
    check_leaves(s.inputs, inputs, false);
    check_leaves(s.outputs, outputs, true);
    require(inputs == static_cast<std::int64_t>(plan_.inputs.size()) &&
                outputs == static_cast<std::int64_t>(plan_.outputs.size()),
            "the signature");
    require(s.inputs.children.size() == 2, "the signature");
  }
  void check_leaves(const Structure& s, std::int64_t& next, bool optional) const {
    if (s.is_leaf() && !(optional && s.leaf < 0)) require(s.leaf == next++, "the signature");
    for (const Structure& child : s.children) check_leaves(child, next, optional);
  }

  void require(bool good, const std::string& what) const {
    if (!good) fail("the plan is broken: {} refers to something that is not there", what);
  }
  void slot(Slot s, const std::string& what) const { require(s < plan_.shape_program.size(), what); }
  void layout(const std::vector<Slot>& sizes, const std::vector<Slot>& strides, const std::string& what) const {
    require(sizes.size() == strides.size(), what);
    for (Slot s : sizes) slot(s, what);
    for (Slot s : strides) slot(s, what);
  }
  void view(const View& v, const std::string& what) const {
    require(v.buffer < plan_.buffers.size(), what);
    layout(v.sizes, v.strides, what);
    slot(v.offset, what);
  }

  void check_devices() const {
    require(plan_.others.empty() || !plan_.check_lifetimes, "a run that is watched");
    for (std::size_t k = 0; k < plan_.others.size(); ++k) {
      bool again = plan_.others[k].device == plan_.device;
      for (std::size_t i = 0; i < k; ++i) again = again || plan_.others[i].device == plan_.others[k].device;
      if (again) fail("the plan is broken: it lies on {} twice", to_string(plan_.others[k].device));
    }
    for (const PlanKernel& k : plan_.kernels) require(k.place <= plan_.others.size(), "kernel " + k.symbol);
  }
  /// A step touches memory of the device that carries it out.
  void lies(BufferId b, std::uint32_t place, const std::string& what) const {
    if (plan_.buffers[b].place != place)
      fail("the plan is broken: {} on {} touches buffer {}, which lies on {}", what, to_string(plan_.device_of(place)),
           plan_.buffers[b].name, to_string(plan_.device_of(plan_.buffers[b].place)));
  }

  void check_shape_program() const {
    std::int64_t numbers = 0;
    for (std::size_t i = 0; i < plan_.shape_program.size(); ++i) {
      const ShapeInstruction& in = plan_.shape_program[i];
      const std::string what = fmt::format("shape instruction {}", i);
      require(in.op <= ShapeOp::RunTime, what);
      require(in.op != ShapeOp::RunTime || in.a == numbers++, what);
      require(in.op != ShapeOp::Float || (in.c >= 0 && in.c < kFloatFunctions), what);
      const std::int64_t operands[] = {in.a, in.b, in.c};
      for (int k = 0; k < slot_operands(in.op); ++k)
        require(operands[k] >= 0 && operands[k] < static_cast<std::int64_t>(i), what);
      if (in.op == ShapeOp::InputSize || in.op == ShapeOp::InputStride || in.op == ShapeOp::InputValue) {
        require(in.a >= 0 && in.a < static_cast<std::int64_t>(plan_.inputs.size()), what);
        const Input& input = plan_.inputs[static_cast<std::size_t>(in.a)];
        if (in.op == ShapeOp::InputValue)
          require(input.dtype == DType::Bool || is_integral(input.dtype), what);
        else
          require(in.b >= 0 && in.b < static_cast<std::int64_t>(input.sizes.size()), what);
      }
    }
  }

  void check_buffer(BufferId id) const {
    const Buffer& b = plan_.buffers[id];
    const std::string what = "buffer " + b.name;
    require(b.place <= plan_.others.size(), what);
    switch (b.kind) {
      case BufferKind::Input: require(b.index < plan_.inputs.size(), what); break;
      case BufferKind::Constant: require(b.index < plan_.constants.size(), what); break;
      case BufferKind::Temporary:
      case BufferKind::Output: slot(b.bytes, what); break;
      case BufferKind::Comm: check_comm(b, what); break;
      default: require(false, what);
    }
    require(b.first <= b.last, what);
    require(b.shares < static_cast<std::int64_t>(plan_.buffers.size()), what);
    const Buffer& owner = plan_.buffers[memory_of(plan_, id)];
    require(b.kind != BufferKind::Output || owner.kind != BufferKind::Temporary, what);
    require(&owner == &b || owner.kind != BufferKind::Comm, what);
    require(owner.place == b.place && (b.kind != BufferKind::Comm || b.place == 0), what);
  }

  void check_comm(const Buffer& b, const std::string& what) const {
    slot(b.bytes, what);
    require(b.index < plan_.comm_pools.size() && b.arena_offset >= 0 && b.shares < 0, what);
    const std::uint64_t bytes = plan_.comm_pools[b.index].bytes,
                        last = plan_.device.is_host() ? bytes : peer_table_offset(bytes);
    require(static_cast<std::uint64_t>(b.arena_offset) <= last, what);
  }

  void check_step(const KernelCall& call) const {
    require(call.kernel < plan_.kernels.size(), "a kernel call");
    const std::string what = "kernel call " + plan_.kernels[call.kernel].symbol;
    for (BufferId b : call.buffers) {
      require(b < plan_.buffers.size(), what);
      lies(b, plan_.kernels[call.kernel].place, what);
    }
    for (Slot s : call.scalars) slot(s, what);
    slot(call.extent, what);
    slot(call.grain, what);
    for (Slot s : call.grid) slot(s, what);
    slot(call.shared_bytes, what);
    for (std::uint32_t k : call.written) require(k < call.buffers.size(), what);
    for (const KernelArgument& a : call.arguments) {
      slot(a.value, what);
      require(a.buffer >= kStatusArgument && a.buffer < static_cast<std::int64_t>(call.buffers.size()), what);
      require(a.bytes == 8 || (a.buffer >= 0 && a.bytes == kTensorMapBytes) ||
                  (a.buffer == kNumberArgument && (a.bytes == 1 || a.bytes == 2 || a.bytes == 4)),
              what);
    }
    require(call.arguments.empty() || !call.grid.empty(), what);
    check_tensor_maps(call, what);
    require(!has_status(call) || (plan_.stops_on_failure && some_kernel_fails()), what);
    require(call.grid.empty() || (call.grid.size() == 3 && call.block >= 1 && call.block <= 1024), what);
  }
  void check_tensor_maps(const KernelCall& call, const std::string& what) const {
    const auto count = std::ranges::count(call.arguments, kTensorMapBytes, &KernelArgument::bytes);
    require(call.arguments.empty() || static_cast<std::size_t>(count) == call.tensor_maps.size(), what);
    require(call.tensor_maps.empty() || !call.grid.empty(), what);
    for (const TensorMap& m : call.tensor_maps) {
      require(m.buffer < call.buffers.size(), what);
      slot(m.offset, what);
      require(!m.box.empty() && m.box.size() <= kTensorMapRank && m.sizes.size() == m.box.size(), what);
      layout(m.sizes, m.strides, what);
    }
  }
  bool some_kernel_fails() const {
    return std::ranges::any_of(plan_.steps, [&](const Step& s) {
      const auto* call = std::get_if<KernelCall>(&s);
      return call && call->kernel < plan_.kernels.size() && !plan_.kernels[call->kernel].failure.empty();
    });
  }
  void check_step(const ExternCall& call) const {
    for (const View& v : call.inputs) view(v, "library call " + call.op);
    for (const View& v : call.outputs) view(v, "library call " + call.op);
    const std::uint32_t place = plan_.place_of(call);
    if (!library_ops::has(call.op, library_ops::Trait::DeviceCopy)) {
      for (const auto* views : {&call.inputs, &call.outputs})
        for (const View& v : *views) lies(v.buffer, place, "library call " + call.op);
      if (has_ && !has_(call.op, plan_.device_of(place).type))
        fail("this runtime has no library operation '{}' on {}", call.op, to_string(plan_.device_of(place)));
    }
    if (library_ops::find(call.op)) library_ops::check_call(call);
  }
  void check_step(const HostCall& call) const {
    const std::string what = "call of " + call.op;
    for (const View& v : call.inputs) view(v, what);
    for (const auto& v : call.outputs)
      if (v) view(*v, what);
    for (const NamedHostArgument& a : call.arguments) check_argument(a.value, call, what);
    require(call.writes.size() <= call.outputs.size(), what);
    for (std::size_t k = 0; k < call.writes.size(); ++k) {
      const auto& to = call.outputs[call.outputs.size() - call.writes.size() + k];
      require(call.writes[k] < call.inputs.size() && to && to->dtype == call.inputs[call.writes[k]].dtype &&
                  to->sizes.size() == call.inputs[call.writes[k]].sizes.size() &&
                  plan_.buffers[to->buffer].place == plan_.buffers[call.inputs[call.writes[k]].buffer].place,
              what);
    }
  }
  void check_argument(const HostArgument& a, const HostCall& call, const std::string& what) const {
    if (auto* i = std::get_if<HostInteger>(&a)) slot(i->slot, what);
    if (auto* o = std::get_if<HostOperand>(&a)) require(o->index < call.inputs.size(), what);
    if (auto* list = std::get_if<std::vector<HostArgument>>(&a))
      for (const HostArgument& item : *list) check_argument(item, call, what);
  }
  void check_step(const AssertCall& call) const { slot(call.condition, "an assertion"); }
  void check_step(const AllocateBuffer& step) const {
    require(step.buffer < plan_.buffers.size() && own_memory(step.buffer), "an allocation");
  }
  void check_step(const FreeBuffer& step) const {
    require(step.buffer < plan_.buffers.size() && own_memory(step.buffer), "a free");
  }
  void check_step(const ReadSymbol& step) const {
    require(step.source < plan_.buffers.size(), "a symbol's buffer");
    runtime_number(step.symbol, "a symbol");
  }
  void check_step(const SetNumber& step) const {
    runtime_number(step.symbol, "a symbol");
    slot(step.value, "a symbol");
  }
  void check_step(const Control& step) const {
    slot(step.value, "a branch");
    if (step.kind == Control::Kind::Loop) runtime_number(step.counter, "a loop");
    require(step.target <= plan_.steps.size(), "a branch");
  }
  void runtime_number(Slot s, const std::string& what) const {
    slot(s, what);
    require(plan_.shape_program[s].op == ShapeOp::RunTime, what);
  }
  bool own_memory(BufferId id) const {
    const BufferKind kind = plan_.buffers[memory_of(plan_, id)].kind;
    return kind == BufferKind::Temporary || kind == BufferKind::Output;
  }

  /// Branches go where their blocks say, so that each step is reached with its block's numbers known.
  void check_blocks() const {
    using Kind = Control::Kind;
    struct Open {
      std::size_t step;
      Kind kind;
    };
    std::vector<Open> open;
    std::vector<std::vector<std::size_t>> leaving;
    auto target = [&](std::size_t k) { return std::get<Control>(plan_.steps[k]).target; };
    for (std::size_t k = 0; k < plan_.steps.size(); ++k) {
      const auto* c = std::get_if<Control>(&plan_.steps[k]);
      if (!c) continue;
      if (c->kind == Kind::BreakUnless) {
        require(!open.empty() && open.back().kind == Kind::Loop, "a break");
        leaving.back().push_back(k);
      } else if (c->kind == Kind::If || c->kind == Kind::Loop) {
        open.push_back({k, c->kind});
        leaving.push_back({k});
      } else {
        const Kind opener = c->kind == Kind::Else ? Kind::If : c->kind == Kind::EndIf ? Kind::Else : Kind::Loop;
        require(!open.empty() && open.back().kind == opener, "the end of a block");
        for (std::size_t from : leaving.back()) require(target(from) == k + 1, "a branch");
        require(c->kind != Kind::EndLoop || c->target == open.back().step, "the end of a loop");
        open.pop_back();
        leaving.pop_back();
        if (c->kind == Kind::Else) open.push_back({k, Kind::Else}), leaving.push_back({k});
      }
    }
    require(open.empty(), "the end of a block");
  }

  /// In order and apart, each in one block and of whole blocks, and of steps that a device can record.
  void check_parts() const {
    std::uint32_t behind = 0;
    for (const Part& part : plan_.parts) {
      require(behind <= part.first && part.first < part.end && part.end <= plan_.steps.size(), "a part");
      behind = part.end;
      for (const auto* list : {&part.inputs, &part.outputs})
        for (BufferId b : *list) require(b < plan_.buffers.size(), "a part");
      for (Slot s : part.sizes) slot(s, "a part");
      int depth = 0;
      for (std::uint32_t k = part.first; k < part.end; ++k) {
        const Step& step = plan_.steps[k];
        require(can_be_in_part(plan_, step), "a part");
        const auto* c = std::get_if<Control>(&step);
        if (!c) continue;
        depth += c->kind == Control::Kind::If || c->kind == Control::Kind::Loop;
        depth -= c->kind == Control::Kind::EndIf || c->kind == Control::Kind::EndLoop;
        require(depth > 0 || (depth == 0 && c->kind != Control::Kind::Else && c->kind != Control::Kind::BreakUnless),
                "a part");
      }
      require(depth == 0, "a part");
    }
  }

  void check_output(const Output& out) const {
    const std::string what = "output " + out.name;
    if (out.kind == Output::Kind::Int || out.kind == Output::Kind::Bool) slot(out.value, what);
    if (out.kind != Output::Kind::Tensor) return;
    view(out.view, what);
    const BufferKind kind = plan_.buffers[memory_of(plan_, out.view.buffer)].kind;
    require(kind != BufferKind::Temporary && kind != BufferKind::Comm, what);
  }

  const Plan& plan_;
  const HasOperation& has_;
};

}  // namespace

BufferId memory_of(const Plan& plan, BufferId id) {
  std::size_t hops = 0;
  while (plan.buffers[id].shares >= 0) {
    id = static_cast<BufferId>(plan.buffers[id].shares);
    if (id >= plan.buffers.size() || ++hops > plan.buffers.size())
      fail("the plan is broken: a shared buffer has no memory");
  }
  return id;
}

void check_plan(const Plan& plan, const HasOperation& has) { PlanChecker(plan, has).check(); }

}  // namespace coil::runtime
