#include "lowering/control_flow.h"

#include <algorithm>
#include <set>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Kind = ir::Control::Kind;

void control(Context& ctx, Kind kind, Expr condition = 1, Expr counter = 0, Expr extent = sym::Range::kMax) {
  ctx.forget_shared_values();
  ctx.graph.add_operation({.node = ir::Control{kind, condition, counter, extent},
                           .origins = ctx.graph.provenance.origins,
                           .where = ctx.graph.provenance.where});
}

const fx::GraphModule& subgraph(const Context& ctx, const ops::Value& arg) {
  auto* ref = arg.get_if<ops::GraphRef>();
  if (!ref) refuse(ctx, "takes a graph where it has none");
  auto found = ctx.module.subgraphs.find(ref->name);
  if (found == ctx.module.subgraphs.end()) refuse(ctx, fmt::format("runs @{}, which is not there", ref->name));
  return *found->second;
}

/// An operand of a block. What a block reads from outside is in memory before the block begins: it must not be computed
/// in one branch for all.
BlockValue operand_of(Context& ctx, const ops::Value& arg) {
  if (auto box = ctx.optional_tensor(arg)) {
    box->realize();
    return *box;
  }
  if (auto* n = arg.get_if<fx::Node*>()) return (*n)->meta.value;
  return arg;
}

std::vector<BlockValue> operands_of(Context& ctx, const ops::Value& list) {
  std::vector<BlockValue> result;
  if (list.is_none()) return result;
  for (const ops::Value& arg : list.as_list()) result.push_back(operand_of(ctx, arg));
  return result;
}

/// The integer or bool that a number is.
Expr expression(const Context& ctx, const ops::Value& v) {
  if (auto* b = v.get_if<ops::Bool>()) return b->condition;
  if (!v.is<Expr>()) refuse(ctx, fmt::format("has {} where an integer is wanted", ops::to_string(v)));
  return v.as_int();
}

/// A condition to branch on.
Expr predicate(Context& ctx, const BlockValue& value) {
  if (auto* number = std::get_if<ops::Value>(&value)) return expression(ctx, *number);
  const TensorBox& box = std::get<TensorBox>(value);
  Element truth = element_at(ctx, box, Exprs(box.rank(), 0), {});
  if (box.dtype() != DType::Bool) truth = ne(truth, 0.0);
  return ctx.read(ir::make_pointwise(ctx.graph, DType::Bool, box.device(), {}, truth), {0, 1});
}

/// Memory that a block's results leave through.
TensorBox slot_for(Context& ctx, const sym::TensorMeta& meta) {
  const Exprs strides = ir::dense_strides(ctx.graph.env(), meta.sizes, meta.strides);
  ir::Layout layout{meta.dtype, meta.device, meta.sizes, strides, true};
  return ir::whole(ctx.graph, ctx.graph.add_buffer("", ir::BufferKind::Computed, std::move(layout)).id);
}

/// For a result or a carried value with this metadata: numbers lie in memory too, the CPU's if it is one of several
/// devices.
TensorBox slot_for(Context& ctx, const ops::Value& meta) {
  if (auto* t = meta.get_if<sym::TensorMeta>()) return slot_for(ctx, *t);
  const DType dtype = meta.is<ops::SymFloat>() || meta.is<double>() ? DType::F64 : DType::I64;
  return slot_for(ctx, {.dtype = dtype, .device = ctx.graph.on_several_devices ? Device{} : device_of(ctx)});
}

/// The element to store into a slot of these sizes and register type, over i0, i1, …
Element stored(Context& ctx, const BlockValue& value, const TensorBox& slot, const Exprs& sizes) {
  const DType t = register_type(slot.dtype());
  if (auto* box = std::get_if<TensorBox>(&value)) return element(ctx, *box, sizes).cast(t);
  const ops::Value& number = std::get<ops::Value>(value);
  if (auto* d = number.get_if<double>()) return {&ctx.graph.pool(), ctx.graph.pool().constant(t, *d)};
  return index_value(ctx, expression(ctx, number)).cast(t);
}

void store(Context& ctx, const TensorBox& slot, const Exprs& sizes, Element body, Exprs index = {}) {
  ctx.graph.add_operation({.node = ir::Pointwise{sizes, body},
                           .outs = {*slot.storage->buffer},
                           .store_index = std::move(index),
                           .origins = ctx.graph.provenance.of(body),
                           .where = ctx.graph.provenance.where});
}

