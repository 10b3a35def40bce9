// One direction of a layer of a recurrent network: the library call `recurrent`.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

Lowered layer(Context& ctx, const Values&) {
  const fx::Node& node = *ctx.node;
  const bool lstm = node.target == "coil.lstm_layer.default";
  std::vector<BufferView> inputs;
  auto add = [&](std::string_view name) {
    auto box = ctx.optional_tensor(node.arg(name));
    if (box) inputs.push_back(library_operand(*box));
    return std::int64_t{box.has_value()};
  };
  add("gates");
  add("hidden");
  if (lstm) add("cell");
  add("weight");
  const std::int64_t has_bias = add("bias"), has_projection = lstm ? add("projection") : 0;
  std::vector<TensorBox> boxes;
  std::vector<BufferView> outputs;
  for (std::size_t i = 0; i < (lstm ? 3u : 2u); ++i) {
    auto [box, view] = library_result(ctx, ctx.result(i).dtype, ctx.result(i).sizes);
    boxes.push_back(box);
    outputs.push_back(view);
  }
  add_library_call(ctx, "recurrent",
                   {{"mode", lstm ? std::string("lstm") : node.arg("mode").as_string()},
                    {"reverse", std::int64_t{node.arg("reverse").as_bool()}},
                    {"has_bias", has_bias},
                    {"has_projection", has_projection}},
                   std::move(inputs), std::move(outputs));
  return boxes;
}

}  // namespace

void add_recurrent(Table& t) { t["coil.lstm_layer.default"] = t["coil.recurrent_layer.default"] = layer; }

}  // namespace coil::lowering
