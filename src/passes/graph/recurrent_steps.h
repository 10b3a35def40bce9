// One step of a layer of a recurrent network as a graph: of the layer itself, of the layer with what its gradients
// need, and of the gradients.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "fx/graph.h"

namespace coil::passes {

/// How an operator for one direction of one layer is taken step by step, by the names of its arguments. A step is given
/// the states, then its part of what comes for every step, then what all steps share.
struct RecurrentForm {
  std::string_view target;
  std::vector<std::string_view> states, steps, shared;
  std::vector<std::size_t> results;  ///< by result of the operator: which of the states, then of the steps' results
  bool has_mode = false;             ///< an argument tells the kind of the layer
  bool is_gradient = false;          ///< begins where the layer ends
};

/// Null of other operators.
const RecurrentForm* recurrent_form(const fx::Node&);
/// Whether it begins with the last step.
bool begins_at_end(const fx::Node&);

/// A step of some layers that are alike. Of several everything has a dimension more, in front.
class RecurrentStep {
 public:
  RecurrentStep(const fx::GraphModule& around, std::vector<const fx::Node*> layers);

  /// `of_all` gives an argument of the layers, by name, as the loop takes it: of the arguments that come for every step
  /// the steps' dimension is the first.
  std::unique_ptr<fx::GraphModule> build(const std::function<ops::Value(std::string_view)>& of_all);

  /// What the step's placeholders stand for.
  ops::Values states, steps, shared;

 private:
  using Node = fx::Node;

  void place(std::string_view name, ops::Values& among, const ops::Value&, bool is_step);
  Node* at(std::string_view name) const;

  void lstm();
  void gru();
  void plain();
  void lstm_backward();
  void gru_backward();
  void plain_backward();

  Node* call(std::string_view target, ops::Values args);
  /// What the hidden state adds to the gates; `bias_` has what is not in it yet.
  void sum_state();
  Node* product(Node* x, Node* weight);
  Node* times(Node* x, Node* weight);
  Node* add(Node* a, Node* b) { return call("aten.add.Tensor", {a, b}); }
  Node* sub(Node* a, Node* b) { return call("aten.sub.Tensor", {a, b}); }
  Node* mul(Node* a, Node* b) { return call("aten.mul.Tensor", {a, b}); }
  Node* sigmoid(Node* x) { return call("aten.sigmoid.default", {x}); }
  Node* tanh(Node* x) { return call("aten.tanh.default", {x}); }
  /// The slopes of sigmoid and tanh where these are `y`.
  Node* sigmoid_slope(Node* y) { return sub(y, mul(y, y)); }
  Node* tanh_slope(Node* y) { return call("aten.rsub.Scalar", {mul(y, y), ops::Value(sym::Expr(1))}); }
  Node* gate(Node* gates, std::int64_t i);
  Node* share(std::int64_t i);
  Node* sum(std::int64_t i) { return add(gate(at("gates"), i), share(i)); }
  /// Side by side in the last dimension.
  Node* together(ops::Values parts);
  Node* cast(Node* x, DType);

  const std::vector<const Node*> layers_;
  const Node& layer_;
  const RecurrentForm& form_;
  std::unique_ptr<fx::GraphModule> body_;
  std::vector<std::pair<std::string_view, Node*>> placeholders_;
  Node *sums_ = nullptr, *bias_ = nullptr;
  sym::Expr width_ = 0;  ///< of a gate
  DType type_{};         ///< of the gates
};

}  // namespace coil::passes
