#include "lowering/fallback.h"

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
    if (!node.target.starts_with(ops::kFunctional)) return;
    call_.op = node.target.substr(ops::kFunctional.size());
    known_ = writing_ = ops::find(call_.op);
  }

  Lowered run() {
    for (std::size_t i = 0; i < node_.args.size(); ++i) {
      const ops::Parameter* p =
          known_ && i < known_->schema.parameters.size() ? &known_->schema.parameters[i] : nullptr;
      const std::size_t first = call_.inputs.size();
      call_.arguments.push_back({p && p->keyword_only ? p->name : "", argument(node_.args[i])});
      if (writing_ && p && p->alias && p->alias->write)
        for (std::size_t k = first; k < call_.inputs.size(); ++k) call_.writes.push_back(k);
    }
    for (const auto& [name, value] : node_.kwargs) call_.arguments.push_back({name, argument(value)});
    constexpr std::string_view kHost = "host.";
    const ops::Operator* known =
        node_.target.starts_with(kHost) ? ops::find(node_.target.substr(kHost.size())) : known_;
    // Of one that not even a schema tells anything of, an effect is to be expected.
    call_.has_effect = !known || known->random || known->side_effect;
    if (const auto unknown = unknown_sizes(); !unknown.empty()) run_for_sizes(unknown);
    Lowered results = make_results();
    add_call();
    return results;
  }

 private:
  void add_call() {
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
    std::vector<const sym::TensorMeta*> metas;
    const ops::Value& meta = node_.meta.value;
    if (auto* t = meta.get_if<sym::TensorMeta>()) metas = {t};
    if (auto* list = meta.get_if<ops::Values>())
      for (const ops::Value& item : *list) metas.push_back(item.get_if<sym::TensorMeta>());
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t k = 0; k < metas.size(); ++k)
      for (std::size_t d = 0; metas[k] && d < metas[k]->rank(); ++d)
        if (Expr size = metas[k]->sizes[d]; size.is_symbol() && is_unknown(size)) found.emplace_back(k, d);
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
    const ops::Value& meta = node_.meta.value;
    // What it writes to is written by this call.
    if (writing_)
      for (std::size_t k = meta.as_list().size() - call_.writes.size(); k < meta.as_list().size(); ++k)
        written_.push_back(result(meta.as_list()[k].as_tensor()));
    add_call();
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const auto [k, d] = unknown[i];
      const sym::TensorMeta& t = meta.is<sym::TensorMeta>() ? node_.tensor() : meta.as_list()[k].as_tensor();
      ctx_.define(t.sizes[d],
                  pointwise(ctx_, DType::I64, {}, element_at(ctx_, told, {static_cast<std::int64_t>(i) + 1}, {})));
    }
    call_.op = std::string(kKept) + op;
    const BufferView view = library_operand(told);
    call_.inputs = {view};
    call_.arguments = {{"", ops::Operand{0}}};
  }

  Device device() const {
    const ops::Value& meta = node_.meta.value;
    if (meta.is<sym::TensorMeta>()) return node_.tensor().device;
    for (const ops::Value& item : meta.as_list())
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
    call_.inputs.push_back(recorded_operand(ctx_, n));
    return ops::Operand{call_.inputs.size() - 1};
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
  static bool is_recorded(const ops::Value& v) {
    const auto* e = v.get_if<Expr>();
    return e && e->is_constant();
  }

  Lowered make_results() {
    const ops::Value& meta = node_.meta.value;
    if (meta.is<sym::TensorMeta>()) return result(node_.tensor());
    if (meta.is_none()) return std::monostate{};
    auto* list = meta.get_if<ops::Values>();
    if (!list) refuse(ctx_, "a number that the host reads out of data cannot be compiled");
    const auto* returns = writing_ ? &writing_->schema.returns : nullptr;
    call_.is_list = !returns || returns->size() > 1 || (returns->size() == 1 && returns->front().type.list);
    std::vector<TensorBox> boxes;
    for (const ops::Value& item : std::span(*list).first(list->size() - written_.size())) {
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
  std::vector<TensorBox> written_;  ///< results that the first of two calls gave already
  std::vector<ir::BufferId> outs_;
};

}  // namespace

ir::BufferView recorded_copy(Context& ctx, const fx::Node& n) {
  const sym::TensorMeta& meta = n.tensor();
  const TensorBox box = ctx.tensor(const_cast<fx::Node*>(&n));
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
