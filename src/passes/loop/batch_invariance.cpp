#include "passes/loop/batch_invariance.h"

#include "library_ops/products.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil {
namespace {

/// What multiplies matrices in a way that nothing is known of but its name: their sums may be made in an order that
/// follows from all sizes.
bool sums_in_any_order(const library_ops::Descriptor& known) {
  return known.name == library_ops::grouped_matmul::kName;
}

}  // namespace

void keep_rows_apart(ir::Graph& graph) {
  std::vector<ir::Operation> operations(graph.operations().begin(), graph.operations().end());
  for (ir::Operation& op : operations) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call) continue;
    const library_ops::Descriptor& known = library_ops::get(call->op);
    if (sums_in_any_order(known))
      throw Error(fmt::format("{} has no form whose results are the same in every batch; compile without "
                              "deterministic=batch",
                              call->op),
                  call->op, op.where);
    if (known.attribute(library_ops::kBatchInvariant.name))
      call->attributes.insert_or_assign(std::string(library_ops::kBatchInvariant.name), std::int64_t{1});
  }
  graph.replace_operations(std::move(operations));
}

}  // namespace coil
