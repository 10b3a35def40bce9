#include "wrapper/build.h"

#include "passes/loop/part_writes.h"
#include "support/error.h"

namespace coil::wrapper {
namespace {

class Builder {
 public:
  Builder(const fx::GraphModule& module, ir::Graph& graph, std::span<const codegen::Backend* const> backends)
      : module_(module), graph_(graph), backends_(backends) {
    p_.env = graph.env_ptr();
    p_.name = module.name;
    p_.device = backends.front()->device();
    if (graph.on_several_devices)
      for (const codegen::Backend* b : backends.subspan(1)) p_.others.push_back(b->device());
  }

  Program run(const scheduler::Schedule& schedule) {
    add_buffers();
    add_inputs();
    for (const scheduler::Item& item : schedule.items) {
      if (auto* group = std::get_if<scheduler::Group>(&item))
        call_group(*group);
      else
        call_single(graph_.operations()[std::get<scheduler::Single>(item).op]);
    }
    for (const ir::GraphOutput& o : graph_.outputs) {
      Output out{o.name, 0.0, o.is_bool};
      if (auto* v = std::get_if<ir::BufferView>(&o.value))
        out.value = *v;
      else if (auto* e = std::get_if<Expr>(&o.value))
        out.value = *e;
      else
        out.value = std::get<double>(o.value);
      p_.outputs.push_back(std::move(out));
    }
    forget_unused_devices();
    return std::move(p_);
  }

 private:
  /// Numbers that the author put on the CPU are a part of kernels elsewhere: what is left may lie on one device.
  void forget_unused_devices() {
    std::set<BufferId> used;
    for (const Line& l : p_.lines) {
      const Uses u = uses(l);
      used.insert(u.reads.begin(), u.reads.end());
      used.insert(u.writes.begin(), u.writes.end());
    }
    for (const Output& o : p_.outputs)
      if (const auto* v = std::get_if<View>(&o.value)) used.insert(v->buffer);
    if (std::ranges::all_of(used, [&](BufferId b) { return p_.place_of(b) == 0; })) p_.others.clear();
  }

  void add_buffers() {
    std::set<BufferId> outputs;
    for (const ir::GraphOutput& o : graph_.outputs)
      if (auto* v = std::get_if<ir::BufferView>(&o.value)) outputs.insert(v->buffer);
    // The text form tells buffers by their names. Constants keep theirs; an input may be called as one is, and either
    // as Coil calls what it computes.
    std::set<std::string> taken;
    std::vector<std::string> names(graph_.buffers().size());
    auto free_name = [&](std::string name) {
      while (!taken.insert(name).second) name += "_";
      return name;
    };
    for (auto kind : {ir::BufferKind::Constant, ir::BufferKind::Input, ir::BufferKind::Computed})
      for (const ir::Buffer& b : graph_.buffers())
        if (b.kind == kind) names[b.id] = free_name(b.name);
    for (const ir::Buffer& b : graph_.buffers()) {
      Buffer out{names[b.id],
                 BufferKind::Temporary,
                 b.layout.dtype,
                 b.layout.device,
                 b.layout.sizes,
                 b.layout.strides,
                 span_bytes(*p_.env, b.layout.dtype, b.layout.sizes, b.layout.strides),
                 0,
                 b.layout.comm};
      if (b.kind == ir::BufferKind::Constant) {
        out.kind = BufferKind::Constant;
        out.index = p_.constants.size();
        const bool seed = graph_.seed_buffer() == b.id;
        p_.constants.push_back({b.name, graph_.constants.at(b.id), seed || graph_.mutated.contains(b.id), seed});
        if (const auto fill = graph_.fills.find(b.id); fill != graph_.fills.end())
          p_.constants.back().fill = fill->second;
      } else if (b.kind == ir::BufferKind::Computed && outputs.contains(b.id)) {
        out.kind = BufferKind::Output;
      }
      p_.buffers.push_back(std::move(out));
    }
  }

