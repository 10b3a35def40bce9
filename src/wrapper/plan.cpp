#include "wrapper/plan.h"

#include "codegen/triton/compile.h"
#include "ops/registry.h"
#include "runtime/plan/arena_planner.h"
#include "support/error.h"
#include "support/host_names.h"
#include "support/overloaded.h"
#include "sym/floats.h"
#include "sym/print.h"
#include "wrapper/comm_pools.h"

namespace coil::wrapper {
namespace {

using runtime::ShapeOp;
using runtime::Slot;

/// Integer expressions as a straight line of shape instructions, each distinct one once.
class ShapeProgram {
 public:
  explicit ShapeProgram(std::vector<runtime::ShapeInstruction>& out) : out_(out) {}

  Slot emit(ShapeOp op, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0) {
    auto [it, added] = seen_.emplace(std::tuple(op, a, b, c), static_cast<Slot>(out_.size()));
    if (added) out_.push_back({op, a, b, c});
    return it->second;
  }

  void define(Expr symbol, Slot slot) { slots_[symbol] = slot; }

  Slot operator()(Expr e) {
    if (auto c = e.constant()) return emit(ShapeOp::Constant, *c);
    if (auto it = slots_.find(e); it != slots_.end()) return it->second;
    COIL_CHECK(!e.is_symbol(), "symbol {} has no definition", e.name());
    std::vector<Slot> args;
    if (e.kind() == sym::Kind::Float) {
      for (Expr x : sym::float_operands(e)) args.push_back((*this)(x));
      return slots_[e] =
                 emit(ShapeOp::Float, args.front(), args.back(), static_cast<std::int64_t>(sym::float_function(e)));
    }
    for (Expr x : e.operands()) args.push_back((*this)(x));
    Slot s = args.empty() ? 0 : args[0];
    if (e.kind() == sym::Kind::Where)
      s = emit(ShapeOp::Where, args[0], args[1], args[2]);
    else if (e.kind() == sym::Kind::Not)
      s = emit(ShapeOp::Not, args[0]);
    else
      for (std::size_t k = 1; k < args.size(); ++k) s = emit(op_of(e.kind()), s, args[k]);
    return slots_[e] = s;
  }

 private:
  static ShapeOp op_of(sym::Kind k) {
    using sym::Kind;
    switch (k) {
      case Kind::Add: return ShapeOp::Add;
      case Kind::Mul: return ShapeOp::Mul;
      case Kind::FloorDiv: return ShapeOp::FloorDiv;
      case Kind::CeilDiv: return ShapeOp::CeilDiv;
      case Kind::Mod: return ShapeOp::Mod;
      case Kind::Min: return ShapeOp::Min;
      case Kind::Max: return ShapeOp::Max;
      case Kind::Pow: return ShapeOp::Pow;
      case Kind::Eq: return ShapeOp::Eq;
      case Kind::Ne: return ShapeOp::Ne;
      case Kind::Lt: return ShapeOp::Lt;
      case Kind::Le: return ShapeOp::Le;
      case Kind::And: return ShapeOp::And;
      case Kind::Or: return ShapeOp::Or;
      case Kind::BitAnd: return ShapeOp::BitAnd;
      case Kind::BitOr: return ShapeOp::BitOr;
      case Kind::BitXor: return ShapeOp::BitXor;
      case Kind::ShiftLeft: return ShapeOp::ShiftLeft;
      case Kind::ShiftRight: return ShapeOp::ShiftRight;
      default: break;
    }
    COIL_CHECK(false, "no shape instruction for this expression");
    return ShapeOp::Add;
  }

  std::vector<runtime::ShapeInstruction>& out_;
  std::map<std::tuple<ShapeOp, std::int64_t, std::int64_t, std::int64_t>, Slot> seen_;
  std::unordered_map<Expr, Slot> slots_;
};

class Planner {
 public:
  explicit Planner(const Program& p) : p_(p), shape_(plan_.shape_program) {}

