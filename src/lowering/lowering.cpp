#include "lowering/lowering.h"

#include <algorithm>
#include <typeinfo>

#include "fx/infer.h"
#include "lowering/common.h"
#include "lowering/control_flow.h"
#include "lowering/fallback.h"
#include "lowering/outputs.h"
#include "lowering/products/products.h"
#include "ops/outside.h"
#include "support/error.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::lowering {

namespace {

const Table& table() {
  static const Table entries = [] {
    Table t;
    for (auto add : {add_arithmetic,
                     add_special_functions,
                     add_activations,
                     add_casts,
                     add_creation,
                     add_random,
                     add_views,
                     add_concatenation,
                     add_indexing,
                     add_reductions,
                     add_normalization,
                     add_normalization_gradients,
                     add_window_gradients,
                     add_pooling,
                     add_linear_algebra,
                     add_factorizations,
                     add_convolution,
                     add_attention,
                     add_scans,
                     add_scatter,
                     add_resampling,
                     add_recurrent,
                     add_fourier,
                     add_data_dependent,
                     add_control_flow,
                     add_numbers,
                     add_user_kernels,
                     add_collectives})
      add(t);
    return t;
  }();
  return entries;
}

bool is_tensor_value(const ops::Value& meta) {
  if (meta.is<sym::TensorMeta>()) return true;
  auto* list = meta.get_if<ops::Values>();
  return list && std::any_of(list->begin(), list->end(), is_tensor_value);
}

/// Calls that only check what metadata states already, or compute sizes: nothing is lowered for them.
bool is_bookkeeping(const fx::Node& node) {
  constexpr std::string_view kChecks[] = {"aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
                                          "aten.sym_constrain_range_for_size.default"};
  if (std::find(std::begin(kChecks), std::end(kChecks), node.target) != std::end(kChecks)) return true;
  if (is_tensor_value(node.meta.value) || node.meta.value.is_none()) return false;
  if (node.meta.value.is<ops::SymFloat>()) return false;
  // A number that is read out of a tensor is data, and no size.
  for (auto& arg : node.args)
    if (auto* n = arg.get_if<fx::Node*>(); n && (*n)->is_tensor() && !node.target.starts_with("aten.sym_"))
      return false;
  return true;
}

/// Of a condition that is a tensor, as Dynamo makes them of Python's `assert`.
bool is_data_assertion(const fx::Node& node) { return node.target.starts_with("aten._assert_async."); }

bool is_lowered(const fx::Node& node) {
  return node.opcode != fx::Opcode::CallFunction || node.is_call("_operator.getitem") ||
         node.target.starts_with("aten._assert_scalar.") || is_data_assertion(node) || is_bookkeeping(node) ||
         find(node.target);
}

void collect_unsupported(const fx::GraphModule& module, std::vector<std::string>& lines) {
  for (fx::Node* n = module.graph.first(); n; n = n->next()) {
    if (is_lowered(*n) || ops::is_left_to_host(n->target)) continue;
    std::string device = n->is_tensor() ? to_string(n->tensor().device) : "cpu";
    std::string line = fmt::format("{} has no lowering on {}", n->target, device);
    if (n->asked() != n->target) line = fmt::format("{}: {}", n->asked(), line);
    if (auto where = n->where(); !where.empty()) line += fmt::format(" (called at {})", where);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  for (auto& [name, sub] : module.subgraphs) collect_unsupported(*sub, lines);
}

class Driver {
 public:
  Driver(const fx::GraphModule& module, ir::Graph& graph, const LowerOptions& options)
      : module_(module),
        graph_(&graph),
        ctx_(module, graph, options),
        storage_(module, graph),
        results_(results_in_16_bits(module)) {
    graph.user_kernels.insert(module.user_kernels.begin(), module.user_kernels.end());
  }

  void run() {
    add_inputs();
    add_asserts();
    for (fx::Node* n = module_.graph.first(); n; n = n->next()) {
      visit(*n);
      store_copied_result(*n);
      if (n->opcode == fx::Opcode::Output) lower_outputs(ctx_, *n, storage_);
    }
    ir::verify(*graph_);
  }

  /// Lowers the graph as a block of a larger program.
  std::vector<BlockValue> run(const std::vector<BlockValue>& operands) {
    const ir::Provenance outside = graph_->provenance;
    bind(operands);
    add_asserts();
    std::vector<BlockValue> results;
    for (fx::Node* n = module_.graph.first(); n; n = n->next()) {
      visit(*n);
      if (n->opcode != fx::Opcode::Output) continue;
      for (const ops::Value& arg : n->args) {
        if (auto box = ctx_.optional_tensor(arg))
          results.emplace_back(*box);
        else if (auto* node = arg.get_if<fx::Node*>())
          results.emplace_back((*node)->meta.value);
        else
          results.emplace_back(arg);
      }
    }
    graph_->provenance = outside;
    return results;
  }

 private:
  void visit(fx::Node& n) {
    ctx_.node = &n;
    enter(n);
    if (n.opcode == fx::Opcode::GetAttr) ctx_.values[&n] = storage_.attribute(n);
    if (n.opcode == fx::Opcode::CallFunction) call(n);
  }

  /// No operation moves over a loop or a branch: a result that is a copy, made with the others at the end, would keep
  /// what it copies in memory until then. Behind a first such block it is made where it stands.
  void store_copied_result(const fx::Node& n) {
    const auto is_block = [](const ir::Operation& op) { return std::holds_alternative<ir::Control>(op.node); };
    const auto is_output = [](const fx::Node* user) { return user->opcode == fx::Opcode::Output; };
    if (n.opcode != fx::Opcode::CallFunction || !n.is_tensor() || !std::ranges::all_of(n.users(), is_output)) return;
    const auto found = ctx_.values.find(&n);
    auto* box = found == ctx_.values.end() ? nullptr : std::get_if<TensorBox>(&found->second);
    if (!box || !box->storage || box->storage->realized() || !box->is_whole()) return;
    const ir::Scalar body = box->storage->body;
    if (body->op != ScalarOp::Load || graph_->buffer(body->buffer).kind != ir::BufferKind::Computed) return;
    if (std::ranges::none_of(graph_->operations(), is_block)) return;
    box->storage->strides = n.tensor().strides;
    box->realize();
  }

  void bind(const std::vector<BlockValue>& operands) {
    std::size_t next = 0;
    for (fx::Node* n = module_.graph.first(); n; n = n->next()) {
      if (n->opcode != fx::Opcode::Placeholder) continue;
      COIL_CHECK(next < operands.size(), "block {} takes more than its {} operands", module_.name, operands.size());
      const BlockValue& given = operands[next++];
      ctx_.node = n;
      if (auto* box = std::get_if<TensorBox>(&given)) {
        if (n->is_tensor() || n->meta.value.is<ops::SymFloat>())
          ctx_.values[n] = *box;
        else
          bind_number(n->meta.value, *box);
        if (auto* f = n->meta.value.get_if<ops::SymFloat>()) ctx_.define(*f, *box);
        if (n->is_tensor())
          for (std::size_t d = 0; d < box->rank(); ++d) bind_size(n->tensor().sizes.at(d), box->sizes[d]);
      } else if (const auto& number = std::get<ops::Value>(given); number.is<Expr>() || number.is<ops::Bool>()) {
        const Expr value = number.is<Expr>() ? number.as_int() : number.get_if<ops::Bool>()->condition;
        bind_number(n->meta.value, pointwise(ctx_, DType::I64, {}, index_value(ctx_, value)), value);
      }
    }
  }

  /// The symbol that stands for a number inside is what is given from outside.
  void bind_number(const ops::Value& meta, const TensorBox& given, std::optional<Expr> value = {}) {
    const Expr recorded = meta.is<ops::Bool>() ? meta.get_if<ops::Bool>()->condition : meta.as_int();
    if (value && recorded == *value) return;
    for (Expr s : sym::free_symbols(recorded))
      if (s.symbol_kind() == sym::SymbolKind::Unbacked &&
          (!graph_->defined_symbols.contains(std::string(s.name())) || !value))
        ctx_.define(s, given);
  }

  void bind_size(Expr recorded, Expr given) {
    if (recorded == given || !recorded.is_symbol() || recorded.symbol_kind() != sym::SymbolKind::Unbacked)
      return require_equal(ctx_, recorded, given);
    if (graph_->defined_symbols.contains(std::string(recorded.name()))) return require_equal(ctx_, recorded, given);
    ctx_.define(recorded, pointwise(ctx_, DType::I64, {}, index_value(ctx_, given)));
  }

  void enter(const fx::Node& node) {
    auto& p = graph_->provenance;
    p.absorbed.clear();
    p.origins = {node.name};
    p.where = node.where();
  }

  void add_inputs() {
    for (auto& input : module_.inputs) {
      fx::Node* node = module_.graph.find(input.placeholder);
      COIL_CHECK(node, "no placeholder {}", input.placeholder);
      TensorBox box = storage_.input(input, *node);
      if (input.strides && reads_by_stride()) {
        const sym::TensorMeta& meta = node->tensor();
        box = ir::make_pointwise(*graph_, meta.dtype, meta.device, meta.sizes, element(ctx_, box, meta.sizes),
                                 meta.strides);
        graph_->buffer(box.realize()).layout.fixed = true;
      }
      if (node->is_tensor()) ctx_.values[node] = box;
      bind_float(*node, box);
    }
  }

  /// A float that comes in lies in the host's memory, where the host's kernels read it.
  void bind_float(const fx::Node& input, const TensorBox& box) {
    const auto* f = input.meta.value.get_if<ops::SymFloat>();
    if (!f || !graph_->target().device.is_host()) return;
    ctx_.node = &input;
    ctx_.values[&input] = box;
    ctx_.define(*f, box);
  }

  /// Strides that a program tells are those of its recorded layouts.
  bool reads_by_stride() const {
    for (fx::Node* n = module_.graph.first(); n; n = n->next())
      if (n->is_call("aten.as_strided.default")) return true;
    return false;
  }

  static Expr condition_of(const fx::Node& node) {
    const ops::Value& arg = node.args[0];
    const ops::Value& value = arg.is<fx::Node*>() ? arg.as_node()->meta.value : arg;
    auto* flag = value.get_if<ops::Bool>();
    return flag ? flag->condition : sym::ne(value.as_int(), 0);
  }

  /// Takes the program's assertions about sizes as facts for what is lowered next, and adds their checks where the
  /// sizes are first known.
  void add_asserts() {
    for (fx::Node* n = module_.graph.first(); n; n = n->next())
      ops::for_each_unbacked(n->meta.value, [&](Expr symbol) { graph_->env().comes_next(symbol); });
    for (fx::Node* n = module_.graph.first(); n; n = n->next()) {
      if (n->opcode == fx::Opcode::Placeholder && n->is_tensor())
        for (const auto* list : {&n->tensor().sizes, &n->tensor().strides})
          for (Expr e : *list) note_input_symbols(e);
      if (n->opcode == fx::Opcode::Placeholder && n->meta.value.is<Expr>()) note_input_symbols(n->meta.value.as_int());
      if (n->opcode != fx::Opcode::CallFunction) continue;
      if (n->target.starts_with("aten.sym_constrain_range")) add_range(*n);
      if (!n->target.starts_with("aten._assert_scalar.")) continue;
      const Expr condition = condition_of(*n);
      ctx_.pending.push_back(
          {condition,
           n->args.size() > 1 && n->args[1].is<std::string>() ? n->args[1].as_string() : "assertion failed",
           n->where(),
           {n->name}});
      if (!sym::has_symbol_of(condition, sym::SymbolKind::Unbacked) || is_of_outside(condition)) continue;
      try {
        graph_->env().learn(condition);
      } catch (const Error&) {
        // It can never hold: the run says so.
      }
    }
    ctx_.assert_what_is_known();
  }

  /// sym_constrain_range(size, *, min, max); the one for sizes has a least of 0 where none is given.
  void add_range(const fx::Node& node) {
    const Expr size = ctx_.integer(node.arg("size"));
    const ops::Value &min = node.arg("min"), &max = node.arg("max");
    auto require = [&](Expr condition, std::string_view rule, Expr bound) {
      ctx_.pending.push_back({condition,
                              fmt::format("{} must be {} {}", sym::to_string(size), rule, sym::to_string(bound)),
                              node.where(),
                              {node.name}});
    };
    if (!min.is_none())
      require(sym::ge(size, min.as_int()), "at least", min.as_int());
    else if (node.is_call("aten.sym_constrain_range_for_size.default"))
      require(sym::ge(size, 0), "at least", 0);
    if (!max.is_none()) require(sym::le(size, max.as_int()), "at most", max.as_int());
  }

  /// Whether a condition in a branch or a loop is about symbols of the program around it: outside it need not hold.
  bool is_of_outside(Expr condition) const {
    for (Expr s : sym::free_symbols(condition))
      if (graph_->defined_symbols.contains(std::string(s.name()))) return true;
    return false;
  }

  void note_input_symbols(Expr e) {
    for (Expr s : sym::free_symbols(e))
      if (s.symbol_kind() == sym::SymbolKind::Unbacked) ctx_.input_symbols.emplace(s.name());
  }

  /// Of the calls whose results the node reads, as they are or as views, one at least has no other reader.
  static ir::JoinsCall joins_call(const fx::Node& node) {
    const auto is_read_alone = [](const fx::Node* read) {
      while (read->users().size() == 1 && read->op && read->op->schema.is_view() && read->args[0].is<fx::Node*>())
        read = read->args[0].as_node();
      return read->users().size() == 1;
    };
    const auto has_one = [&](const ops::Value& v) { return v.is<fx::Node*>() && is_read_alone(v.as_node()); };
    return std::ranges::any_of(node.args, has_one) ? ir::JoinsCall::Yes : ir::JoinsCall::No;
  }

  /// Reads the condition, a tensor of one element, and ends the run where it does not hold.
  void assert_data(const fx::Node& node) {
    const TensorBox& condition = std::get<TensorBox>(ctx_.values.at(node.args[0].as_node()));
    const Element holds = element(ctx_, condition, condition.sizes).cast(DType::Bool).cast(DType::I64);
    const TensorBox number = ir::make_pointwise(*graph_, DType::I64, condition.device(), condition.sizes, holds.scalar);
    const bool says = node.args.size() > 1 && node.args[1].is<std::string>();
    ctx_.require(sym::ne(ctx_.read(number, {}), 0), says ? node.args[1].as_string() : "assertion failed");
  }

  /// The place of an item among its call's flat results.
  std::size_t place_of_item(const fx::Node& item) {
    const auto index = static_cast<std::size_t>(constant(ctx_, item.args[1]));
    const auto* list = item.args[0].as_node()->meta.value.get_if<ops::Values>();
    std::size_t place = 0;
    for (std::size_t k = 0; k < index; ++k) place += list && k < list->size() ? flat_results((*list)[k]).size() : 1;
    return place;
  }

  void call(const fx::Node& node) {
    if (is_bookkeeping(node)) return;
    if (node.is_call("_operator.getitem")) {
      auto& items = std::get<std::vector<TensorBox>>(ctx_.values.at(node.args[0].as_node()));
      const auto place = static_cast<std::ptrdiff_t>(place_of_item(node));
      if (node.meta.value.is<ops::Values>()) {  // a list among several results, which are there one after another
        const auto count = static_cast<std::ptrdiff_t>(flat_results(node.meta.value).size());
        ctx_.values[&node] = std::vector<TensorBox>(items.begin() + place, items.begin() + place + count);
        return;
      }
      TensorBox& item = items.at(static_cast<std::size_t>(place));
      if (!item.storage)
        refuse(ctx_, fmt::format("is a result that {} was told not to compute", node.args[0].as_node()->target));
      ctx_.values[&node] = item;
      go_on_as_stored(node, item);
      ir::realize_by_policy(std::get<TensorBox>(ctx_.values[&node]), node.users().size(), ctx_.options.realize);
      return;
    }
    if (node.target.starts_with("aten._assert_scalar."))
      return ctx_.require(condition_of(node), "assertion failed");  // those of `pending` are made by now
    if (is_data_assertion(node)) return assert_data(node);
    require_no_negative_sizes(node.meta.value);
    realize_elsewhere(node.args, device_of(ctx_));
    realize_operands(node);
    realize_before_widening(node);
    Lowered value;
    try {
      const LoweringFunction* lowering = find(node.target);
      const std::size_t before = graph_->operations().size();
      value = lowering ? (*lowering)(ctx_, node.args) : call_host(ctx_, node);
      if (ctx_.options.fallback && lowering && hand_over(before)) value = call_host(ctx_, node);
    } catch (const BeyondEnd&) {
      throw fx::of_call(node,
                        Error(fmt::format("{} ({}): takes no arguments of these dimensions", node.target, node.name),
                              node.target, node.where()));
    } catch (const Error& e) {
      if (typeid(e) != typeid(Error)) throw;  // says more than its text
      if (!e.op().empty()) throw fx::of_call(node, e);
      throw fx::of_call(node,
                        Error(fmt::format("{} ({}): {}", node.target, node.name, e.what()), node.target, node.where()));
    }
    if (auto* box = std::get_if<TensorBox>(&value)) {
      if (node.is_tensor()) check(node, *box, node.tensor());
      if (node.is_tensor()) lie_as_operands(node, *box);
      store_for_products(ctx_, node, *box);
      *box = ir::made_once(*box);
      go_on_as_stored(node, *box);
      if (!is_narrowed_at_once(node))
        ir::realize_by_policy(*box, node.users().size(), ctx_.options.realize, joins_call(node));
    } else if (auto* items = std::get_if<std::vector<TensorBox>>(&value)) {
      const std::vector<ops::Value> metas = flat_results(node.meta.value);
      for (std::size_t i = 0; i < items->size(); ++i)
        if ((*items)[i].storage && metas.at(i).is<sym::TensorMeta>()) check(node, (*items)[i], metas[i].as_tensor());
    }
    ctx_.values[&node] = std::move(value);
  }

  /// Gradients are computed of the results of a forward graph: it goes on with the same numbers.
  void go_on_as_stored(const fx::Node& node, const TensorBox& box) {
    if (results_.contains(&node) && !box.storage->realized()) box.storage->as_stored = true;
  }

  /// Floats that a cast makes of others; none where the node is something else.
  struct Cast {
    DType from = DType::F32, to = DType::F32;
  };
  static std::optional<Cast> float_cast(const fx::Node& node) {
    if (!node.is_call("aten._to_copy.default") || !node.is_tensor() || !node.args[0].is<fx::Node*>())
      return std::nullopt;
    const Cast cast{node.args[0].as_node()->tensor().dtype, node.tensor().dtype};
    return is_floating(cast.from) && is_floating(cast.to) ? std::optional(cast) : std::nullopt;
  }

  /// Whether all that becomes of a value is a cast to fewer bytes: what is stored then is what the cast makes.
  static bool is_narrowed_at_once(const fx::Node& node) {
    if (node.users().size() != 1) return false;
    const auto cast = float_cast(*node.users().front());
    return cast && size_of(cast->to) < size_of(cast->from);
  }

  /// What is to be stored behind a cast to more bytes is stored in front of it.
  void realize_before_widening(const fx::Node& node) {
    const auto cast = float_cast(node);
    if (!cast || size_of(cast->to) <= size_of(cast->from)) return;
    if (const auto box = ctx_.optional_tensor(node.args[0]); box && box->storage && box->device() == device_of(ctx_))
      ir::realize_by_policy(*box, node.users().size(), ctx_.options.realize);
  }

  /// A value of another device is computed there, and what is read here is a copy of it
  /// (passes/loop/device_copies.h). Numbers that no memory holds have no device.
  void realize_elsewhere(const ops::Values& args, Device here) {
    if (!graph_->on_several_devices) return;
    for (const ops::Value& a : args) {
      if (auto* list = a.get_if<ops::Values>()) realize_elsewhere(*list, here);
      const auto box = ctx_.optional_tensor(a);
      if (box && box->storage && box->device() != here && !box->storage->realized() && box->storage->body->has_loads)
        box->realize();
    }
  }

  /// Eager gives a pointwise result the layout of its operands. If lowering gave operands of the same sizes other
  /// strides than eager's (channels innermost behind a convolution), the value follows them.
  void lie_as_operands(const fx::Node& node, const TensorBox& box) {
    if (box.storage->realized() || !box.is_whole()) return;
    const Exprs* strides = nullptr;
    for (const ops::Value& arg : node.args) {
      auto* operand = arg.get_if<fx::Node*>();
      const auto x = operand && (*operand)->is_tensor() ? ctx_.optional_tensor(arg) : std::nullopt;
      if (!x || x->sizes != box.sizes) continue;
      const Exprs& eagers = (*operand)->tensor().strides;
      const Exprs& theirs =
          x->storage->realized() ? graph_->buffer(*x->storage->buffer).layout.strides : x->storage->strides;
      if (!x->is_whole() || theirs == eagers || eagers != node.tensor().strides || (strides && *strides != theirs))
        return;
      strides = &theirs;
    }
    if (strides) box.storage->strides = *strides;
  }

  void realize_operands(const fx::Node& node) {
    std::vector<TensorBox> operands;
    for (const ops::Value& a : node.args)
      if (const auto box = ctx_.optional_tensor(a); box && box->storage) operands.push_back(*box);
    if (operands.size() < 2) return;
    for (const TensorBox& box : operands) ir::realize_before_more(box, operands);
  }

  /// Sizes computed from numbers that are data (`u0 - 5`) may be negative: a check in the program then fails the run
  /// and names the operator.
  void require_no_negative_sizes(const ops::Value& meta) {
    if (auto* list = meta.get_if<ops::Values>())
      for (const ops::Value& item : *list) require_no_negative_sizes(item);
    auto* t = meta.get_if<sym::TensorMeta>();
    if (t) require_addressable(*t);
    for (std::size_t d = 0; t && d < t->rank(); ++d) {
      const Expr size = t->sizes[d];
      const bool by_arithmetic =
          !size.is_symbol() && (sym::has_symbol_of(size, sym::SymbolKind::Unbacked) || sym::has_float(size));
      if (by_arithmetic && ctx_.is_known(size) && !graph_->env().statically_known_le(0, size))
        ctx_.require(sym::ge(size, 0), fmt::format("{} makes a tensor whose size in dimension {} ({}) is negative",
                                                   ctx_.node->target, d, sym::to_string(size)));
    }
  }

  /// No tensor is larger than any memory, as far as sizes are known.
  void require_addressable(const sym::TensorMeta& t) {
    std::int64_t bytes = static_cast<std::int64_t>(size_of(t.dtype));
    bool fits = true;
    for (const Expr& size : t.sizes) {
      const auto n = size.constant();
      if (n && *n == 0) return;
      if (n && *n > 0) fits = fits && !__builtin_mul_overflow(bytes, *n, &bytes);
    }
    if (!fits)
      throw fx::of_call(*ctx_.node, Error(fmt::format("{} makes a tensor of {}, which no memory holds",
                                                      ctx_.node->target, sym::to_string(t)),
                                          ctx_.node->target, ctx_.node->where()));
  }

  /// If the device cannot carry out one of the library calls made since operation `since`, drops all of those calls and
  /// returns true. Values that were put into memory as their operands stay there.
  bool hand_over(std::size_t since) {
    auto& all = graph_->operations();
    auto lacks = [&](const ir::Operation& op) {
      const auto* call = std::get_if<ir::Extern>(&op.node);
      return call && ctx_.options.implemented && !ctx_.options.implemented(*call, ir::device_of(*graph_, op));
    };
    if (std::none_of(all.begin() + static_cast<std::ptrdiff_t>(since), all.end(), lacks)) return false;
    graph_->drop_operations(since, [](const ir::Operation& op) { return std::holds_alternative<ir::Extern>(op.node); });
    return true;
  }

  /// Throws Error if the dtype or the sizes of a lowered value are not those that the graph records.
  void check(const fx::Node& node, const TensorBox& box, const sym::TensorMeta& meta) {
    bool same = box.dtype() == meta.dtype && box.rank() == meta.rank();
    for (std::size_t d = 0; same && d < meta.rank(); ++d) same = equal(node, box.sizes[d], meta.sizes[d]);
    if (same) return;
    const sym::TensorMeta made = sym::contiguous(box.dtype(), box.device(), box.sizes);
    throw Error(fmt::format("{} ({}) was lowered to {}, recorded is {}", node.target, node.name, sym::to_string(made),
                            sym::to_string(meta)),
                node.target, node.where());
  }

  /// Whether two sizes are equal. Where that is not known at compile time, the program checks it when it runs: for
  /// sizes that depend on data or are made of floats, and for expressions over free sizes whose equality is not found
  /// (a size less its first half).
  bool equal(const fx::Node& node, Expr made, Expr recorded) {
    auto& env = graph_->env();
    if (env.statically_known_equal(made, recorded)) return true;
    if (env.statically_known_true(sym::ne(made, recorded))) return false;
    ctx_.require(sym::eq(made, recorded), fmt::format("{} gives a size of {}, which must be {}", node.target,
                                                      sym::to_string(made), sym::to_string(recorded)));
    return true;
  }

  const fx::GraphModule& module_;
  ir::Graph* graph_;
  Context ctx_;
  ProgramStorage storage_;
  std::set<const fx::Node*> results_;  ///< calls that give results of the program in 16-bit floats
};

}  // namespace

const LoweringFunction* find(std::string_view target) {
  auto found = table().find(target);
  return found == table().end() ? nullptr : &found->second;
}

std::string unsupported(const fx::GraphModule& module) {
  std::vector<std::string> lines;
  collect_unsupported(module, lines);
  return fmt::format("{}", fmt::join(lines, "; "));
}

std::unique_ptr<ir::Graph> lower(const fx::GraphModule& module, const LowerOptions& options,
                                 const target::Target& target) {
  if (std::string text = options.fallback ? "" : unsupported(module); !text.empty()) throw Error(text);
  auto graph = std::make_unique<ir::Graph>(module.env, target);
  graph->batch_invariant = options.batch_invariant;
  graph->on_several_devices = module.on_several_devices;
  Driver(module, *graph, options).run();
  return graph;
}

std::vector<BlockValue> lower_block(const fx::GraphModule& module, const Context& outer,
                                    const std::vector<BlockValue>& operands) {
  LowerOptions options = outer.options;
  options.grows_products = false;  // what grows for a product would grow again in every turn
  return Driver(module, outer.graph, options).run(operands);
}

}  // namespace coil::lowering
