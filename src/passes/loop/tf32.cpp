#include "passes/loop/tf32.h"

#include "library_ops/products.h"
#include "library_ops/table.h"

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
    if (!call || ir::device_of(graph, op) != graph.target().device) continue;
    const library_ops::Descriptor& known = library_ops::get(call->op);
    if (!known.attribute(library_ops::kTf32.name)) continue;
    if (!(known.traits.has(library_ops::Trait::Product) ? products : convolutions)) continue;
    if (call->inputs.at(0).dtype != DType::F32) continue;
    changed = call->attributes.try_emplace(std::string(library_ops::kTf32.name), std::int64_t{1}).second || changed;
  }
  if (changed) graph.replace_operations(std::move(operations));
}

}  // namespace coil