  runtime::Plan run() {
    plan_.model_name = p_.name;
    plan_.device = p_.device;
    for (Device d : p_.others) plan_.others.push_back({d, "", 0});
    plan_.check_lifetimes = p_.check_lifetimes;
    for (const Line& l : p_.lines)
      if (auto* d = std::get_if<DefineSymbol>(&l)) define(*d);
    std::int64_t order = 0;
    for (Expr s : runtime_symbols(p_)) shape_.define(s, shape_.emit(ShapeOp::RunTime, order++));
    for (const Input& in : p_.inputs) {
      const Buffer& b = p_.buffers[in.buffer];
      plan_.inputs.push_back({in.name, b.dtype, slots(b.sizes), slots(b.strides), in.mutated, in.unused});
    }
    for (const Constant& c : p_.constants) {
      plan_.constants.push_back(
          {c.name, c.value.dtype, c.value.sizes, c.value.strides, span_bytes(c.value), 0, c.state, c.seed});
    }
    for (const Buffer& b : p_.buffers) {
      runtime::Buffer out;
      out.kind = b.comm && used(b) ? runtime::BufferKind::Comm : static_cast<runtime::BufferKind>(b.kind);
      out.index = static_cast<std::uint32_t>(b.index);
      out.name = b.name;
      out.bytes = used(b) ? shape_(b.bytes) : shape_(0);
      out.place = static_cast<std::uint32_t>(p_.place_of(b.device));
      plan_.buffers.push_back(std::move(out));
    }
    for (const KernelEntry& k : p_.kernels)
      plan_.kernels.push_back({k.symbol, "", "", static_cast<std::uint32_t>(k.place)});
    for (const CommPool& pool : pools_)
      plan_.comm_pools.push_back({pool.layout.group, static_cast<std::uint64_t>(pool.bytes), pool.plan});
    for (const Line& l : p_.lines) std::visit([&](const auto& x) { line(x); }, l);
    for (const Output& o : p_.outputs) output(o);
    place();
    return std::move(plan_);
  }

 private:
  std::vector<Slot> slots(const Exprs& list) {
    std::vector<Slot> out;
    for (Expr e : list) out.push_back(shape_(e));
    return out;
  }

  runtime::View view(const View& v) { return {v.buffer, v.dtype, slots(v.sizes), slots(v.strides), shape_(v.offset)}; }

  /// Buffers that no line touches (values that never left registers) need no memory.
  bool used(const Buffer& b) {
    if (touched_.empty()) {
      touched_.assign(p_.buffers.size(), false);
      for (const Line& l : p_.lines) {
        const Uses u = uses(l);
        for (BufferId id : u.reads) touched_[id] = true;
        for (BufferId id : u.writes) touched_[id] = true;
      }
      for (const Output& o : p_.outputs)
        if (auto* v = std::get_if<View>(&o.value)) touched_[v->buffer] = true;
    }
    return touched_[static_cast<std::size_t>(&b - p_.buffers.data())];
  }

  static std::uint64_t span_bytes(const Tensor& t) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < t.sizes.size(); ++d) {
      if (t.sizes[d] == 0) return 0;
      last += (t.sizes[d] - 1) * t.strides[d];
    }
    return static_cast<std::uint64_t>(last + 1) * size_of(t.dtype);
  }

  void define(const DefineSymbol& d) {
    const auto input = static_cast<std::int64_t>(d.input), dim = static_cast<std::int64_t>(d.dim);
    Slot s = d.from == DefineSymbol::From::Size     ? shape_.emit(ShapeOp::InputSize, input, dim)
             : d.from == DefineSymbol::From::Stride ? shape_.emit(ShapeOp::InputStride, input, dim)
                                                    : shape_.emit(ShapeOp::InputValue, input);
    if (!d.subtract.is_constant(0)) s = shape_.emit(ShapeOp::Sub, s, shape_(d.subtract));
    if (!d.divide.is_constant(1)) s = shape_.emit(ShapeOp::FloorDiv, s, shape_(d.divide));
    shape_.define(d.symbol, s);
  }

