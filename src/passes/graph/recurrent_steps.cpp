#include "passes/graph/recurrent_steps.h"

#include <algorithm>

#include "passes/graph/make.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;

const RecurrentForm kRecurrentForms[] = {
    {"coil.lstm_layer.default", {"hidden", "cell"}, {"gates"}, {"weight", "bias", "projection"}, {2, 0, 1}},
    {"coil.recurrent_layer.default", {"hidden"}, {"gates"}, {"weight", "bias"}, {1, 0}, true},
    {"coil.lstm_training.default", {"hidden", "cell"}, {"gates"}, {"weight", "bias", "projection"}, {2, 0, 1, 3, 4}},
    {"coil.gru_training.default", {"hidden"}, {"gates"}, {"weight", "bias"}, {1, 0, 2}},
    {"coil.lstm_backward.default",
     {"grad_hidden", "grad_cell"},
     {"grads", "saved", "cells", "previous"},
     {"weight", "projection"},
     {2, 0, 1},
     false,
     true},
    {"coil.gru_backward.default", {"grad_hidden"}, {"grads", "saved", "previous"}, {"weight"}, {1, 0}, false, true},
    {"coil.plain_backward.default", {"grad_hidden"}, {"grads", "sequence"}, {"weight"}, {1, 0}, true, true},
};

}  // namespace

const RecurrentForm* recurrent_form(const Node& n) {
  const auto found =
      std::ranges::find_if(kRecurrentForms, [&](const RecurrentForm& form) { return n.is_call(form.target); });
  return found == std::end(kRecurrentForms) ? nullptr : found;
}

bool begins_at_end(const Node& n) { return n.arg("reverse").as_bool() != recurrent_form(n)->is_gradient; }

RecurrentStep::RecurrentStep(const fx::GraphModule& around, std::vector<const Node*> layers)
    : layers_(std::move(layers)),
      layer_(*layers_[0]),
      form_(*recurrent_form(layer_)),
      body_(std::make_unique<fx::GraphModule>()) {
  body_->env = around.env;
}

std::unique_ptr<fx::GraphModule> RecurrentStep::build(const std::function<Value(std::string_view)>& of_all) {
  const auto place_all = [&](const std::vector<std::string_view>& names, Values& among, bool are_steps) {
    for (std::string_view name : names)
      if (!layer_.arg(name).is_none()) place(name, among, of_all(name), are_steps);
  };
  place_all(form_.states, states, false);
  place_all(form_.steps, steps, true);
  place_all(form_.shared, shared, false);
  type_ = at(form_.steps[0])->tensor().dtype;
  width_ = at(form_.states.back())->tensor().sizes.back();
  if (form_.target.starts_with("coil.lstm"))
    form_.is_gradient ? lstm_backward() : lstm();
  else if (form_.target.starts_with("coil.plain"))
    plain_backward();
  else if (form_.target.starts_with("coil.gru") || layer_.arg("mode").as_string() == "gru")
    form_.is_gradient ? gru_backward() : gru();
  else
    plain();
  return std::move(body_);
}

void RecurrentStep::place(std::string_view name, Values& among, const Value& v, bool is_step) {
  among.push_back(v);
  sym::TensorMeta meta = v.as_node()->tensor();
  if (is_step) {
    meta.sizes.erase(meta.sizes.begin());
    meta = sym::contiguous(meta.dtype, meta.device, meta.sizes);
  }
  placeholders_.emplace_back(name, body_->graph.placeholder(std::string(name), meta));
}

Node* RecurrentStep::at(std::string_view name) const {
  for (const auto& [known, node] : placeholders_)
    if (known == name) return node;
  return nullptr;
}

void RecurrentStep::lstm() {
  sum_state();
  Node *in = sigmoid(sum(0)), *kept = sigmoid(sum(1)), *fresh = tanh(sum(2)), *out = sigmoid(sum(3));
  Node* next = add(mul(kept, at("cell")), mul(in, fresh));
  Node* made = cast(mul(out, tanh(next)), type_);
  if (Node* projection = at("projection")) made = product(made, projection);
  if (form_.results.size() == 3)
    body_->graph.output({made, next, made});
  else
    body_->graph.output({made, next, made, together({in, kept, fresh, out}), next});
}

void RecurrentStep::gru() {
  sum_state();
  Node *reset = sigmoid(sum(0)), *kept = sigmoid(sum(1)), *told = share(2);
  Node* fresh = tanh(add(gate(at("gates"), 2), mul(reset, told)));
  Node* made = add(mul(sub(at("hidden"), fresh), kept), fresh);
  if (form_.results.size() == 2)
    body_->graph.output({made, made});
  else
    body_->graph.output({made, made, together({reset, kept, fresh, told})});
}

