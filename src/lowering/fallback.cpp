#include "lowering/fallback.h"

#include "ir/comm_buffers.h"
#include "lowering/common.h"
#include "ops/outside.h"
#include "support/error.h"
#include "support/host_names.h"

namespace coil::lowering {
namespace {

using ops::CallArgument;
using ops::CallArguments;

class HostCall {
 public:
  HostCall(Context& ctx, const fx::Node& node) : ctx_(ctx), node_(node), known_(node.op) {
    call_.op = node.target;
    if (node.target.starts_with(ops::kFunctional)) {
      call_.op = node.target.substr(ops::kFunctional.size());
      known_ = writing_ = ops::find(call_.op);
    }
    const auto* list = node.meta.value.get_if<ops::Values>();
    if (list && std::ranges::any_of(*list, [](const ops::Value& v) { return v.is<ops::Values>(); }))
      call_.op = std::string(kFlat) + call_.op;
  }

  Lowered run() {
    find_shared();
    for (std::size_t i = 0; i < node_.args.size(); ++i) {
      const ops::Parameter* p =
          known_ && i < known_->schema.parameters.size() ? &known_->schema.parameters[i] : nullptr;
      const std::size_t first = call_.inputs.size();
      const bool written = writing_ && p && p->alias && p->alias->write;
      begin_argument(p ? p->name : "", written);
      call_.arguments.push_back({p && p->keyword_only ? p->name : "", argument(node_.args[i])});
      for (std::size_t k = first; written && k < call_.inputs.size(); ++k) {
        call_.writes.push_back(k);
        written_shared_.push_back(is_shared(argument_));
        written_names_.push_back(argument_);
      }
    }
    for (const auto& [name, value] : node_.kwargs) {
      begin_argument(name, false);
      call_.arguments.push_back({name, argument(value)});
    }
    constexpr std::string_view kHost = "host.";
    const ops::Operator* known =
        node_.target.starts_with(kHost) ? ops::find(node_.target.substr(kHost.size())) : known_;
    // An operator that not even a schema tells anything of is expected to have an effect.
    call_.has_effect = !known || known->random || known->side_effect;
    if (const auto unknown = unknown_sizes(); !unknown.empty()) run_for_sizes(unknown);
    Lowered results = make_results();
    add_call();
    return results;
  }

 private:
  // ---- Arguments in memory that ranks share ----

  void find_shared() {
    if (!ctx_.options.symm_mem_args) return;
    shared_ = ctx_.options.symm_mem_args(without_prefix(call_.op));
    comm_.group = "default";
    for (const char* name : {"group", "group_name"})
      if (const ops::Value* v = given(name); v && v->is<std::string>()) comm_.group = v->as_string();
  }

  const ops::Value* given(std::string_view name) const {
    for (const auto& [keyword, value] : node_.kwargs)
      if (keyword == name) return &value;
    const std::size_t count = known_ ? std::min(node_.args.size(), known_->schema.parameters.size()) : 0;
    for (std::size_t i = 0; i < count; ++i)
      if (known_->schema.parameters[i].name == name) return &node_.args[i];
    return nullptr;
  }

  bool is_shared(std::string_view name) const { return std::ranges::find(shared_, name) != shared_.end(); }

  void begin_argument(std::string name, bool written) {
    argument_ = std::move(name);
    in_shared_ = !written && is_shared(argument_);  // of one that is written to, the copy is what the operator is given
  }

  void warn(std::string_view name, std::string_view why) {
    if (!warned_.insert(std::string(name)).second) return;
    ctx_.graph.warnings.push_back(
        fmt::format("{}: its argument '{}' cannot be put in memory that ranks share: {}{}", call_.op, name, why,
                    ctx_.graph.provenance.where.empty() ? "" : fmt::format(" (at {})", ctx_.graph.provenance.where)));
  }

  /// The operand where other ranks reach it: its own buffer, or a copy where that cannot be one.
  BufferView shared_operand(const fx::Node& n) {
    const TensorBox box = ctx_.tensor(const_cast<fx::Node*>(&n));
    const bool may_be_own = !ir::comm_buffer_refusal(box, comm_);
    BufferView view = recorded_operand(ctx_, n);
    const bool can_be = !ir::fresh_comm_buffer_refusal(ctx_.graph, view.buffer);
    const bool is_own = box.storage->realized() && *box.storage->buffer == view.buffer;
    if (can_be && is_own && !may_be_own) view = recorded_copy(ctx_, n);
    share(view.buffer, argument_);
    return view;
  }

  void share(ir::BufferId buffer, const std::string& name) {
    if (const auto refusal = ir::fresh_comm_buffer_refusal(ctx_.graph, buffer))
      warn(name, *refusal);
    else
      ir::make_comm_buffer(ctx_.graph, buffer, comm_);
  }

