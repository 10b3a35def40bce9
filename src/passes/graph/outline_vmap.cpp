#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/shapes/strides.h"
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::TensorMeta;

constexpr std::string_view kVmap = "torch._functorch.predispatch.";

bool is_vmap_call(const Node& n, std::string_view name) {
  return n.opcode == fx::Opcode::CallFunction && n.target.starts_with(kVmap) &&
         std::string_view(n.target).substr(kVmap.size()) == name;
}

void for_each_input(const Value& v, const std::function<void(Node*)>& f) {
  if (auto* n = v.get_if<Node*>()) f(*n);
  if (auto* list = v.get_if<Values>())
    for (const Value& item : *list) for_each_input(item, f);
}

void for_each_input(const Node& n, const std::function<void(Node*)>& f) {
  for (const Value& v : n.args) for_each_input(v, f);
  for (const auto& [key, v] : n.kwargs) for_each_input(v, f);
}

Value replaced(const Value& v, const std::function<Value(Node*)>& with) {
  if (auto* n = v.get_if<Node*>()) return with(*n);
  auto* list = v.get_if<Values>();
  if (!list) return v;
  Values out;
  for (const Value& item : *list) out.push_back(replaced(item, with));
  return out;
}

/// One region, from what opens it to what closes it.
class Region {
 public:
  Region(fx::GraphModule& m, Node* begin, Node* end) : m_(m), begin_(begin), end_(end) {}

  void outline() {
    collect();
    fx::InsertBefore here(end_);
    const bool any = std::any_of(leaving_.begin(), leaving_.end(),
                                 [&](Node* n) { return batched_.contains(n->args.at(0).as_node()); });
    Node* call = any ? map() : nullptr;
    for (Node* n : leaving_) leave(*n, call);
    for (Node* n : leaving_) m_.graph.erase(n);
    std::reverse(inside_.begin(), inside_.end());
    for (Node* n : inside_) m_.graph.erase(n);
    for (Node* n : entering_) m_.graph.erase(n);
    m_.graph.erase(end_);
    m_.graph.erase(begin_);
  }

 private:
  /// What depends on something batched is inside; all else is computed once, before it.
  void collect() {
    for (Node* n = begin_->next(); n != end_; n = n->next()) {
      bool batched = is_vmap_call(*n, "_add_batch_dim");
      if (batched) entering_.push_back(n);
      for_each_input(*n, [&](Node* in) { batched = batched || batched_.contains(in); });
      if (is_vmap_call(*n, "_remove_batch_dim")) {
        leaving_.push_back(n);
      } else if (batched) {
        batched_.insert(n);
        if (entering_.empty() || entering_.back() != n) inside_.push_back(n);
      }
    }
  }

  /// The region as a map over the first dimension of what enters it.
  Node* map() {
    auto body = std::make_unique<fx::GraphModule>();
    body->env = m_.env;
    Values xs, outside;
    std::unordered_map<Node*, Node*> in_body;
    for (Node* n : entering_) {
      Node* x = n->args.at(0).as_node();
      xs.push_back(make_call(m_, n, "aten.movedim.int", {x, n->args.at(1), Value(sym::Expr(0))}));
      in_body[n] = body->graph.placeholder(n->name, n->meta.value);
    }
    for (Node* n : inside_)
      for_each_input(*n, [&](Node* in) {
        if (batched_.contains(in) || in_body.contains(in)) return;
        outside.push_back(in);
        in_body[in] = body->graph.placeholder(in->name, in->meta.value);
      });
    auto inner = [&](const Value& v) { return replaced(v, [&](Node* in) { return Value(in_body.at(in)); }); };
    for (Node* n : inside_) {
      Values args;
      for (const Value& v : n->args) {
        args.push_back(inner(v));
        if (auto* g = v.get_if<ops::GraphRef>())
          if (auto found = m_.subgraphs.find(g->name); found != m_.subgraphs.end())
            body->subgraphs.insert(m_.subgraphs.extract(found));
      }
      std::vector<std::pair<std::string, Value>> named;
      for (const auto& [key, v] : n->kwargs) named.emplace_back(key, inner(v));
      Node* copy = body->graph.call(n->target, std::move(args), n->name, std::move(named));
      copy->meta = n->meta;
      in_body[n] = copy;
    }
    Values results, metas;
    const Value size = begin_->args.at(0);
    for (Node* n : leaving_) {
      Node* y = n->args.at(0).as_node();
      if (!batched_.contains(y)) continue;
      results.push_back(in_body.at(y));
      sym::Exprs sizes = y->tensor().sizes;
      sizes.insert(sizes.begin(), extent(size));
      metas.push_back(sym::contiguous(y->tensor().dtype, y->tensor().device, sizes));
    }
    body->graph.output(std::move(results));
    std::string name = "vmap_body";
    for (int k = 1; m_.subgraphs.contains(name); ++k) name = fmt::format("vmap_body_{}", k);
    m_.subgraphs[name] = std::move(body);
    Node* call = m_.graph.call("higher_order.map_impl", {ops::GraphRef{name}, xs, outside}, "vmap");
    fx::Graph::inherit(call, leaving_.front());
    call->meta.value = std::move(metas);
    return call;
  }