void RecurrentStep::plain() {
  sum_state();
  const std::string& mode = layer_.arg("mode").as_string();
  if (mode != "tanh" && mode != "relu") fail("there is no recurrent layer of mode '{}'", mode);
  Node* made = mode == "tanh" ? tanh(sum(0)) : call("aten.relu.default", {sum(0)});
  body_->graph.output({made, made});
}

void RecurrentStep::lstm_backward() {
  Node* hidden = add(at("grads"), at("grad_hidden"));
  if (Node* projection = at("projection")) hidden = times(hidden, projection);
  Node *saved = at("saved"), *cell = tanh(at("cells"));
  Node *in = gate(saved, 0), *kept = gate(saved, 1), *fresh = gate(saved, 2), *out = gate(saved, 3);
  Node* grad_cell = add(at("grad_cell"), mul(mul(hidden, out), tanh_slope(cell)));
  Node* gates =
      together({mul(mul(grad_cell, fresh), sigmoid_slope(in)), mul(mul(grad_cell, at("previous")), sigmoid_slope(kept)),
                mul(mul(grad_cell, in), tanh_slope(fresh)), mul(mul(hidden, cell), sigmoid_slope(out))});
  body_->graph.output({times(gates, at("weight")), mul(grad_cell, kept), gates});
}

void RecurrentStep::gru_backward() {
  Node *hidden = add(at("grads"), at("grad_hidden")), *saved = at("saved");
  Node *reset = gate(saved, 0), *kept = gate(saved, 1), *fresh = gate(saved, 2), *told = gate(saved, 3);
  Node* grad_fresh = mul(sub(hidden, mul(hidden, kept)), tanh_slope(fresh));
  Node* grad_reset = mul(mul(grad_fresh, told), sigmoid_slope(reset));
  Node* grad_kept = mul(mul(hidden, sub(at("previous"), fresh)), sigmoid_slope(kept));
  Node* gates = together({grad_reset, grad_kept, grad_fresh});
  Node* sums = together({grad_reset, grad_kept, mul(grad_fresh, reset)});
  body_->graph.output({add(times(sums, at("weight")), mul(hidden, kept)), gates});
}

void RecurrentStep::plain_backward() {
  Node *hidden = add(at("grads"), at("grad_hidden")), *made = at("sequence");
  Node* gates = layer_.arg("mode").as_string() == "tanh"
                    ? mul(hidden, tanh_slope(made))
                    : call("aten.threshold_backward.default", {hidden, made, Value(Expr(0))});
  body_->graph.output({times(gates, at("weight")), gates});
}

Node* RecurrentStep::call(std::string_view target, Values args) {
  return make_call(*body_, &layer_, target, std::move(args));
}

void RecurrentStep::sum_state() {
  Node *hidden = at("hidden"), *weight = at("weight"), *bias = at("bias");
  if (bias && layers_.size() == 1) {
    sums_ = call("aten.linear.default", {hidden, weight, bias});
    return;
  }
  if (bias) bias_ = call("aten.unsqueeze.default", {bias, Value(Expr(1))});
  sums_ = product(hidden, weight);
}

/// x times the transposed weight.
Node* RecurrentStep::product(Node* x, Node* weight) {
  if (layers_.size() == 1) return call("aten.linear.default", {x, weight, ops::None{}});
  return call("aten.bmm.default", {x, call("aten.transpose.int", {weight, Value(Expr(1)), Value(Expr(2))})});
}

Node* RecurrentStep::times(Node* x, Node* weight) {
  return call(layers_.size() == 1 ? "aten.mm.default" : "aten.bmm.default", {x, weight});
}

/// Part `i` of gates, which lie side by side.
Node* RecurrentStep::gate(Node* gates, std::int64_t i) {
  return call("aten.slice.Tensor",
              {gates, Value(Expr(-1)), Value(width_ * i), Value(width_ * (i + 1)), Value(Expr(1))});
}

/// The hidden state's share of gate `i`.
Node* RecurrentStep::share(std::int64_t i) { return bias_ ? add(gate(sums_, i), gate(bias_, i)) : gate(sums_, i); }

Node* RecurrentStep::together(Values parts) {
  for (Value& part : parts) part = cast(part.as_node(), type_);
  return call("aten.cat.default", {std::move(parts), Value(Expr(layers_.size() == 1 ? 1 : 2))});
}

Node* RecurrentStep::cast(Node* x, DType type) {
  return x->tensor().dtype == type ? x : make_call(*body_, &layer_, "aten._to_copy.default", {x}, {{"dtype", type}});
}

}  // namespace coil::passes
