// Layers of recurrent networks as scans over their steps: a product of the hidden state with its weight, then the cell,
// element by element. For devices whose libraries have no such layers.
#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>

#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "passes/graph/recurrent_steps.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;

/// The scan that layers become, and what their readers get of it.
class Loop {
 public:
  Loop(fx::GraphModule& m, std::vector<Node*> layers)
      : m_(m), layers_(std::move(layers)), form_(*recurrent_form(*layers_[0])) {}

  void run() {
    Node* layer = layers_.back();
    fx::InsertBefore here(layer);
    const auto comes_by_step = [&](std::string_view argument) {
      return std::ranges::find(form_.steps, argument) != form_.steps.end();
    };
    RecurrentStep step(m_, {layers_.begin(), layers_.end()});
    std::string name = "recurrence";
    for (int k = 1; m_.subgraphs.contains(name); ++k) name = fmt::format("recurrence_{}", k);
    m_.subgraphs[name] = step.build([&](std::string_view argument) {
      const auto own = [&](Node* n) { return n->arg(argument).as_node(); };
      if (!comes_by_step(argument)) return together(own, 0);
      return together([&](Node* n) { return turned(n, own(n)); }, 1);
    });
    for (const Value& state : step.states) metas_.push_back(state.as_node()->meta.value);
    for (std::size_t place = metas_.size(); place < form_.results.size(); ++place) metas_.push_back(of_steps(place));
    scan_ =
        m_.graph.call("higher_order.scan", {ops::GraphRef{name}, step.states, step.steps, step.shared}, layer->name);
    fx::Graph::inherit(scan_, layer);
    scan_->meta.value = metas_;
    for (std::size_t k = 0; k < layers_.size(); ++k) give(k);
    for (Node* n : layers_) m_.graph.erase(n);
  }

 private:
  /// One value of each layer as one tensor, which has a dimension for the layers where there are two.
  Value together(const std::function<Node*(Node*)>& of, std::int64_t dim) {
    if (layers_.size() == 1) return of(layers_[0]);
    Values all;
    for (Node* n : layers_) all.push_back(of(n));
    return make_call(m_, layers_.back(), "aten.stack.default", {all, Value(Expr(dim))});
  }

  /// What the result at a place of the loop's is like: a result of all steps.
  sym::TensorMeta of_steps(std::size_t place) const {
    const auto which = std::ranges::find(form_.results, place) - form_.results.begin();
    sym::TensorMeta meta = layers_[0]->meta.value.as_list().at(static_cast<std::size_t>(which)).as_tensor();
    if (layers_.size() > 1) meta.sizes.insert(meta.sizes.begin() + 1, Expr(static_cast<std::int64_t>(layers_.size())));
    return sym::contiguous(meta.dtype, meta.device, meta.sizes);
  }

  /// Steps in the loop's order, or back.
  Node* turned(Node* layer, Node* steps) {
    if (!begins_at_end(*layer)) return steps;
    return make_call(m_, layer, "aten.flip.default", {steps, Values{Value(Expr(0))}});
  }

  /// The results of layer `k` to its readers.
  void give(std::size_t k) {
    Node* layer = layers_[k];
    const std::vector<Node*> users(layer->users().begin(), layer->users().end());
    for (Node* user : users) {
      COIL_CHECK(user->is_call("_operator.getitem"));
      const auto which = static_cast<std::size_t>(*user->args[1].as_int().constant());
      const std::size_t place = form_.results[which];
      const bool is_state = place < form_.states.size();
      Node* item =
          m_.graph.call("_operator.getitem", {scan_, Value(Expr(static_cast<std::int64_t>(place)))}, user->name);
      fx::Graph::inherit(item, user);
      item->meta.value = metas_[place];
      if (layers_.size() > 1) item = own(item, user, is_state ? 0 : 1, k);
      user->replace_all_uses_with(is_state ? item : turned(layer, item));
      m_.graph.erase(user);
    }
  }

  /// Layer `k`'s part of what both gave, dense as the layer alone gives it.
  Node* own(Node* both, const Node* user, std::int64_t dim, std::size_t k) {
    Node* part = make_call(m_, user, "aten.select.int", {both, Value(Expr(dim)), Value(Expr(k))});
    return make_call(m_, user, "aten.clone.default", {part});
  }

  fx::GraphModule& m_;
  std::vector<Node*> layers_;
  const RecurrentForm& form_;
  Values metas_;
  Node* scan_ = nullptr;
};

bool is_alike(const Node& a, const Node& b) {
  if (a.target != b.target) return false;
  const RecurrentForm& form = *recurrent_form(a);
  if (form.has_mode && a.arg("mode").as_string() != b.arg("mode").as_string()) return false;
  for (const auto* names : {&form.states, &form.steps, &form.shared})
    for (std::string_view name : *names) {
      const Value &x = a.arg(name), &y = b.arg(name);
      if (x.is_none() != y.is_none()) return false;
      if (x.is_none()) continue;
      const sym::TensorMeta &mine = x.as_node()->tensor(), &theirs = y.as_node()->tensor();
      if (mine.sizes != theirs.sizes || mine.dtype != theirs.dtype || !(mine.device == theirs.device)) return false;
    }
  return true;
}

/// What a later layer is made of that does not stand before this one, in order; nothing where it cannot be made
/// earlier than it is.
std::optional<std::vector<Node*>> between(Node* layer, Node* later) {
  std::unordered_set<const Node*> needed{later};
  std::vector<Node*> found;
  for (Node* n = later; n != layer; n = n->prev()) {
    if (!needed.contains(n)) continue;
    if (n != later) found.push_back(n);
    if (n->op && (n->op->random || n->op->side_effect)) return std::nullopt;
    for (const Value& v : n->args) ops::for_each_node(v, [&](const Node* in) { needed.insert(in); });
    for (const auto& [key, v] : n->kwargs) ops::for_each_node(v, [&](const Node* in) { needed.insert(in); });
  }
  std::ranges::reverse(found);
  return found;
}

/// A later layer that can go beside this one: of the same sizes, needing nothing of it. It is brought behind this one.
Node* partner(fx::GraphModule& m, Node* layer) {
  std::unordered_set<const Node*> dependent{layer};
  for (Node* n = layer->next(); n; n = n->next()) {
    bool depends = false;
    const auto look = [&](const Node* in) { depends = depends || dependent.contains(in); };
    for (const Value& v : n->args) ops::for_each_node(v, look);
    for (const auto& [key, v] : n->kwargs) ops::for_each_node(v, look);
    if (depends) dependent.insert(n);
    if (depends || !recurrent_form(*n) || !is_alike(*layer, *n)) continue;
    const auto earlier = between(layer, n);
    if (!earlier) continue;
    for (Node* made : *earlier) m.graph.move_before(made, layer);
    m.graph.move_before(n, layer->next());
    return n;
  }
  return nullptr;
}

}  // namespace

void loop_recurrences(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) loop_recurrences(*sub);
  for (Node* n : m.graph.nodes()) {
    if (!recurrent_form(*n)) continue;
    Node* other = partner(m, n);
    Loop(m, other ? std::vector{n, other} : std::vector{n}).run();
  }
}

}  // namespace coil::passes