  void add_inputs() {
    COIL_CHECK(graph_.inputs.size() == module_.inputs.size());
    for (std::size_t i = 0; i < module_.inputs.size(); ++i) {
      const BufferId b = graph_.inputs[i];
      p_.buffers[b].kind = BufferKind::Input;
      p_.buffers[b].index = i;
      p_.inputs.push_back({module_.inputs[i].path, b, graph_.mutated.contains(b),
                           module_.inputs[i].constant.has_value(), std::nullopt, module_.inputs[i].goes});
      const fx::Node* node = module_.graph.find(module_.inputs[i].placeholder);
      if (!node || module_.inputs[i].constant) continue;
      if (auto* e = node->meta.value.get_if<Expr>()) p_.inputs.back().number = *e;
      if (auto* b = node->meta.value.get_if<ops::Bool>()) p_.inputs.back().number = b->condition;
    }
  }

  void call_group(const scheduler::Group& group) {
    std::set<std::string> origins;
    std::string where;
    for (const scheduler::Member& m : group.members) {
      const ir::Operation& op = graph_.operations()[m.op];
      origins.insert(op.origins.begin(), op.origins.end());
      if (!op.where.empty()) where = op.where;
    }
    const ir::Operation& op = graph_.operations()[group.members[0].op];
    const std::size_t place = place_of(op);
    codegen::Kernel kernel = backends_[place]->group(graph_, group);
    std::vector<codegen::KernelAlternative> alternatives = backends_[place]->alternatives(graph_, group, kernel);
    if (!alternatives.empty() && are_all(alternatives)) {
      kernel = std::move(alternatives.back().kernel);
      alternatives.pop_back();
    }
    call_kernel(std::move(kernel), place, std::move(origins), std::move(where), std::move(alternatives));
    if (group.members.size() > 1) return;
    if (auto from = ir::copied_buffer(graph_, op)) std::get<CallKernel>(p_.lines.back()).copies = {*from, op.outs[0]};
  }

  /// Whether one of the alternatives is there for any sizes, so that the last may be what is left to the usual kernel.
  bool are_all(std::span<const codegen::KernelAlternative> alternatives) const {
    Expr none = 1;
    for (const codegen::KernelAlternative& a : alternatives) none = sym::logical_and(none, sym::logical_not(a.when));
    return p_.env->simplify(none).is_constant(0);
  }

  /// Nodes of the incoming graph that nodes of the lowered one came from.
  std::set<std::string> origins_of(const std::set<std::string>& nodes) const {
    std::set<std::string> origins;
    for (const std::string& name : nodes) {
      const fx::Node* node = module_.graph.find(name);
      if (node && !node->meta.origins.empty())
        origins.insert(node->meta.origins.begin(), node->meta.origins.end());
      else
        origins.insert(name);
    }
    return origins;
  }

  std::size_t place_of(const ir::Operation& op) const { return p_.place_of(ir::device_of(graph_, op)); }

  /// The place of a kernel among the program's, which is defined where it is not yet.
  std::size_t define_kernel(codegen::Kernel& k, std::size_t place) {
    auto [it, added] = kernel_index_.emplace(k.symbol, p_.kernels.size());
    if (added) {
      p_.lines.push_back(DefineKernel{p_.kernels.size()});
      p_.kernels.push_back(
          {k.symbol, std::move(k.text), std::move(k.parts), std::move(k.triton), std::move(k.language), place});
    }
    return it->second;
  }

  /// What a call may do is what all of its kernels may.
  void add_alternative(CallKernel& call, codegen::KernelAlternative a, std::size_t place) {
    codegen::Kernel& k = a.kernel;
    COIL_CHECK(k.buffers == call.buffers && k.written == call.written && k.may_fail == !call.failure.empty(),
               "{} is no alternative to {}", k.symbol, p_.kernels[call.kernel].symbol);
    std::erase_if(call.in_place,
                  [&](const auto& pair) { return std::ranges::find(k.in_place, pair) == k.in_place.end(); });
    const std::size_t kernel = define_kernel(k, place);
    call.alternatives.push_back({a.when, kernel, std::move(k.scalars), k.extent, k.grain, std::move(k.launch)});
  }

