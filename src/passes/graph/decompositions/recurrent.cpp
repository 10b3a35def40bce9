// Recurrent networks: the input's share of all steps as one product, the rest of a layer's direction as
// `coil.lstm_layer` or `coil.recurrent_layer`, which a library carries out step by step. Cells are written out.
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

/// The parameters of one direction of one layer, in the order of torch.nn.
struct Weights {
  Value input, hidden;
  Value input_bias = None{}, hidden_bias = None{}, projection = None{};
};

/// Takes the parameters of every layer and direction out of the flat list.
class Parameters {
 public:
  Parameters(Rewriter& r, bool has_projections)
      : list_(r["params"].as_list()), has_biases_(r.flag("has_biases")), has_projections_(has_projections) {
    std::size_t wanted = static_cast<std::size_t>(r.number("num_layers")) * (r.flag("bidirectional") ? 2u : 1u) *
                         (2u + (has_biases_ ? 2u : 0u) + has_projections);
    if (list_.size() != wanted) r.refuse(fmt::format("has {} parameters where {} belong", list_.size(), wanted));
  }

  Weights next() {
    Weights w{take(), take()};
    if (has_biases_) w.input_bias = take(), w.hidden_bias = take();
    if (has_projections_) w.projection = take();
    return w;
  }

 private:
  Value take() { return list_[next_++]; }
  const Values& list_;
  bool has_biases_, has_projections_;
  std::size_t next_ = 0;
};

Value linear(Rewriter& r, const Value& x, const Value& weight, const Value& bias) {
  return r.call("aten.linear.default", {x, weight, bias});
}
Value sigmoid(Rewriter& r, const Value& x) { return r.call("aten.sigmoid.default", {x}); }
Value tanh(Rewriter& r, const Value& x) { return r.call("aten.tanh.default", {x}); }

/// All layers, `run` doing one direction of one: (gates, index of layer and direction, weights, whether backwards) to
/// the states of every step. Gives the output of the last layer.
template <class Run>
Value layers(Rewriter& r, bool has_projections, const Run& run) {
  Value x = r["input"];
  bool batch_first = r.flag("batch_first");
  auto exchanged = [&](const Value& v) { return Value(r.call("aten.transpose.int", {v, 0, 1})); };
  if (batch_first) x = exchanged(x);
  Parameters parameters(r, has_projections);
  int directions = r.flag("bidirectional") ? 2 : 1;
  for (std::int64_t layer = 0; layer < r.number("num_layers"); ++layer) {
    Values both;
    for (int d = 0; d < directions; ++d) {
      Weights w = parameters.next();
      both.push_back(run(linear(r, x, w.input, w.input_bias), layer * directions + d, w, d == 1));
    }
    x = directions == 2 ? Value(r.call("aten.cat.default", {both, 2})) : both[0];
    if (r.flag("train") && r.real("dropout") > 0 && layer + 1 < r.number("num_layers"))
      x = r.call("aten.dropout.default", {x, r.real("dropout"), true});
  }
  return batch_first ? exchanged(x) : x;
}

Value state(Rewriter& r, const Value& all, std::int64_t index) { return r.call("aten.select.int", {all, 0, index}); }
Value stacked(Rewriter& r, Values states) { return r.call("aten.stack.default", {std::move(states), 0}); }

Value lstm(Rewriter& r) {
  const Values& first = r["hx"].as_list();
  const bool projected = r.meta(first[0]).sizes[2] != r.meta(first[1]).sizes[2];
  Values hidden, cell;
  Value output = layers(r, projected, [&](const Value& gates, std::int64_t index, const Weights& w, bool reverse) {
    fx::Node* made = r.call("coil.lstm_layer.default", {gates, state(r, first[0], index), state(r, first[1], index),
                                                        w.hidden, w.hidden_bias, w.projection, reverse});
    hidden.push_back(r.item(made, 1));
    cell.push_back(r.item(made, 2));
    return r.item(made, 0);
  });
  return Values{output, stacked(r, hidden), stacked(r, cell)};
}

Decomposition network(std::string_view mode) {
  return [mode](Rewriter& r) -> Value {
    const Value& first = r["hx"];
    Values hidden;
    Value output = layers(r, false, [&](const Value& gates, std::int64_t index, const Weights& w, bool reverse) {
      fx::Node* made = r.call("coil.recurrent_layer.default",
                              {gates, state(r, first, index), w.hidden, w.hidden_bias, std::string(mode), reverse});
      hidden.push_back(r.item(made, 1));
      return r.item(made, 0);
    });
    return Values{output, stacked(r, hidden)};
  };
}

/// Part `i` of the gates, which lie side by side in the last dimension.
Value gate(Rewriter& r, const Value& gates, std::int64_t i, Expr width) {
  return r.slice(gates, 1, width * i, width * (i + 1));
}

Value input_gates(Rewriter& r) { return linear(r, r["input"], r["w_ih"], r.optional("b_ih")); }

Value lstm_cell(Rewriter& r) {
  const Values& first = r["hx"].as_list();
  Value gates = r.add(input_gates(r), linear(r, first[0], r["w_hh"], r.optional("b_hh")));
  Expr n = r.meta(first[1]).sizes[1];
  Value cell = r.add(r.mul(sigmoid(r, gate(r, gates, 1, n)), first[1]),
                     r.mul(sigmoid(r, gate(r, gates, 0, n)), tanh(r, gate(r, gates, 2, n))));
  return Values{r.mul(sigmoid(r, gate(r, gates, 3, n)), tanh(r, cell)), cell};
}

Value gru_cell(Rewriter& r) {
  const Value& h = r["hx"];
  Value x = input_gates(r), s = linear(r, h, r["w_hh"], r.optional("b_hh"));
  Expr n = r.meta(h).sizes[1];
  Value reset = sigmoid(r, r.add(gate(r, x, 0, n), gate(r, s, 0, n))),
        keep = sigmoid(r, r.add(gate(r, x, 1, n), gate(r, s, 1, n)));
  Value fresh = tanh(r, r.add(gate(r, x, 2, n), r.mul(gate(r, s, 2, n), reset)));
  return r.add(r.mul(r.sub(h, fresh), keep), fresh);
}

Decomposition plain_cell(std::string_view activation) {
  return [activation](Rewriter& r) -> Value {
    return r.call(activation, {r.add(input_gates(r), linear(r, r["hx"], r["w_hh"], r.optional("b_hh")))});
  };
}

}  // namespace

void decompose_recurrent(DecompositionTable& t) {
  t["aten.lstm.input"] = lstm;
  t["aten.gru.input"] = network("gru");
  t["aten.rnn_tanh.input"] = network("tanh");
  t["aten.rnn_relu.input"] = network("relu");
  t["aten.lstm_cell.default"] = lstm_cell;
  t["aten.gru_cell.default"] = gru_cell;
  t["aten.rnn_tanh_cell.default"] = plain_cell("aten.tanh.default");
  t["aten.rnn_relu_cell.default"] = plain_cell("aten.relu.default");
}

}  // namespace coil::passes
