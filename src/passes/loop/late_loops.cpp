#include "passes/loop/late_loops.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

namespace coil::ir {
namespace {

class LateLoops {
 public:
  explicit LateLoops(Graph& graph)
      : graph_(graph),
        blocks_(blocks(graph)),
        last_call_(graph.operations().size()),
        places_(graph.operations().size()),
        order_(graph.operations().size()) {
    std::iota(order_.begin(), order_.end(), 0);
    places_ = order_;
    for (const Operation& op : graph.operations())
      for (BufferId b : op.outs) writers_[b].push_back(op.id);
    for (const Operation& op : graph.operations()) last_call_[op.id] = last_call_before(op);
  }

  void run() {
    // From the end on, so that readers have the places that they come to have.
    for (std::size_t i = order_.size(); i-- > 0;) {
      const Operation& op = graph_.operations()[i];
      if (const auto reader = first_reader(op); reader && may_move(op) && waits_for_later(*reader, i))
        places_[i] = places_[*reader];
      for (BufferId b : reads(op)) readers_[b].push_back(i);
    }
    std::ranges::sort(order_, {}, [&](std::size_t i) { return place_of(i); });
    if (!std::ranges::is_sorted(order_)) reorder();
  }

 private:
  /// What has moved in front of an operation keeps the order that it had.
  std::pair<std::size_t, std::size_t> place_of(std::size_t i) const { return {places_[i], i}; }

  std::span<const std::size_t> writers_of(BufferId b) const {
    const auto found = writers_.find(b);
    return found == writers_.end() ? std::span<const std::size_t>() : found->second;
  }

  /// One more than the place of the last operation that is no loop and that this one waits for; 0: of none.
  std::size_t last_call_before(const Operation& op) const {
    std::size_t last = 0;
    for (BufferId b : reads(op))
      for (std::size_t w : writers_of(b))
        if (w < op.id) last = std::max(last, graph_.operations()[w].is_loop() ? last_call_[w] : w + 1);
    return last;
  }

  std::optional<std::size_t> first_reader(const Operation& op) const {
    const auto* loop = std::get_if<Pointwise>(&op.node);
    if (!loop || !op.store_index.empty() || writers_of(op.outs[0]).size() != 1) return std::nullopt;
    const auto found = readers_.find(op.outs[0]);
    if (found == readers_.end()) return std::nullopt;
    const std::size_t first = std::ranges::min(found->second, {}, [&](std::size_t i) { return place_of(i); });
    return graph_.operations()[first].is_loop() && blocks_[first] == blocks_[op.id] ? std::optional(first)
                                                                                    : std::nullopt;
  }

  bool may_move(const Operation& op) const {
    const auto is_settled = [&](BufferId b) {
      const std::size_t writers = writers_of(b).size();
      return writers == 0 || (writers == 1 && graph_.buffer(b).kind == BufferKind::Computed);
    };
    return graph_.buffer(op.outs[0]).kind == BufferKind::Computed && !may_fail(std::get<Pointwise>(op.node).body) &&
           runtime_symbols(graph_, op).empty() && std::ranges::all_of(reads(op), is_settled);
  }

  bool waits_for_later(std::size_t reader, std::size_t i) const {
    return places_[reader] != reader || last_call_[reader] > i + 1;
  }

  void reorder() {
    std::vector<Operation> list;
    for (std::size_t i : order_) list.push_back(graph_.operations()[i]);
    graph_.replace_operations(std::move(list));
  }

  Graph& graph_;
  const std::vector<std::size_t> blocks_;
  std::vector<std::size_t> last_call_, places_, order_;  ///< of each operation, by its id before anything moved
  std::unordered_map<BufferId, std::vector<std::size_t>> writers_, readers_;
};

}  // namespace

void delay_loops(Graph& graph) { LateLoops(graph).run(); }

}  // namespace coil::ir