void expect_sizes_known(Context& ctx, const ops::Value& meta) {
  auto* t = meta.get_if<sym::TensorMeta>();
  if (!t) return;
  for (Expr size : t->sizes)
    for (Expr s : sym::free_symbols(size))
      if (s.symbol_kind() == sym::SymbolKind::Unbacked && !ctx.graph.defined_symbols.contains(std::string(s.name())) &&
          !ctx.input_symbols.contains(std::string(s.name())))
        refuse(ctx, fmt::format("has a result whose size {} only its turns tell; give it a size that is known before",
                                s.name()));
}

/// Slots as the results of the node; integers among them get their symbols.
Lowered results(Context& ctx, const std::vector<TensorBox>& slots) {
  const auto& metas = ctx.node->meta.value.as_list();
  std::vector<TensorBox> list;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    list.push_back(slots[k]);
    if (auto* e = metas[k].get_if<Expr>(); e && !e->is_constant()) ctx.define(*e, slots[k]);
    if (auto* f = metas[k].get_if<ops::SymFloat>()) ctx.define(*f, slots[k]);
    if (auto* b = metas[k].get_if<ops::Bool>())
      if (auto symbols = sym::free_symbols(b->condition); symbols.size() == 1) ctx.define(symbols[0], slots[k]);
    if (!metas[k].is<sym::TensorMeta>() && !metas[k].is<ops::SymFloat>()) list.back() = {};
  }
  return list;
}

/// Symbols among the sizes of results that nothing has given a value so far: the branch will tell.
Exprs unknown_sizes(const Context& ctx, const Values& metas) {
  Exprs found;
  for (const ops::Value& meta : metas) {
    auto* t = meta.get_if<sym::TensorMeta>();
    for (std::size_t d = 0; t && d < t->rank(); ++d)
      for (Expr s : sym::free_symbols(t->sizes[d]))
        if (!ctx.is_known(s) && std::ranges::find(found, s) == found.end()) found.push_back(s);
  }
  return found;
}

/// What those are on the side that made these values, and that its results have the recorded sizes.
void tell_sizes(Context& ctx, Exprs unknown, const Values& metas, const std::vector<BlockValue>& values) {
  std::vector<std::pair<Expr, Expr>> told;
  for (bool more = true; more && !unknown.empty();) {
    more = false;
    for (std::size_t k = 0; k < metas.size(); ++k) {
      auto* t = metas[k].get_if<sym::TensorMeta>();
      auto* box = std::get_if<TensorBox>(&values[k]);
      for (std::size_t d = 0; t && box && d < t->rank(); ++d) {
        std::vector<std::size_t> in;
        for (std::size_t i = 0; i < unknown.size(); ++i)
          if (sym::contains(t->sizes[d], unknown[i])) in.push_back(i);
        if (in.size() != 1) continue;
        const Expr symbol = unknown[in[0]];
        const auto linear = sym::linear_in(t->sizes[d], symbol);
        if (!linear || linear->coefficient.is_constant(0)) continue;
        const Expr rest = box->sizes.at(d) - linear->rest;
        told.emplace_back(symbol,
                          linear->coefficient.is_constant(1) ? rest : sym::floor_div(rest, linear->coefficient));
        unknown.erase(unknown.begin() + static_cast<std::ptrdiff_t>(in[0]));
        more = true;
      }
    }
  }
  if (!unknown.empty())
    refuse(ctx, fmt::format("has a result whose size {} its branches do not tell", unknown[0].name()));
  ctx.set(told);
  for (std::size_t k = 0; k < metas.size(); ++k) {
    auto* t = metas[k].get_if<sym::TensorMeta>();
    auto* box = std::get_if<TensorBox>(&values[k]);
    for (std::size_t d = 0; t && box && d < t->rank(); ++d) {
      const bool is_told = std::ranges::any_of(told, [&](const auto& pair) { return pair.first == t->sizes[d]; });
      if (!is_told) require_equal(ctx, t->sizes[d], box->sizes.at(d));
    }
  }
}