  void line(const DefineSymbol&) {}
  void line(const DefineKernel&) {}
  void line(const BeginPart& b) {
    const Part& part = p_.parts[b.part];
    const auto here = static_cast<std::uint32_t>(plan_.steps.size());
    plan_.parts.push_back({here, here, part.inputs, part.outputs, slots(part.symbols)});
  }
  void line(const EndPart&) {
    runtime::Part& part = plan_.parts.back();
    part.end = static_cast<std::uint32_t>(plan_.steps.size());
    if (part.first == part.end) plan_.parts.pop_back();
  }
  void line(const Assert& a) {
    if (plan_.steps.empty() && !is_runtime(a.condition))
      plan_.checks.push_back({shape_(a.condition), a.message});
    else
      plan_.steps.push_back(runtime::AssertCall{shape_(a.condition), a.message});
  }
  void line(const Allocate& a) {
    if (is_runtime(p_.buffers[a.buffer].bytes)) plan_.steps.push_back(runtime::AllocateBuffer{a.buffer});
    if (!allocated_.insert(a.buffer).second) return;  // on the first side of a branch
    plan_.buffers[a.buffer].first = plan_.buffers[a.buffer].last = static_cast<std::uint32_t>(plan_.steps.size());
  }
  void line(const Free& f) {
    runtime::Buffer& b = plan_.buffers[f.buffer];
    const bool shared = std::any_of(plan_.buffers.begin(), plan_.buffers.end(),
                                    [&](const runtime::Buffer& other) { return other.shares == f.buffer; });
    if (is_runtime(p_.buffers[f.buffer].bytes) && !shared) plan_.steps.push_back(runtime::FreeBuffer{f.buffer});
    b.last = static_cast<std::uint32_t>(std::max<std::size_t>(plan_.steps.size(), b.first + 1) - 1);
    // The owner's lifetime covers those that live in its memory.
    for (std::int64_t owner = b.shares; owner >= 0; owner = plan_.buffers[static_cast<std::size_t>(owner)].shares)
      plan_.buffers[static_cast<std::size_t>(owner)].last = b.last;
  }
  void line(const Reuse& r) {
    plan_.buffers[r.to].shares = r.from;
    if (const Buffer& from = p_.buffers[r.from]; from.kind == BufferKind::Input) plan_.inputs[from.index].taken = true;
    plan_.buffers[r.to].first = plan_.buffers[r.to].last = static_cast<std::uint32_t>(plan_.steps.size());
  }
  void line(const AllocateComm& a) {
    runtime::Buffer& b = plan_.buffers[a.buffer];
    b.index = static_cast<std::uint32_t>(comm_pool_of(pools_, p_.buffers[a.buffer]));
    b.arena_offset = a.offset;
    if (!allocated_.insert(a.buffer).second) return;
    b.first = b.last = static_cast<std::uint32_t>(plan_.steps.size());
  }
  void line(const FreeComm& f) {
    runtime::Buffer& b = plan_.buffers[f.buffer];
    b.last = static_cast<std::uint32_t>(std::max<std::size_t>(plan_.steps.size(), b.first + 1) - 1);
  }
  void line(const ReadSymbol& r) { plan_.steps.push_back(runtime::ReadSymbol{r.source, shape_(r.symbol)}); }
  void line(const SetSymbol& s) { plan_.steps.push_back(runtime::SetNumber{shape_(s.symbol), shape_(s.value)}); }
  void line(const Control& c) {
    using Kind = Control::Kind;
    runtime::Control step{static_cast<runtime::Control::Kind>(c.kind)};
    if (c.kind == Kind::If || c.kind == Kind::BreakUnless) step.value = shape_(c.condition);
    if (c.kind == Kind::Loop) step.value = shape_(c.extent), step.counter = shape_(c.counter);
    const auto here = static_cast<std::uint32_t>(plan_.steps.size());
    auto at = [&](std::uint32_t k) -> runtime::Control& { return std::get<runtime::Control>(plan_.steps[k]); };
    if (c.closes()) {
      for (std::uint32_t k : open_.back()) at(k).target = here + 1;
      if (c.kind == Kind::EndLoop) step.target = open_.back().front();
      if (c.kind == Kind::EndIf) at(open_.back().front()).target = here + 1;
      open_.pop_back();
    }
    if (c.opens()) open_.push_back({here});
    if (c.kind == Kind::BreakUnless) open_.back().push_back(here);
    plan_.steps.push_back(step);
  }
  void line(const CallKernel& c) {
    runtime::KernelCall call{
        static_cast<std::uint32_t>(c.kernel), c.buffers, slots(c.scalars), shape_(c.extent), shape_(c.grain), {}, 0, 0};
    // What has nothing to run over is left out.
    if (c.when && !c.launch) call.extent = shape_(sym::where(*c.when, c.extent, 0));
    if (c.launch) {
      call.grid = slots(c.launch->grid), call.block = static_cast<std::uint32_t>(c.launch->block);
      call.shared_bytes = shape_(c.launch->shared_bytes);
      for (const codegen::MappedTensor& m : c.launch->maps)
        call.tensor_maps.push_back({m.map.element, m.map.swizzle, m.map.box, slots(m.sizes), slots(m.strides),
                                    static_cast<std::uint32_t>(m.pointer), shape_(m.offset)});
    }
    if (c.when && c.launch) call.grid[0] = shape_(sym::where(*c.when, c.launch->grid[0], 0));
    const bool told = p_.check_lifetimes || c.launch || !p_.others.empty();
    for (std::uint32_t i = 0; told && i < c.written.size(); ++i)
      if (c.written[i]) call.written.push_back(i);
    runtime::PlanKernel& k = plan_.kernels[c.kernel];
    if (k.description.empty()) k.description = computed(c);
    if (k.failure.empty()) k.failure = c.failure;
    plan_.stops_on_failure = plan_.stops_on_failure || (c.launch && !c.failure.empty());
    plan_.steps.push_back(std::move(call));
  }
  void line(const CallExtern& c) {
    runtime::ExternCall call;
    call.op = c.op;
    call.attributes = c.attributes;
    call.description = computed(c);
    for (const View& v : c.inputs) call.inputs.push_back(view(v));
    for (const View& v : c.outputs) call.outputs.push_back(view(v));
    plan_.steps.push_back(std::move(call));
  }

