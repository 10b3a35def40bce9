// Layers of recurrent networks as scans over their steps: a product of the hidden state with its weight, then the cell,
// element by element. For devices whose libraries have no such layers.
#include <algorithm>
#include <functional>
#include <unordered_set>

#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;

bool is_lstm(const Node& n) { return n.is_call("coil.lstm_layer.default"); }
bool is_layer(const Node& n) { return is_lstm(n) || n.is_call("coil.recurrent_layer.default"); }

/// One layer, or the two directions of a bidirectional one, which are computed together.
using Layers = std::vector<const Node*>;

/// The graph of one step. Its inputs are the states, the input's part of the gates, and weights; its results are the
/// new states, then the hidden state as the step's output. For two layers every tensor has one more dimension in front.
class Step {
 public:
  Step(const fx::GraphModule& around, Layers layers, const Node& gates)
      : layers_(std::move(layers)), layer_(*layers_[0]), body_(std::make_unique<fx::GraphModule>()) {
    body_->env = around.env;
    step_ = gates.tensor();
    step_.sizes.erase(step_.sizes.begin());
  }

  /// `of_all` gives an argument of the layers, by name, as the step takes it.
  std::unique_ptr<fx::GraphModule> build(const std::function<Value(const char*)>& of_all) {
    const bool lstm = is_lstm(layer_);
    Node* hidden = placeholder("hidden", of_all);
    Node* cell = lstm ? placeholder("cell", of_all) : nullptr;
    gates_ = body_->graph.placeholder("gates", sym::contiguous(step_.dtype, step_.device, step_.sizes));
    Node* weight = placeholder("weight", of_all);
    Node* bias = placeholder("bias", of_all);
    Node* projection = lstm ? placeholder("projection", of_all) : nullptr;
    sums_ = linear(hidden, weight, bias);
    width_ = (cell ? cell : hidden)->tensor().sizes.back();
    if (lstm) {
      Node* next = add(mul(sigmoid(sum(1)), cell), mul(sigmoid(sum(0)), tanh(sum(2))));
      Node* made = mul(sigmoid(sum(3)), tanh(next));
      if (projection) made = product(made, projection);
      body_->graph.output({made, next, made});
    } else {
      Node* made = one_state(hidden, layer_.arg("mode").as_string());
      body_->graph.output({made, made});
    }
    return std::move(body_);
  }

  /// What the step's placeholders stand for: states, and what comes after states and gates.
  Values states, additional;

 private:
  Node* placeholder(const char* name, const std::function<Value(const char*)>& of_all) {
    if (layer_.arg(name).is_none()) return nullptr;
    const Value v = of_all(name);
    const bool state = std::string_view(name) == "hidden" || std::string_view(name) == "cell";
    (state ? states : additional).push_back(v);
    return body_->graph.placeholder(name, v.as_node()->meta.value);
  }

  Node* one_state(Node* hidden, const std::string& mode) {
    if (mode == "gru") {
      Node* fresh = tanh(add(gate(gates_, 2), mul(sigmoid(sum(0)), share(2))));
      return add(mul(call("aten.sub.Tensor", {hidden, fresh}), sigmoid(sum(1))), fresh);
    }
    if (mode == "tanh") return tanh(sum(0));
    if (mode == "relu") return call("aten.relu.default", {sum(0)});
    fail("there is no recurrent layer of mode '{}'", mode);
  }

  Node* call(std::string_view target, Values args) { return make_call(*body_, &layer_, target, std::move(args)); }
  Node* linear(Node* x, Node* weight, Node* bias) {
    if (bias && layers_.size() == 1) return call("aten.linear.default", {x, weight, bias});
    if (bias) bias_ = call("aten.unsqueeze.default", {bias, Value(Expr(1))});
    return product(x, weight);
  }
  Node* product(Node* x, Node* weight) {
    if (layers_.size() == 1) return call("aten.linear.default", {x, weight, ops::None{}});
    return call("aten.bmm.default", {x, call("aten.transpose.int", {weight, Value(Expr(1)), Value(Expr(2))})});
  }
  Node* add(Node* a, Node* b) { return call("aten.add.Tensor", {a, b}); }
  Node* mul(Node* a, Node* b) { return call("aten.mul.Tensor", {a, b}); }
  Node* sigmoid(Node* x) { return call("aten.sigmoid.default", {x}); }
  Node* tanh(Node* x) { return call("aten.tanh.default", {x}); }
  /// Gate `i` of a tensor in which all gates lie side by side in the last dimension.
  Node* gate(Node* gates, std::int64_t i) {
    return call("aten.slice.Tensor",
                {gates, Value(Expr(-1)), Value(width_ * i), Value(width_ * (i + 1)), Value(Expr(1))});
  }
  /// What the hidden state adds to gate `i`.
  Node* share(std::int64_t i) { return bias_ ? add(gate(sums_, i), gate(bias_, i)) : gate(sums_, i); }
  Node* sum(std::int64_t i) { return add(gate(gates_, i), share(i)); }

  const Layers layers_;
  const Node& layer_;
  std::unique_ptr<fx::GraphModule> body_;
  sym::TensorMeta step_;
  Node *gates_ = nullptr, *sums_ = nullptr;
  Node* bias_ = nullptr;  ///< that the sums do not have yet
  Expr width_ = 0;
};