/// cond(predicate, true graph, false graph, operands)
Lowered cond(Context& ctx, const Values& args) {
  const std::vector<BlockValue> operands = operands_of(ctx, args.at(3));
  const auto& metas = ctx.node->meta.value.as_list();
  const Expr condition = predicate(ctx, operand_of(ctx, args.at(0)));
  std::vector<TensorBox> slots;
  for (const ops::Value& meta : metas) slots.push_back(slot_for(ctx, meta));
  const Exprs unknown = unknown_sizes(ctx, metas);
  const auto before = ctx.asserted();
  auto first_side = before;
  for (int branch : {1, 2}) {
    ctx.go_back_to(before);
    control(ctx, branch == 1 ? Kind::If : Kind::Else, condition);
    const auto values = lower_block(subgraph(ctx, args.at(static_cast<std::size_t>(branch))), ctx, operands);
    if (values.size() != slots.size()) refuse(ctx, "has branches with other numbers of results");
    tell_sizes(ctx, unknown, metas, values);
    for (std::size_t k = 0; k < slots.size(); ++k)
      store(ctx, slots[k], slots[k].sizes, stored(ctx, values[k], slots[k], slots[k].sizes));
    if (branch == 1) first_side = ctx.asserted();
  }
  ctx.intersect_asserted(first_side);
  control(ctx, Kind::EndIf);
  return results(ctx, slots);
}

/// Values that turns of a loop hand on, each in a slot of its own.
class Carried {
 public:
  Carried(Context& ctx, const std::vector<BlockValue>& first, std::span<const ops::Value> metas) : ctx_(ctx) {
    for (std::size_t k = 0; k < first.size(); ++k) {
      expect_sizes_known(ctx, metas[k]);
      auto* box = std::get_if<TensorBox>(&first[k]);
      auto* meta = metas[k].get_if<sym::TensorMeta>();
      const TensorBox slot =
          box && meta
              ? slot_for(ctx,
                         {.dtype = box->dtype(), .device = meta->device, .sizes = box->sizes, .strides = meta->strides})
              : slot_for(ctx, metas[k]);
      store(ctx, slot, slot.sizes, stored(ctx, first[k], slot, slot.sizes));
      slots.push_back(slot);
      buffers_.insert(*slot.storage->buffer);
    }
  }

  /// All new values are computed from the old ones before the first is stored.
  void update(std::span<const BlockValue> values) {
    if (values.size() < slots.size()) refuse(ctx_, "has a body that gives fewer values than it takes");
    std::vector<std::pair<std::size_t, Element>> stores;
    for (std::size_t k = 0; k < slots.size(); ++k) {
      Element body = stored(ctx_, values[k], slots[k], slots[k].sizes);
      const bool unchanged = body.scalar->op == ScalarOp::Load && body.scalar->buffer == *slots[k].storage->buffer &&
                             body.scalar->index == ctx_.graph.ivars(slots[k].rank());
      if (unchanged) continue;
      if (reads_others(body, *slots[k].storage->buffer)) {
        const TensorBox copy =
            ir::make_pointwise(ctx_.graph, slots[k].dtype(), slots[k].device(), slots[k].sizes, body);
        copy.realize();
        body = element(ctx_, copy, slots[k].sizes);
      }
      stores.emplace_back(k, body);
    }
    for (auto& [k, body] : stores) store(ctx_, slots[k], slots[k].sizes, body);
  }

  std::vector<TensorBox> slots;

 private:
  bool reads_others(Scalar body, ir::BufferId own) const {
    for (Scalar load : ir::loads(body))
      if (buffers_.contains(load->buffer) &&
          (load->buffer != own || load->op != ScalarOp::Load || load->index != ctx_.graph.ivars(load->index.size())))
        return true;
    return false;
  }

  Context& ctx_;
  std::set<ir::BufferId> buffers_;
};

/// What a turn both gives and hands on is computed once.
void realize_repeated(const std::vector<BlockValue>& values) {
  std::set<const void*> seen;
  for (const BlockValue& v : values)
    if (auto* box = std::get_if<TensorBox>(&v); box && !seen.insert(box->storage.get()).second)
      TensorBox(*box).realize();
}

/// What a block sees of slots: tensors, and for numbers (whose placeholders are numbers) still the slots, which
/// lower_block reads.
void append(std::vector<BlockValue>& to, const std::vector<TensorBox>& boxes) {
  to.insert(to.end(), boxes.begin(), boxes.end());
}

