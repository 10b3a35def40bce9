// Recurrent networks as one operator (LSTM, GRU, plain), their cells, and Coil's own operators for one direction of one
// layer, which they decompose to.
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

/// Output over the whole sequence, in the layout that eager's transposition leaves, and the last states in the sizes of
/// the first.
Values network(const Call& call, const TensorMeta& hidden) {
  const TensorMeta& input = call.tensor(0);
  if (input.rank() != 3 || hidden.rank() != 3)
    refuse(call, "takes input and states of three dimensions, not sizes {} and {}", show(input.sizes),
           show(hidden.sizes));
  bool batch_first = call["batch_first"].as_bool();
  Expr directions = call["bidirectional"].as_bool() ? 2 : 1;
  Expr steps = input.sizes[batch_first ? 1 : 0], batch = input.sizes[batch_first ? 0 : 1];
  require_equal(call, hidden.sizes[1], batch, "batch sizes of input and state");
  require_equal(call, hidden.sizes[0], directions * number(call, "num_layers"), "layers of the state");
  TensorMeta output = dense(call.env, input, {steps, batch, call.env.simplify(directions * hidden.sizes[2])});
  if (batch_first) {
    std::swap(output.sizes[0], output.sizes[1]);
    std::swap(output.strides[0], output.strides[1]);
  }
  return {output, dense(call.env, input, hidden.sizes)};
}

Value lstm(const Call& call) {
  const Values& states = call["hx"].as_list();
  if (states.size() != 2) refuse(call, "takes two states, not {}", states.size());
  Values results = network(call, states[0].as_tensor());
  results.push_back(dense(call.env, call.tensor(0), states[1].as_tensor().sizes));
  return results;
}

Value one_state(const Call& call) { return network(call, call["hx"].as_tensor()); }

Value lstm_cell(const Call& call) {
  const Values& states = call["hx"].as_list();
  if (states.size() != 2) refuse(call, "takes two states, not {}", states.size());
  return Values{dense(call.env, call.tensor(0), states[0].as_tensor().sizes),
                dense(call.env, call.tensor(0), states[1].as_tensor().sizes)};
}

Value cell(const Call& call) { return dense(call.env, call.tensor(0), call["hx"].as_tensor().sizes); }

Value layer(const Call& call) {
  const TensorMeta &gates = call.tensor(0), &hidden = call["hidden"].as_tensor();
  Values results = {dense(call.env, gates, {gates.sizes[0], gates.sizes[1], hidden.sizes[1]}),
                    dense(call.env, gates, hidden.sizes)};
  if (const Value* c = given(call, "cell")) results.push_back(dense(call.env, gates, c->as_tensor().sizes));
  return results;
}

/// Beside the layer's results what its gradients need: of an LSTM its gates and cells in every step, of a GRU its gates
/// and what the state adds to the last of them.
Value training(const Call& call) {
  const TensorMeta &gates = call.tensor(0), &hidden = call["hidden"].as_tensor();
  Values results = {dense(call.env, gates, {gates.sizes[0], gates.sizes[1], hidden.sizes[1]}),
                    dense(call.env, gates, hidden.sizes)};
  if (const Value* c = given(call, "cell")) {
    const TensorMeta& cell = c->as_tensor();
    results.push_back(dense(call.env, cell, cell.sizes));
    results.push_back(dense(call.env, gates, gates.sizes));
    results.push_back(dense(call.env, cell, {gates.sizes[0], gates.sizes[1], cell.sizes[1]}));
  } else {
    results.push_back(dense(call.env, gates, {gates.sizes[0], gates.sizes[1], call.env.simplify(hidden.sizes[1] * 4)}));
  }
  return results;
}

/// The gradients of every step's gates, then of the first states.
Value layer_backward(const Call& call) {
  const TensorMeta &grads = call.tensor(0), &weight = call["weight"].as_tensor();
  Values results = {dense(call.env, grads, {grads.sizes[0], grads.sizes[1], weight.sizes[0]}),
                    dense(call.env, grads, call["grad_hidden"].as_tensor().sizes)};
  if (const Value* c = given(call, "grad_cell"))
    results.push_back(dense(call.env, c->as_tensor(), c->as_tensor().sizes));
  return results;
}

}  // namespace

void register_recurrent() {
  define(
      "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
      "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
      lstm);
  define_each(R"(
aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
    bool bidirectional, bool batch_first) -> (Tensor, Tensor)
aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
)",
              one_state);
  define(
      "aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
      "(Tensor, Tensor)",
      lstm_cell);
  define_each(R"(
aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor
aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor
aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor
)",
              cell);
  // `gates` are the input's share of every step, its bias included; the results are the hidden states of every step and
  // the last states.
  define_each(R"(
coil::lstm_layer(Tensor gates, Tensor hidden, Tensor cell, Tensor weight, Tensor? bias, Tensor? projection,
    bool reverse) -> (Tensor, Tensor, Tensor)
coil::recurrent_layer(Tensor gates, Tensor hidden, Tensor weight, Tensor? bias, str mode, bool reverse) -> (Tensor,
    Tensor)
)",
              layer);
  // The same where gradients are wanted, with what those need; and the gradients, which walk through the steps the
  // other way round. `previous` are the cells, or the hidden states, before each step.
  define_each(R"(
coil::lstm_training(Tensor gates, Tensor hidden, Tensor cell, Tensor weight, Tensor? bias, Tensor? projection,
    bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
coil::gru_training(Tensor gates, Tensor hidden, Tensor weight, Tensor? bias, bool reverse) -> (Tensor, Tensor, Tensor)
)",
              training);
  define_each(R"(
coil::lstm_backward(Tensor grads, Tensor grad_hidden, Tensor grad_cell, Tensor saved, Tensor cells, Tensor previous,
    Tensor weight, Tensor? projection, bool reverse) -> (Tensor, Tensor, Tensor)
coil::gru_backward(Tensor grads, Tensor grad_hidden, Tensor saved, Tensor previous, Tensor weight, bool reverse) ->
    (Tensor, Tensor)
coil::plain_backward(Tensor grads, Tensor grad_hidden, Tensor sequence, Tensor weight, str mode, bool reverse) ->
    (Tensor, Tensor)
)",
              layer_backward);
}

}  // namespace coil::ops::shapes