  void call_kernel(codegen::Kernel k, std::size_t place, std::set<std::string> nodes, std::string where,
                   std::vector<codegen::KernelAlternative> alternatives = {}) {
    CallKernel call{define_kernel(k, place),
                    std::move(k.buffers),
                    std::move(k.written),
                    std::move(k.scalars),
                    k.extent,
                    k.grain,
                    "",
                    std::move(k.in_place),
                    {},
                    std::move(nodes),
                    {},
                    std::move(where),
                    std::move(k.launch)};
    call.origins = origins_of(call.nodes);
    if (k.may_fail) call.failure = fmt::format("{}{}", k.failure, call.where.empty() ? "" : " (at " + call.where + ")");
    for (codegen::KernelAlternative& a : alternatives) add_alternative(call, std::move(a), place);
    p_.lines.push_back(std::move(call));
  }

  void call_single(const ir::Operation& op) {
    if (auto* a = std::get_if<ir::Assertion>(&op.node)) {
      p_.lines.push_back(
          Assert{a->condition, op.where.empty() ? a->message : fmt::format("{} (at {})", a->message, op.where)});
    } else if (auto* r = std::get_if<ir::ReadSymbol>(&op.node)) {
      p_.lines.push_back(*r);
    } else if (auto* s = std::get_if<ir::SetSymbol>(&op.node)) {
      p_.lines.push_back(*s);
    } else if (auto* c = std::get_if<ir::Control>(&op.node)) {
      p_.lines.push_back(*c);
    } else if (std::holds_alternative<ir::Scatter>(op.node)) {
      const std::size_t place = place_of(op);
      call_kernel(backends_[place]->scatter(graph_, op), place, op.origins, op.where);
    } else if (auto* host = std::get_if<ir::Fallback>(&op.node)) {
      p_.lines.push_back(CallFallback{host->op, host->arguments, host->inputs, host->outputs, host->writes,
                                      host->is_list, op.origins, origins_of(op.origins), op.where});
    } else if (auto* user = std::get_if<ir::UserCall>(&op.node)) {
      std::vector<bool> written(user->tensors.size(), false);
      for (std::size_t k : user->written) written[k] = true;
      p_.lines.push_back(CallUserKernel{user->kernel, user->tensors, std::move(written), user->numbers, user->grid, "",
                                        op.origins, origins_of(op.origins), op.where});
    } else {
      const auto& call = std::get<ir::Extern>(op.node);
      const std::size_t place = place_of(op);
      if (backends_[place]->has_template(call.op))
        return call_kernel(template_kernel(*backends_[place], call, op.where), place, op.origins, op.where);
      p_.lines.push_back(CallExtern{call.op, call.attributes, call.inputs, call.outputs, op.origins,
                                    origins_of(op.origins), op.where});
    }
  }

  /// What the backend has no kernel for is refused with the user's line.
  codegen::Kernel template_kernel(const codegen::Backend& backend, const ir::Extern& call, const std::string& where) {
    try {
      return backend.template_kernel(graph_, call);
    } catch (const Error& e) {
      if (!e.where().empty()) throw;
      throw Error(e.what(), call.op, where);
    }
  }

  const fx::GraphModule& module_;
  ir::Graph& graph_;
  const std::span<const codegen::Backend* const> backends_;
  Program p_;
  std::map<std::string, std::size_t> kernel_index_;
};

}  // namespace

Program build(const fx::GraphModule& module, ir::Graph& graph, const scheduler::Schedule& schedule,
              const codegen::Backend& backend) {
  const codegen::Backend* const only = &backend;
  return build(module, graph, schedule, std::span(&only, 1));
}

Program build(const fx::GraphModule& module, ir::Graph& graph, const scheduler::Schedule& schedule,
              std::span<const codegen::Backend* const> backends) {
  return Builder(module, graph, backends).run(schedule);
}

}  // namespace coil::wrapper