  void share_written() {
    if (shared_.empty()) return;
    const std::size_t own = call_.outputs.size() - call_.writes.size();
    for (std::size_t k = 0; k < call_.writes.size(); ++k)
      if (written_shared_[k] && call_.outputs[own + k]) share(call_.outputs[own + k]->buffer, written_names_[k]);
  }

  void add_call() {
    share_written();
    ir::Operation operation{.node = std::move(call_),
                            .outs = std::move(outs_),
                            .origins = ctx_.graph.provenance.origins,
                            .where = ctx_.graph.provenance.where};
    ctx_.graph.add_operation(std::move(operation));
    call_ = {}, outs_ = {};
  }

  bool is_unknown(Expr s) const {
    return s.symbol_kind() == sym::SymbolKind::Unbacked &&
           !ctx_.graph.defined_symbols.contains(std::string(s.name())) &&
           !ctx_.input_symbols.contains(std::string(s.name()));
  }

  /// Sizes that are symbols without a value so far: which result, which dimension.
  std::vector<std::pair<std::size_t, std::size_t>> unknown_sizes() const {
    const std::vector<ops::Value> results = flat_results(node_.meta.value);
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const auto* meta = results[k].get_if<sym::TensorMeta>();
      for (std::size_t d = 0; meta && d < meta->rank(); ++d)
        if (Expr size = meta->sizes[d]; size.is_symbol() && is_unknown(size)) found.emplace_back(k, d);
    }
    return found;
  }

  /// The call that runs the operator and says these sizes, which have values from here on; the next one takes the
  /// results.
  void run_for_sizes(const std::vector<std::pair<std::size_t, std::size_t>>& unknown) {
    const std::string op = std::exchange(call_.op, std::string(kSized) + call_.op);
    CallArguments which;
    for (auto [k, d] : unknown)
      for (std::size_t number : {k, d}) which.emplace_back(Expr(number));
    call_.arguments.insert(call_.arguments.begin(), {"", std::move(which)});
    const std::int64_t count = static_cast<std::int64_t>(unknown.size()) + 1;
    const TensorBox told = result(sym::contiguous(DType::I64, device(), {count}));
    const std::vector<ops::Value> results = flat_results(node_.meta.value);
    // What it writes to is written by this call.
    if (writing_)
      for (std::size_t k = results.size() - call_.writes.size(); k < results.size(); ++k)
        written_.push_back(result(results[k].as_tensor()));
    add_call();
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const auto [k, d] = unknown[i];
      ctx_.define(results[k].as_tensor().sizes[d],
                  pointwise(ctx_, DType::I64, {}, element_at(ctx_, told, {static_cast<std::int64_t>(i) + 1}, {})));
    }
    call_.op = std::string(kKept) + op;
    const BufferView view = library_operand(told);
    call_.inputs = {view};
    call_.arguments = {{"", ops::Operand{0}}};
  }

  Device device() const {
    for (const ops::Value& item : flat_results(node_.meta.value))
      if (auto* t = item.get_if<sym::TensorMeta>()) return t->device;
    return {};
  }

  CallArgument argument(const ops::Value& v) {
    if (auto* n = v.get_if<fx::Node*>()) return (*n)->is_tensor() ? operand(**n) : number((*n)->meta.value);
    if (auto* list = v.get_if<ops::Values>()) {
      CallArguments out;
      for (const ops::Value& item : *list) out.push_back(argument(item));
      return out;
    }
    if (v.is_none()) return ops::None{};
    if (auto* s = v.get_if<std::string>()) return *s;
    if (auto* d = v.get_if<DType>()) return *d;
    if (auto* d = v.get_if<Device>()) return *d;
    if (auto* f = v.get_if<ops::MemoryFormat>()) return *f;
    if (auto* l = v.get_if<ops::TensorLayout>()) return *l;
    return number(v);
  }

  CallArgument number(const ops::Value& v) {
    if (auto* e = v.get_if<Expr>()) return ctx_.graph.env().simplify(*e);
    if (auto* b = v.get_if<ops::Bool>(); b && b->condition.is_constant()) return !b->condition.is_constant(0);
    if (auto* d = v.get_if<double>()) return *d;
    refuse(ctx_, fmt::format("{} cannot be handed to the host", ops::to_string(v)));
  }

  CallArgument operand(const fx::Node& n) {
    call_.inputs.push_back(in_shared_ ? shared_operand(n) : known_operand(n));
    return ops::Operand{call_.inputs.size() - 1};
  }

  /// Operators that write are given memory of their own, and the graph's inputs may be written to in between.
  BufferView known_operand(const fx::Node& n) {
    if (writing_ || n.opcode != fx::Opcode::CallFunction) return recorded_operand(ctx_, n);
    if (auto found = ctx_.host_operands.find(&n); found != ctx_.host_operands.end()) return found->second;
    return ctx_.host_operands[&n] = recorded_operand(ctx_, n);
  }