  /// On the CPU a Python process carries it out; what it writes to is given to it where it lies.
  void call_in_host(const CallUserKernel& c) {
    runtime::HostCall call{.op = std::string(ops::kUserKernelCall)};
    runtime::HostArgument tensors = std::vector<runtime::HostArgument>{}, numbers = tensors, grid = tensors;
    const auto add = [](runtime::HostArgument& to, runtime::HostArgument item) {
      std::get<std::vector<runtime::HostArgument>>(to).push_back(std::move(item));
    };
    for (std::size_t k = 0; k < c.tensors.size(); ++k) {
      add(tensors, runtime::HostOperand{static_cast<std::uint32_t>(k)});
      call.inputs.push_back(view(c.tensors[k]));
      if (!c.written[k]) continue;
      call.writes.push_back(static_cast<std::uint32_t>(k));
      call.outputs.emplace_back(call.inputs.back());
    }
    for (Expr e : c.numbers) add(numbers, runtime::HostInteger{shape_(e)});
    for (Expr e : c.grid) add(grid, runtime::HostInteger{shape_(e)});
    std::vector<runtime::HostArgument> all{runtime::HostArgument(c.kernel->program), tensors, numbers, grid};
    if (!c.failure.empty()) all.emplace_back(c.failure);
    for (runtime::HostArgument& a : all) call.arguments.push_back({"", std::move(a)});
    plan_.steps.push_back(std::move(call));
  }

  /// What a call computes, and where in the program that stands.
  template <class Call>
  static std::string computed(const Call& c) {
    return fmt::format("{}{}", fmt::join(c.origins, ", "), c.where.empty() ? "" : " (" + c.where + ")");
  }

