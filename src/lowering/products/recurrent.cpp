// One direction of a layer of a recurrent network, and its gradients: the library calls `recurrent`,
// `recurrent_training` and `recurrent_backward`.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// A library call on those of a node's arguments that are given, in this order. Gives which were.
class LayerCall {
 public:
  explicit LayerCall(Context& ctx) : ctx_(ctx) {}

  std::int64_t add(std::string_view name) {
    auto box = ctx_.optional_tensor(ctx_.node->arg(name));
    if (box) inputs_.push_back(library_operand(*box));
    return std::int64_t{box.has_value()};
  }

  std::vector<TensorBox> finish(const std::string& op, library_ops::Attributes attributes) {
    std::vector<TensorBox> boxes;
    std::vector<BufferView> outputs;
    for (std::size_t i = 0; i < ctx_.node->meta.value.as_list().size(); ++i) {
      auto [box, view] = library_result(ctx_, ctx_.result(i).dtype, ctx_.result(i).sizes);
      boxes.push_back(box);
      outputs.push_back(view);
    }
    add_library_call(ctx_, op, std::move(attributes), std::move(inputs_), std::move(outputs));
    return boxes;
  }

 private:
  Context& ctx_;
  std::vector<BufferView> inputs_;
};

std::int64_t is_reversed(const Context& ctx) { return std::int64_t{ctx.node->arg("reverse").as_bool()}; }

std::vector<TensorBox> layer_call(Context& ctx, const std::string& mode, const std::string& op, const char* direction) {
  const bool lstm = mode == "lstm";
  LayerCall call(ctx);
  call.add("gates");
  call.add("hidden");
  if (lstm) call.add("cell");
  call.add("weight");
  const std::int64_t has_bias = call.add("bias"), has_projection = lstm ? call.add("projection") : 0;
  return call.finish(
      op, {{"mode", mode}, {direction, is_reversed(ctx)}, {"has_bias", has_bias}, {"has_projection", has_projection}});
}

Lowered layer(Context& ctx, const Values&) {
  const bool lstm = ctx.node->target == "coil.lstm_layer.default";
  return layer_call(ctx, lstm ? "lstm" : ctx.node->arg("mode").as_string(), "recurrent", "reverse");
}

Lowered training(Context& ctx, const Values&) {
  const bool lstm = ctx.node->target == "coil.lstm_training.default";
  return layer_call(ctx, lstm ? "lstm" : "gru", "recurrent_training", "from_end");
}

Lowered backward(Context& ctx, const Values&) {
  const bool lstm = ctx.node->target == "coil.lstm_backward.default";
  const bool gru = ctx.node->target == "coil.gru_backward.default";
  LayerCall call(ctx);
  call.add("grads");
  call.add("grad_hidden");
  if (lstm) call.add("grad_cell");
  call.add(lstm || gru ? "saved" : "sequence");
  if (lstm) call.add("cells");
  call.add("weight");
  const std::int64_t has_projection = lstm ? call.add("projection") : 0;
  if (lstm || gru) call.add("previous");
  return call.finish("recurrent_backward", {{"mode", lstm  ? std::string("lstm")
                                                     : gru ? std::string("gru")
                                                           : ctx.node->arg("mode").as_string()},
                                            {"from_end", 1 - is_reversed(ctx)},
                                            {"has_projection", has_projection}});
}

}  // namespace

void add_recurrent(Table& t) {
  t["coil.lstm_layer.default"] = t["coil.recurrent_layer.default"] = layer;
  t["coil.lstm_training.default"] = t["coil.gru_training.default"] = training;
  t["coil.lstm_backward.default"] = t["coil.gru_backward.default"] = t["coil.plain_backward.default"] = backward;
}

}  // namespace coil::lowering
