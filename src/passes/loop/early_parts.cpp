#include "passes/loop/early_parts.h"

#include <algorithm>

#include "passes/loop/part_writes.h"

namespace coil::ir {
namespace {

constexpr std::size_t kMostLoops = 512;  // that one part may move over, since the work grows with its square

class EarlyParts {
 public:
  explicit EarlyParts(Graph& graph)
      : graph_(graph), list_(graph.operations().begin(), graph.operations().end()), blocks_(blocks(graph)) {}

  void run() {
    bool moved = false;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const std::size_t to = place_of(i);
      if (to == i) continue;
      const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(to),
                 part = list_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(begin, part, part + 1);
      moved = true;
    }
    if (moved) graph_.replace_operations(std::move(list_));
  }

 private:
  static bool is_loop(const Operation& op) {
    return std::holds_alternative<Pointwise>(op.node) || std::holds_alternative<Reduction>(op.node);
  }

  bool is_part(const Operation& op) const {
    const auto* loop = std::get_if<Pointwise>(&op.node);
    return loop && !op.store_index.empty() && loop->body->has_loads && !may_fail(loop->body) &&
           graph_.buffer(op.outs[0]).kind == BufferKind::Computed;
  }

  /// The earliest place in the list for an operation that writes a part: right after the loop that makes the last of
  /// its operands. Its present place if it cannot move.
  std::size_t place_of(std::size_t i) {
    const Operation& op = list_[i];
    if (!is_part(op) || !runtime_symbols(graph_, op).empty()) return i;
    const std::vector<BufferId> operands = reads(op);
    for (std::size_t k = i; k-- > 0 && i - k <= kMostLoops;) {
      const Operation& before = list_[k];
      if (!is_loop(before) || blocks_[before.id] != blocks_[op.id]) return i;
      const auto makes = [&](BufferId b) { return std::ranges::find(operands, b) != operands.end(); };
      if (std::ranges::any_of(before.outs, makes)) return k + 1;
      const std::vector<BufferId> read = reads(before);
      if (std::ranges::find(read, op.outs[0]) != read.end()) return i;
      if (before.outs[0] == op.outs[0] && (before.store_index.empty() || !stores_apart(graph_, op, before))) return i;
    }
    return i;
  }

  Graph& graph_;
  std::vector<Operation> list_;
  const std::vector<std::size_t> blocks_;  ///< of each operation, by its id before anything moved
};

}  // namespace

void store_parts_early(Graph& graph) { EarlyParts(graph).run(); }

}  // namespace coil::ir