  std::uint32_t user_kernel(const CallUserKernel& c) {
    const ops::UserKernel& kernel = *c.kernel;
    auto [it, added] = user_kernels_.emplace(kernel.symbol, static_cast<std::uint32_t>(plan_.kernels.size()));
    const bool own = codegen::is_triton_text(kernel);
    const std::string text = own ? computed(c) : fmt::format("{} ({})", kernel.name, kernel.where);
    if (added) plan_.kernels.push_back({kernel.symbol, text, c.failure});
    return it->second;
  }

  runtime::TensorMap tensor_map(const ops::UserKernel::TensorMap& map, const View& v) {
    runtime::TensorMap out{map.element, map.swizzle, map.box, slots(v.sizes), {}, 0, shape_(0)};
    const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
    for (Expr s : v.strides) out.strides.push_back(shape_(p_.env->simplify(s * bytes)));
    return out;
  }

  void line(const CallUserKernel& c) {
    if (c.kernel->parameters.empty()) fail("there is no code for the user's kernel {}", c.kernel->symbol);
    if (p_.device.is_host()) return call_in_host(c);
    if (c.kernel->binary.empty())
      fail("the user's kernel {} ({}) was not compiled for {}", c.kernel->name, c.kernel->where, to_string(p_.device));
    using Kind = ops::UserKernel::Kind;
    runtime::KernelCall call{.kernel = user_kernel(c), .extent = shape_(0), .grain = shape_(1)};
    call.grid = slots(c.grid);
    call.block = c.kernel->block;
    call.shared_bytes = shape_(c.kernel->shared_bytes);
    std::size_t tensor = 0, number = 0;
    for (const ops::UserKernel::Parameter& p : c.kernel->parameters) {
      if (p.kind == Kind::Size || p.kind == Kind::Stride) {
        const View& v = c.tensors.at(tensor - 1);
        call.arguments.push_back({-1, shape_((p.kind == Kind::Size ? v.sizes : v.strides).at(p.dimension)), p.bytes});
      }
      if (p.kind == Kind::Status) call.arguments.push_back({runtime::kStatusArgument, shape_(0), 8});
      if (p.kind == Kind::Constant) call.arguments.push_back({-1, shape_(p.bits), p.bytes});
      if (p.kind == Kind::Number) call.arguments.push_back({-1, shape_(c.numbers.at(number++)), p.bytes});
      if (p.kind != Kind::Tensor && p.kind != Kind::Workspace) continue;
      const View& v = c.tensors.at(tensor);
      if (c.written[tensor++]) call.written.push_back(static_cast<std::uint32_t>(call.buffers.size()));
      const Expr offset = v.offset * static_cast<std::int64_t>(size_of(v.dtype));
      call.arguments.push_back({static_cast<std::int64_t>(call.buffers.size()), shape_(p_.env->simplify(offset)),
                                p.map ? runtime::kTensorMapBytes : 8});
      if (p.map) call.tensor_maps.push_back(tensor_map(*p.map, v));
      call.buffers.push_back(v.buffer);
    }
    plan_.stops_on_failure = plan_.stops_on_failure || !c.failure.empty();
    plan_.steps.push_back(std::move(call));
  }

