#include "passes/graph/known_values.h"

#include "passes/graph/known_masks.h"

namespace coil {

void compute_known_values(fx::GraphModule& module, const IsLowered& is_lowered, std::int64_t few_rows,
                          const RunModule& run) {
  const std::vector<fx::Node*> masks = known_masks(module, is_lowered);
  const std::vector<fx::Node*> constants = constants_to_fold(module, is_lowered, few_rows);
  std::vector<fx::Node*> all = masks;
  all.insert(all.end(), constants.begin(), constants.end());
  if (all.empty()) return;
  const std::vector<Tensor> values = compute(module, all, run);
  simplify_known_masks(module, masks, std::span(values).first(masks.size()));
  fold_constants(module, constants, std::span(values).subspan(masks.size()));
  module.graph.eliminate_dead_code();
}

}  // namespace coil
