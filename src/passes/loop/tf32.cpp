#include "passes/loop/tf32.h"

namespace coil {

bool is_tf32_choice(std::string_view choice) {
  return choice == "none" || choice == "products" || choice == "convolutions" || choice == "all";
}

void allow_tf32(ir::Graph& graph, std::string_view choice) {
  const bool products = choice == "products" || choice == "all",
             convolutions = choice == "convolutions" || choice == "all";
  if (!products && !convolutions) return;
  bool changed = false;
  std::vector<ir::Operation> operations(graph.operations().begin(), graph.operations().end());
  for (ir::Operation& op : operations) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call) continue;
    const bool product = call->op == "linear" || call->op == "matmul",
               convolution = call->op == "convolution" || call->op == "convolution_weights";
    if (!(product && products) && !(convolution && convolutions)) continue;
    if (call->inputs.at(0).dtype != DType::F32) continue;
    call->attributes["tf32"] = std::int64_t{1};
    changed = true;
  }
  if (changed) graph.replace_operations(std::move(operations));
}

}  // namespace coil