  void line(const CallFallback& c) {
    runtime::HostCall call;
    call.op = c.op;
    if (const ops::Operator* op = ops::find(without_prefix(c.op))) call.schema = ops::to_string(op->schema);
    call.is_list = c.is_list;
    call.writes.assign(c.writes.begin(), c.writes.end());
    for (const ops::NamedArgument& a : c.arguments) call.arguments.push_back({a.keyword, argument(a.value)});
    for (const View& v : c.inputs) call.inputs.push_back(view(v));
    for (const auto& v : c.outputs) call.outputs.push_back(v ? std::optional(view(*v)) : std::nullopt);
    plan_.steps.push_back(std::move(call));
  }
  runtime::HostArgument argument(const ops::CallArgument& a) {
    using runtime::HostName;
    return std::visit(
        Overloaded{
            [](const ops::None&) -> runtime::HostArgument { return std::monostate{}; },
            [&](const Expr& e) -> runtime::HostArgument { return runtime::HostInteger{shape_(e)}; },
            [](const ops::Operand& o) -> runtime::HostArgument {
              return runtime::HostOperand{static_cast<std::uint32_t>(o.index)};
            },
            [](const DType& d) -> runtime::HostArgument {
              return HostName{HostName::Kind::DType, std::string(torch_name(d))};
            },
            [](const Device& d) -> runtime::HostArgument { return HostName{HostName::Kind::Device, to_string(d)}; },
            [](const ops::MemoryFormat& f) -> runtime::HostArgument {
              return HostName{HostName::Kind::MemoryFormat, std::string(ops::name_of(f))};
            },
            [](const ops::TensorLayout& l) -> runtime::HostArgument {
              return HostName{HostName::Kind::Layout, std::string(ops::name_of(l))};
            },
            [&](const ops::CallArguments& list) -> runtime::HostArgument {
              std::vector<runtime::HostArgument> items;
              for (const ops::CallArgument& item : list) items.push_back(argument(item));
              return items;
            },
            [](const auto& plain) -> runtime::HostArgument { return plain; }},
        static_cast<const ops::CallArgument::variant&>(a));
  }

  /// Whether it is known only when the steps before have run.
  bool is_runtime(Expr e) {
    if (!runtime_) {
      const Exprs list = runtime_symbols(p_);
      runtime_.emplace(list.begin(), list.end());
    }
    if (runtime_->empty()) return false;
    for (Expr s : sym::free_symbols(e))
      if (runtime_->contains(s)) return true;
    return false;
  }

  void output(const Output& o) {
    runtime::Output out;
    out.name = o.name;
    if (auto* v = std::get_if<View>(&o.value)) {
      out.view = view(*v);
    } else if (auto* e = std::get_if<Expr>(&o.value)) {
      out.kind = o.is_bool ? runtime::Output::Kind::Bool : runtime::Output::Kind::Int;
      out.value = shape_(*e);
    } else {
      out.kind = runtime::Output::Kind::Float;
      out.number = std::get<double>(o.value);
    }
    plan_.outputs.push_back(std::move(out));
  }

  /// Offsets in the arena when every size is known; buffers that get memory as the program runs have none.
  void place() {
    for (std::uint32_t k = 0; k <= plan_.others.size(); ++k)
      (k == 0 ? plan_.static_arena_bytes : plan_.others[k - 1].static_arena_bytes) = place_on(k);
  }

  /// The arena of one device. Returns its size, 0 where that is not known.
  std::uint64_t place_on(std::uint32_t device) {
    std::vector<runtime::Interval> intervals;
    std::vector<BufferId> ids;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].kind != BufferKind::Temporary || p_.buffers[b].comm || plan_.buffers[b].place != device ||
          !allocated_.contains(static_cast<BufferId>(b)) || plan_.buffers[b].shares >= 0 ||
          is_runtime(p_.buffers[b].bytes))
        continue;
      auto bytes = p_.buffers[b].bytes.constant();
      if (!bytes) return 0;
      intervals.push_back({static_cast<std::uint64_t>(*bytes), plan_.buffers[b].first, plan_.buffers[b].last});
      ids.push_back(static_cast<BufferId>(b));
    }
    const runtime::ArenaPlan arena = runtime::plan_arena(intervals);
    for (std::size_t k = 0; k < ids.size(); ++k)
      plan_.buffers[ids[k]].arena_offset = static_cast<std::int64_t>(arena.offsets[k]);
    return arena.peak;
  }

  const Program& p_;
  std::vector<CommPool> pools_ = comm_pools(p_);
  runtime::Plan plan_;
  ShapeProgram shape_;
  std::vector<bool> touched_;
  std::set<BufferId> allocated_;
  std::map<std::string, std::uint32_t> user_kernels_;  ///< places in the plan, by symbol
  std::optional<std::unordered_set<Expr>> runtime_;
  std::vector<std::vector<std::uint32_t>>
      open_;  ///< for each open block: the step that opened it, then those that leave it
};

}  // namespace

runtime::Plan make_plan(const Program& p) { return Planner(p).run(); }

}  // namespace coil::wrapper