  static sym::Expr extent(const Value& v) { return v.is<Node*>() ? v.as_node()->meta.value.as_int() : v.as_int(); }

  /// `_remove_batch_dim(y, level, batch size, where)`: result `taken_` of the map, or for what was never batched the
  /// same in each place.
  void leave(Node& n, Node* call) {
    Node* y = n.args.at(0).as_node();
    const Value where = n.args.at(3);
    Node* made = nullptr;
    if (batched_.contains(y)) {
      made = m_.graph.call("_operator.getitem", {call, Value(sym::Expr(taken_))});
      fx::Graph::inherit(made, &n);
      made->meta.value = call->meta.value.as_list()[static_cast<std::size_t>(taken_++)];
    } else {
      sym::Exprs sizes = y->tensor().sizes;
      sizes.insert(sizes.begin(), extent(n.args.at(2)));
      Values wanted;
      for (sym::Expr e : sizes) wanted.push_back(e);
      made = make_call(m_, &n, "aten.expand.default",
                       {make_call(m_, &n, "aten.unsqueeze.default", {y, Value(sym::Expr(0))}), wanted});
    }
    if (!where.is<sym::Expr>() || !where.as_int().is_constant(0))
      made = make_call(m_, &n, "aten.movedim.int", {made, Value(sym::Expr(0)), where});
    n.replace_all_uses_with(laid_out_as(n, made));
  }

  /// What eager's batch rules give may lie in memory in another order than the results of a map, and views of it were
  /// recorded with those strides.
  Node* laid_out_as(Node& n, Node* made) {
    if (!n.is_tensor() || n.tensor().rank() != made->tensor().rank()) return made;
    const std::vector<std::int64_t> order = ops::shapes::memory_order(*m_.env, n.tensor().strides);
    if (order == ops::shapes::memory_order(*m_.env, made->tensor().strides)) return made;
    auto permuted = [&](Node* of, const std::vector<std::int64_t>& by) {
      Values dims;
      for (const std::int64_t d : by) dims.push_back(sym::Expr(d));
      return make_call(m_, &n, "aten.permute.default", {of, dims});
    };
    Node* copy = make_call(m_, &n, "aten.clone.default", {permuted(made, order)},
                           {{"memory_format", ops::MemoryFormat::Contiguous}});
    return permuted(copy, ops::shapes::inverse_order(order));
  }

  fx::GraphModule& m_;
  Node *begin_, *end_;
  std::vector<Node*> entering_, leaving_, inside_;
  std::unordered_set<Node*> batched_;  ///< what enters included
  std::int64_t taken_ = 0;
};

}  // namespace

void outline_vmap(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) outline_vmap(*sub);
  std::vector<Node*> open;
  for (Node* n : m.graph.nodes()) {
    if (is_vmap_call(*n, "lazy_load_decompositions"))
      m.graph.erase(n);
    else if (is_vmap_call(*n, "_vmap_increment_nesting"))
      open.push_back(n);
    else if (is_vmap_call(*n, "_vmap_decrement_nesting") && !open.empty()) {
      Region(m, open.back(), n).outline();
      open.pop_back();
    }
  }
}

}  // namespace coil::passes