/// The scan that layers become, and what their readers get of it.
class Loop {
 public:
  Loop(fx::GraphModule& m, std::vector<Node*> layers) : m_(m), layers_(std::move(layers)) {}

  void run() {
    Node* layer = layers_.back();
    fx::InsertBefore here(layer);
    const Value gates = together([&](Node* n) { return turned(n, n->arg("gates").as_node()); }, 1);
    Step step(m_, {layers_.begin(), layers_.end()}, *gates.as_node());
    std::string name = "recurrence";
    for (int k = 1; m_.subgraphs.contains(name); ++k) name = fmt::format("recurrence_{}", k);
    m_.subgraphs[name] = step.build(
        [&](const char* argument) { return together([&](Node* n) { return n->arg(argument).as_node(); }, 0); });
    for (const Value& state : step.states) metas_.push_back(state.as_node()->meta.value);
    const sym::TensorMeta& hidden = metas_[0].as_tensor();
    sym::Exprs sizes = hidden.sizes;
    sizes.insert(sizes.begin(), gates.as_node()->tensor().sizes[0]);
    metas_.push_back(sym::contiguous(hidden.dtype, hidden.device, sizes));
    scan_ = m_.graph.call("higher_order.scan", {ops::GraphRef{name}, step.states, Values{gates}, step.additional},
                          layer->name);
    fx::Graph::inherit(scan_, layer);
    scan_->meta.value = metas_;
    for (std::size_t k = 0; k < layers_.size(); ++k) give(k);
    for (Node* n : layers_) m_.graph.erase(n);
  }

 private:
  /// One value of each layer as one tensor. If there are two layers, they are stacked along dimension `dim`.
  Value together(const std::function<Node*(Node*)>& of, std::int64_t dim) {
    if (layers_.size() == 1) return of(layers_[0]);
    Values all;
    for (Node* n : layers_) all.push_back(of(n));
    return make_call(m_, layers_.back(), "aten.stack.default", {all, Value(Expr(dim))});
  }

  /// The steps in the order in which the layer takes them; applied twice, in the sequence's own order again.
  Node* turned(Node* layer, Node* steps) {
    if (!layer->arg("reverse").as_bool()) return steps;
    return make_call(m_, layer, "aten.flip.default", {steps, Values{Value(Expr(0))}});
  }

  /// Replaces the results of layer `k` by those of the scan. A layer returns the steps' outputs and then the states,
  /// the scan first the states.
  void give(std::size_t k) {
    Node* layer = layers_[k];
    const std::size_t count = metas_.size() - 1;
    const std::vector<Node*> users(layer->users().begin(), layer->users().end());
    for (Node* user : users) {
      COIL_CHECK(user->is_call("_operator.getitem"));
      const auto which = static_cast<std::size_t>(*user->args[1].as_int().constant());
      const std::size_t place = which == 0 ? count : which - 1;
      Node* item =
          m_.graph.call("_operator.getitem", {scan_, Value(Expr(static_cast<std::int64_t>(place)))}, user->name);
      fx::Graph::inherit(item, user);
      item->meta.value = metas_[place];
      if (layers_.size() > 1) item = own(item, user, which == 0 ? 1 : 0, k);
      user->replace_all_uses_with(which == 0 ? turned(layer, item) : item);
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
  Values metas_;
  Node* scan_ = nullptr;
};

bool is_alike(const Node& a, const Node& b) {
  if (a.target != b.target || (!is_lstm(a) && a.arg("mode").as_string() != b.arg("mode").as_string())) return false;
  for (const char* name : {"gates", "hidden", "weight", "bias", "cell", "projection"}) {
    if (!is_lstm(a) && (std::string_view(name) == "cell" || std::string_view(name) == "projection")) continue;
    const Value &x = a.arg(name), &y = b.arg(name);
    if (x.is_none() != y.is_none()) return false;
    if (x.is_none()) continue;
    const sym::TensorMeta &mine = x.as_node()->tensor(), &theirs = y.as_node()->tensor();
    if (mine.sizes != theirs.sizes || mine.dtype != theirs.dtype || !(mine.device == theirs.device)) return false;
  }
  return true;
}

/// A later layer that can be computed together with this one: it has the same sizes, does not depend on this one, and
/// comes before every node that reads this one's results.
Node* partner(Node* layer) {
  std::unordered_set<const Node*> readers(layer->users().begin(), layer->users().end());
  for (Node* n = layer->next(); n; n = n->next()) {
    if (!readers.contains(n)) {
      if (is_layer(*n) && is_alike(*layer, *n)) return n;
    } else {
      if (!n->is_call("_operator.getitem") || n->args[0].as_node() != layer) return nullptr;
      readers.insert(n->users().begin(), n->users().end());
    }
  }
  return nullptr;
}

}  // namespace

void loop_recurrences(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) loop_recurrences(*sub);
  for (Node* n : m.graph.nodes()) {
    if (!is_layer(*n)) continue;
    Node* other = partner(n);
    Loop(m, other ? std::vector{n, other} : std::vector{n}).run();
  }
}

}  // namespace coil::passes