  TensorBox result(const sym::TensorMeta& meta) {
    for (Expr size : meta.sizes)
      for (Expr s : sym::free_symbols(size))
        if (is_unknown(s))
          refuse(ctx_, fmt::format("has a result whose size {} only the host tells; results that the host makes need "
                                   "sizes that are known before",
                                   s.name()));
    ir::Layout layout{meta.dtype, meta.device, meta.sizes, meta.strides, true};
    BufferView view{0, meta.dtype, meta.sizes, meta.strides, 0};
    view.buffer = ctx_.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id;
    outs_.push_back(view.buffer);
    call_.outputs.emplace_back(view);
    return ir::whole(ctx_.graph, view.buffer);
  }

  /// A number that is known without the host: those who use it read the record.
  bool is_recorded(const ops::Value& v) const {
    const auto* e = v.get_if<Expr>();
    return e && std::ranges::none_of(sym::free_symbols(*e), [&](Expr s) { return is_unknown(s); });
  }

  Lowered make_results() {
    const ops::Value& meta = node_.meta.value;
    if (meta.is<sym::TensorMeta>()) return result(node_.tensor());
    if (meta.is_none()) return std::monostate{};
    if (!meta.is<ops::Values>()) refuse(ctx_, "a number that the host reads out of data cannot be compiled");
    const std::vector<ops::Value> results = flat_results(meta);
    const auto* returns = writing_ ? &writing_->schema.returns : nullptr;
    call_.is_list = !returns || returns->size() > 1 || (returns->size() == 1 && returns->front().type.list);
    std::vector<TensorBox> boxes;
    for (const ops::Value& item : std::span(results).first(results.size() - written_.size())) {
      if (item.is<sym::TensorMeta>()) {
        boxes.push_back(result(item.as_tensor()));
      } else if (item.is_none() || is_recorded(item)) {
        boxes.emplace_back();
        call_.outputs.emplace_back();
      } else {
        refuse(ctx_, "results other than tensors cannot be handed over by the host");
      }
    }
    boxes.insert(boxes.end(), written_.begin(), written_.end());
    return boxes;
  }

  Context& ctx_;
  const fx::Node& node_;
  const ops::Operator* known_;              ///< null where not even a schema is
  const ops::Operator* writing_ = nullptr;  ///< the operator that is given copies to write to
  ir::Fallback call_;
  std::vector<std::string> shared_;  ///< arguments that other ranks must reach
  ir::CommBufferLayout comm_;
  std::string argument_;              ///< being handed over
  bool in_shared_ = false;            ///< and other ranks must reach it
  std::vector<bool> written_shared_;  ///< for each operand that is written to
  std::vector<std::string> written_names_;
  std::set<std::string> warned_;
  std::vector<TensorBox> written_;  ///< results that the first of two calls gave already
  std::vector<ir::BufferId> outs_;
};

}  // namespace

std::vector<ops::Value> flat_results(const ops::Value& meta) {
  const auto* list = meta.get_if<ops::Values>();
  if (!list) return {meta};
  std::vector<ops::Value> out;
  for (const ops::Value& item : *list)
    for (ops::Value& each : flat_results(item)) out.push_back(std::move(each));
  return out;
}

ir::BufferView recorded_copy(Context& ctx, const fx::Node& n) {
  const sym::TensorMeta& meta = n.tensor();
  const TensorBox box = ctx.tensor(const_cast<fx::Node*>(&n));
  if (is_complex(meta.dtype)) return library_operand(library_copy(ctx, box, meta.strides));
  const auto view =
      library_operand(ir::make_pointwise(ctx.graph, meta.dtype, meta.device, meta.sizes, element(ctx, box, meta.sizes),
                                         ir::dense_strides(ctx.graph.env(), meta.sizes, meta.strides)));
  ctx.graph.buffer(view.buffer).layout.fixed = true;
  return view;
}

ir::BufferView recorded_operand(Context& ctx, const fx::Node& n) {
  const sym::TensorMeta& meta = n.tensor();
  const TensorBox box = ctx.tensor(const_cast<fx::Node*>(&n));
  if (!box.storage->realized() && box.map == ctx.graph.ivars(box.rank()) && box.sizes == box.storage->sizes)
    box.storage->strides = meta.strides;
  const auto view = library_operand(box);
  bool exact = view.strides.size() == meta.rank() && view.dtype == meta.dtype;
  for (std::size_t d = 0; exact && d < meta.rank(); ++d)
    exact = meta.sizes[d].is_constant(1) || ctx.graph.env().statically_known_equal(view.strides[d], meta.strides[d]);
  if (!exact) return recorded_copy(ctx, n);
  ctx.graph.buffer(view.buffer).layout.fixed = true;
  return view;
}

Lowered call_host(Context& ctx, const fx::Node& node) { return HostCall(ctx, node).run(); }

}  // namespace coil::lowering
