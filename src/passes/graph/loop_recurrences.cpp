// Layers of recurrent networks as scans over their steps: a product of the hidden state with its weight, then the cell,
// element by element. For devices whose libraries have no such layers.
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

/// The graph of one step: states, the input's share of the step, weights; it gives the new states, then the hidden
/// state as the step's result.
class Step {
 public:
  Step(const fx::GraphModule& around, const Node& layer) : layer_(layer), body_(std::make_unique<fx::GraphModule>()) {
    body_->env = around.env;
  }

  std::unique_ptr<fx::GraphModule> build() {
    const bool lstm = is_lstm(layer_);
    Node* hidden = placeholder("hidden");
    Node* cell = lstm ? placeholder("cell") : nullptr;
    sym::TensorMeta step = layer_.arg("gates").as_node()->tensor();
    step.sizes.erase(step.sizes.begin());
    gates_ = body_->graph.placeholder("gates", sym::contiguous(step.dtype, step.device, step.sizes));
    Node* weight = placeholder("weight");
    Node* bias = placeholder("bias");
    Node* projection = lstm ? placeholder("projection") : nullptr;
    sums_ = linear(hidden, weight, bias);
    width_ = (cell ? cell : hidden)->tensor().sizes[1];
    if (lstm) {
      Node* next = add(mul(sigmoid(sum(1)), cell), mul(sigmoid(sum(0)), tanh(sum(2))));
      Node* made = mul(sigmoid(sum(3)), tanh(next));
      if (projection) made = linear(made, projection, nullptr);
      body_->graph.output({made, next, made});
    } else {
      Node* made = one_state(hidden, layer_.arg("mode").as_string());
      body_->graph.output({made, made});
    }
    return std::move(body_);
  }

  /// What the step's placeholders after states and gates stand for.
  Values additional;

 private:
  Node* placeholder(const char* name) {
    const Value& v = layer_.arg(name);
    if (v.is_none()) return nullptr;
    if (std::string_view(name) != "hidden" && std::string_view(name) != "cell") additional.push_back(v);
    return body_->graph.placeholder(name, v.as_node()->meta.value);
  }

  Node* one_state(Node* hidden, const std::string& mode) {
    if (mode == "gru") {
      Node* fresh = tanh(add(gate(gates_, 2), mul(sigmoid(sum(0)), gate(sums_, 2))));
      return add(mul(call("aten.sub.Tensor", {hidden, fresh}), sigmoid(sum(1))), fresh);
    }
    if (mode == "tanh") return tanh(sum(0));
    if (mode == "relu") return call("aten.relu.default", {sum(0)});
    fail("there is no recurrent layer of mode '{}'", mode);
  }

  Node* call(std::string_view target, Values args) { return make_call(*body_, &layer_, target, std::move(args)); }
  Node* linear(Node* x, Node* weight, Node* bias) {
    return call("aten.linear.default", {x, weight, bias ? Value(bias) : Value(ops::None{})});
  }
  Node* add(Node* a, Node* b) { return call("aten.add.Tensor", {a, b}); }
  Node* mul(Node* a, Node* b) { return call("aten.mul.Tensor", {a, b}); }
  Node* sigmoid(Node* x) { return call("aten.sigmoid.default", {x}); }
  Node* tanh(Node* x) { return call("aten.tanh.default", {x}); }
  /// Part `i` of gates, which lie side by side.
  Node* gate(Node* gates, std::int64_t i) {
    return call("aten.slice.Tensor",
                {gates, Value(Expr(1)), Value(width_ * i), Value(width_ * (i + 1)), Value(Expr(1))});
  }
  Node* sum(std::int64_t i) { return add(gate(gates_, i), gate(sums_, i)); }

  const Node& layer_;
  std::unique_ptr<fx::GraphModule> body_;
  Node *gates_ = nullptr, *sums_ = nullptr;
  Expr width_ = 0;
};

void loop(fx::GraphModule& m, Node* layer) {
  fx::InsertBefore here(layer);
  const Values first_to_last{Value(Expr(0))};
  const bool reverse = layer->arg("reverse").as_bool();
  auto turned = [&](Node* x) { return reverse ? make_call(m, layer, "aten.flip.default", {x, first_to_last}) : x; };
  Step step(m, *layer);
  std::string name = "recurrence";
  for (int k = 1; m.subgraphs.contains(name); ++k) name = fmt::format("recurrence_{}", k);
  m.subgraphs[name] = step.build();
  Values states{layer->arg("hidden")};
  if (is_lstm(*layer)) states.push_back(layer->arg("cell"));
  const std::size_t count = states.size();
  Node* scan = m.graph.call(
      "higher_order.scan",
      {ops::GraphRef{name}, std::move(states), Values{turned(layer->arg("gates").as_node())}, step.additional},
      layer->name);
  fx::Graph::inherit(scan, layer);
  // The layer gives the steps' results, then the states; the scan the other way round.
  const Values& metas = layer->meta.value.as_list();
  Values scanned(metas.begin() + 1, metas.end());
  scanned.push_back(metas[0]);
  scan->meta.value = scanned;
  const std::vector<Node*> users(layer->users().begin(), layer->users().end());
  for (Node* user : users) {
    COIL_CHECK(user->is_call("_operator.getitem"));
    const auto which = static_cast<std::size_t>(*user->args[1].as_int().constant());
    const std::size_t place = which == 0 ? count : which - 1;
    Node* item = m.graph.call("_operator.getitem", {scan, Value(Expr(static_cast<std::int64_t>(place)))}, user->name);
    fx::Graph::inherit(item, user);
    item->meta.value = scanned[place];
    user->replace_all_uses_with(which == 0 ? turned(item) : item);
    m.graph.erase(user);
  }
  m.graph.erase(layer);
}

}  // namespace

void loop_recurrences(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) loop_recurrences(*sub);
  for (Node* n : m.graph.nodes())
    if (is_layer(*n)) loop(m, n);
}

}  // namespace coil::passes