/// while_loop(condition graph, body graph, carried, additional)
Lowered while_loop(Context& ctx, const Values& args) {
  const auto first = operands_of(ctx, args.at(2)), additional = operands_of(ctx, args.at(3));
  Carried carried(ctx, first, ctx.node->meta.value.as_list());
  std::vector<BlockValue> operands;
  append(operands, carried.slots);
  operands.insert(operands.end(), additional.begin(), additional.end());
  const Expr turn = ctx.graph.env().fresh_unbacked();
  control(ctx, Kind::Loop, 1, turn);
  ctx.graph.begin_turns(turn);
  const auto more = lower_block(subgraph(ctx, args.at(0)), ctx, operands);
  if (more.size() != 1) refuse(ctx, "has a condition that is not one value");
  control(ctx, Kind::BreakUnless, predicate(ctx, more[0]));
  carried.update(lower_block(subgraph(ctx, args.at(1)), ctx, operands));
  ctx.graph.end_turns();
  control(ctx, Kind::EndLoop);
  return results(ctx, carried.slots);
}

/// A loop over the first dimension of `xs`: the body takes what is carried, a slice of each of `xs`, and what is
/// additional; it gives what is carried on, then a slice of each further result.
Lowered loop_over(Context& ctx, const fx::GraphModule& body, const std::vector<BlockValue>& first,
                  const std::vector<BlockValue>& xs, const std::vector<BlockValue>& additional) {
  const auto& metas = ctx.node->meta.value.as_list();
  if (xs.empty() || metas.size() < first.size()) refuse(ctx, "runs over nothing");
  Carried carried(ctx, first, metas);
  std::vector<TensorBox> slots = carried.slots;
  for (std::size_t k = first.size(); k < metas.size(); ++k) {
    expect_sizes_known(ctx, metas[k]);
    slots.push_back(slot_for(ctx, metas[k]));
  }
  const Expr turn = ctx.graph.env().fresh_unbacked(), turns = std::get<TensorBox>(xs[0]).sizes.at(0);
  std::vector<BlockValue> operands;
  append(operands, carried.slots);
  for (const BlockValue& x : xs) {
    const TensorBox& box = std::get<TensorBox>(x);
    Exprs sizes(box.sizes.begin() + 1, box.sizes.end()), index = ctx.graph.ivars(sizes.size());
    index.insert(index.begin(), turn);
    operands.emplace_back(box.view(sizes, index));
  }
  operands.insert(operands.end(), additional.begin(), additional.end());
  control(ctx, Kind::Loop, 1, turn, turns);
  ctx.graph.begin_turns(turn);
  const auto values = lower_block(body, ctx, operands);
  if (values.size() != slots.size())
    refuse(ctx, fmt::format("has a body that gives {} values, not {}", values.size(), slots.size()));
  realize_repeated(values);
  for (std::size_t k = first.size(); k < slots.size(); ++k) {
    const Exprs sizes(slots[k].sizes.begin() + 1, slots[k].sizes.end());
    Exprs at = ctx.graph.ivars(sizes.size());
    at.insert(at.begin(), turn);
    store(ctx, slots[k], sizes, stored(ctx, values[k], slots[k], sizes), at);
  }
  carried.update(std::span(values).first(first.size()));
  ctx.graph.end_turns();
  control(ctx, Kind::EndLoop);
  return results(ctx, slots);
}

/// scan(body, first, xs, additional)
Lowered scan(Context& ctx, const Values& args) {
  return loop_over(ctx, subgraph(ctx, args.at(0)), operands_of(ctx, args.at(1)), operands_of(ctx, args.at(2)),
                   operands_of(ctx, args.size() > 3 ? args[3] : ops::Value()));
}

/// map_impl(body, xs, additional)
Lowered map(Context& ctx, const Values& args) {
  return loop_over(ctx, subgraph(ctx, args.at(0)), {}, operands_of(ctx, args.at(1)),
                   operands_of(ctx, args.size() > 2 ? args[2] : ops::Value()));
}

}  // namespace

void add_control_flow(Table& t) {
  t["higher_order.cond"] = cond;
  t["higher_order.while_loop"] = while_loop;
  t["higher_order.scan"] = scan;
  t["higher_order.map_impl"] = map;
}

}  // namespace coil::lowering
