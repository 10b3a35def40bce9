#include "passes/loop/recurrent_pairs.h"

#include <algorithm>

#include "library_ops/recurrent.h"
#include "library_ops/table.h"

namespace coil {
namespace {

using Operations = std::vector<ir::Operation>;

/// A call that runs over a sequence in a direction, one layer alone.
const ir::Extern* layer_of(const ir::Operation& op) {
  const auto* call = std::get_if<ir::Extern>(&op.node);
  if (!call) return nullptr;
  const library_ops::Descriptor& known = library_ops::get(call->op);
  const bool alone = known.attribute(library_ops::recurrent::kReverse.name) &&
                     !known.attribute(library_ops::recurrent::kSecondReverse.name);
  return alone ? call : nullptr;
}

/// All that says how a layer is computed, but its direction.
library_ops::Attributes cell_of(const ir::Extern& layer) {
  library_ops::Attributes cell = layer.attributes;
  cell.erase(std::string(library_ops::recurrent::kReverse.name));
  return cell;
}

/// One of them writes what the other reads or writes.
bool depend(const ir::Operation& a, const ir::Operation& b) {
  const auto touches = [](const ir::Operation& writer, const ir::Operation& other) {
    const std::vector<ir::BufferId> read = ir::reads(other);
    return std::ranges::any_of(writer.outs, [&](ir::BufferId out) {
      return std::ranges::find(read, out) != read.end() || std::ranges::find(other.outs, out) != other.outs.end();
    });
  };
  return touches(a, b) || touches(b, a);
}

bool may_move(const ir::Operation& op) { return op.is_loop() || std::holds_alternative<ir::Extern>(op.node); }

/// The operations between two layers that depend on the first of them, to be moved behind the second, in order; nothing
/// where they cannot all be, or the second layer depends on them.
std::optional<std::vector<std::size_t>> dependents(const Operations& all, std::size_t first, std::size_t second) {
  std::vector<std::size_t> held = {first};
  for (std::size_t k = first + 1; k <= second; ++k) {
    if (std::ranges::none_of(held, [&](std::size_t h) { return depend(all[h], all[k]); })) continue;
    if (k == second || !may_move(all[k])) return std::nullopt;
    held.push_back(k);
  }
  held.erase(held.begin());
  return held;
}

/// The first operation with all that the second has behind it.
ir::Operation pair_of(ir::Operation first, const ir::Operation& second) {
  auto& call = std::get<ir::Extern>(first.node);
  const auto& other = std::get<ir::Extern>(second.node);
  call.op = library_ops::recurrent::kPairName;
  call.attributes.insert_or_assign(std::string(library_ops::recurrent::kSecondReverse.name),
                                   std::int64_t{read(other.attributes, library_ops::recurrent::kReverse)});
  call.inputs.insert(call.inputs.end(), other.inputs.begin(), other.inputs.end());
  call.outputs.insert(call.outputs.end(), other.outputs.begin(), other.outputs.end());
  first.outs.insert(first.outs.end(), second.outs.begin(), second.outs.end());
  first.origins.insert(second.origins.begin(), second.origins.end());
  first.where = second.where;
  return first;
}

/// Pairs a layer with the next one that it can be paired with, before the block ends or another begins.
void pair_from(Operations& all, std::vector<std::size_t>& blocks, std::size_t first) {
  const ir::Extern* layer = layer_of(all[first]);
  for (std::size_t second = first + 1; second < all.size(); ++second) {
    if (blocks[second] != blocks[first]) return;
    const ir::Extern* other = layer_of(all[second]);
    if (!other || cell_of(*other) != cell_of(*layer)) continue;
    const auto behind = dependents(all, first, second);
    if (!behind) return;  // nor would it be there for a later one
    Operations order, late;
    for (std::size_t k = first + 1; k < second; ++k)
      (std::ranges::find(*behind, k) != behind->end() ? late : order).push_back(std::move(all[k]));
    order.push_back(pair_of(std::move(all[first]), all[second]));
    std::ranges::move(late, std::back_inserter(order));
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(second));
    std::ranges::move(order, all.begin() + static_cast<std::ptrdiff_t>(first));
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(second));
    return;
  }
}

}  // namespace

void pair_recurrences(ir::Graph& graph) {
  std::vector<std::size_t> blocks = ir::blocks(graph);
  Operations all(graph.operations().begin(), graph.operations().end());
  const std::size_t before = all.size();
  for (std::size_t k = 0; k < all.size(); ++k)
    while (k < all.size() && layer_of(all[k])) {
      const std::size_t count = all.size();
      pair_from(all, blocks, k);
      if (all.size() == count) break;
    }
  if (all.size() != before) graph.replace_operations(std::move(all));
}

}  // namespace coil
