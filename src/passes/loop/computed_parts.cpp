#include "passes/loop/computed_parts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/tensor_box.h"
#include "passes/loop/buffer_uses.h"
#include "passes/loop/part_writes.h"

namespace coil::ir {
namespace {

constexpr std::size_t kMostParts = 8;
constexpr std::uint32_t kMostOperations = 64;  // of what is computed for an element of a part

class ComputedParts {
 public:
  explicit ComputedParts(Graph& graph)
      : graph_(graph),
        list_(graph.operations().begin(), graph.operations().end()),
        blocks_(blocks(graph)),
        uses_(graph, list_) {}

  void run() {
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (const auto whole = joined(i)) move_into_parts(i, *whole);
    if (dead_.empty()) return;
    std::vector<Operation> left;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (!dead_.contains(i)) left.push_back(std::move(list_[i]));
    graph_.replace_operations(std::move(left));
  }

 private:
  /// Whether a buffer is returned or written to.
  bool is_kept(BufferId b) const {
    return graph_.buffer(b).is_output || uses_.returned.contains(b) || graph_.mutated.contains(b);
  }

  bool is_loop_in_block_of(std::size_t at, std::size_t other) const {
    return std::holds_alternative<Pointwise>(list_[at].node) && blocks_[list_[at].id] == blocks_[list_[other].id] &&
           runtime_symbols(graph_, list_[at]).empty();
  }

  /// Whether a part is more than a copy of what no loop made, and small enough to take more in.
  bool takes_more(std::size_t at, Scalar reader) const {
    const Scalar body = std::get<Pointwise>(list_[at].node).body;
    if (may_fail(body) && may_fail(reader)) return false;
    if (body->ops + reader->ops > kMostOperations) return false;
    return !is_load(body) || is_callers(graph_.buffer(body->buffer)) || is_made_by_loop(body->buffer);
  }

  bool is_made_by_loop(BufferId b) const {
    const auto found = uses_.writers.find(b);
    return found != uses_.writers.end() &&
           std::ranges::all_of(found->second, [&](std::size_t w) { return list_[w].is_loop(); });
  }

  bool stores_part(std::size_t at, std::size_t rank) const {
    const Exprs& index = list_[at].store_index;
    return index.size() == rank && list_[at].sizes().size() == rank;
  }

  /// The buffer that a loop reads at each of its points, if it is one that can be left out.
  std::optional<BufferId> joined(std::size_t at) {
    const auto* loop = std::get_if<Pointwise>(&list_[at].node);
    if (!loop || list_[at].outs.size() != 1 || !runtime_symbols(graph_, list_[at]).empty()) return std::nullopt;
    std::optional<BufferId> found;
    for (Scalar l : loads(loop->body)) {
      if (is_callers(graph_.buffer(l->buffer)) && !uses_.writers.contains(l->buffer) && !is_kept(l->buffer)) continue;
      if ((found && *found != l->buffer) || !is_whole(l, *loop)) return std::nullopt;
      found = l->buffer;
    }
    return found && may_be_stored_early(at) && can_go(*found, at) ? found : std::nullopt;
  }

  /// Whether nothing that comes before a loop looks at what the loop stores to: no input or state that receives it, no
  /// buffer that turns of a loop of the program hand on.
  bool may_be_stored_early(std::size_t at) {
    const BufferId to = list_[at].outs[0];
    if (graph_.buffer(to).kind != BufferKind::Computed || graph_.mutated.contains(to)) return false;
    const auto comes_later = [&](std::size_t reader) { return reader > at; };
    const auto is_apart = [&](std::size_t writer) {
      return writer >= at || (!list_[writer].store_index.empty() && !list_[at].store_index.empty() &&
                              stores_apart(graph_, list_[writer], list_[at]));
    };
    const auto readers = uses_.readers.find(to);
    return (readers == uses_.readers.end() || std::ranges::all_of(readers->second, comes_later)) &&
           std::ranges::all_of(uses_.writers.at(to), is_apart);
  }

  /// Whether a load reads of its buffer what lies at the point of the loop.
  bool is_whole(Scalar load, const Pointwise& loop) const {
    const Layout& layout = graph_.buffer(load->buffer).layout;
    return load->op == ScalarOp::Load && !load->mask && load->args.empty() &&
           load->index == graph_.ivars(layout.sizes.size()) && loop.sizes == layout.sizes;
  }

  bool can_go(BufferId b, std::size_t reader) const {
    const Buffer& whole = graph_.buffer(b);
    const Layout& result = graph_.buffer(list_[reader].outs[0]).layout;
    if (whole.kind != BufferKind::Computed || whole.layout.comm || is_kept(b) || uses_.readers.at(b).size() != 1 ||
        size_of(result.dtype) > size_of(whole.layout.dtype) || result.device != whole.layout.device)
      return false;
    const auto found = uses_.writers.find(b);
    if (found == uses_.writers.end()) return false;
    const std::vector<std::size_t>& parts = found->second;
    if (parts.size() < 2 || parts.size() > kMostParts) return false;
    const Scalar body = std::get<Pointwise>(list_[reader].node).body;
    return std::ranges::all_of(parts, [&](std::size_t p) {
      return is_loop_in_block_of(p, reader) && stores_part(p, whole.layout.sizes.size()) && takes_more(p, body);
    });
  }

  void move_into_parts(std::size_t at, BufferId whole) {
    const Operation& reader = list_[at];
    const auto& loop = std::get<Pointwise>(reader.node);
    const Exprs vars = graph_.ivars(loop.sizes.size());
    const Exprs& store = reader.store_index.empty() ? vars : reader.store_index;
    const DType stored = graph_.buffer(whole).layout.dtype;
    for (std::size_t p : uses_.writers[whole]) {
      Operation& part = list_[p];
      auto& made = std::get<Pointwise>(part.node);
      const auto bounds = loop_vars(graph_, made.sizes);
      const auto simplify = [&](Expr e) { return graph_.env().simplify(e, bounds); };
      const Scalar value = graph_.pool().cast(made.body, stored);
      const Scalar shifted = graph_.pool().substitute(loop.body, vars, part.store_index, simplify);
      made.body = graph_.pool().replace_loads(
          shifted, [&](Scalar load) -> Scalar { return load->buffer == whole ? value : nullptr; });
      const Exprs at_part = part.store_index;
      part.store_index = store;
      for (Expr& e : part.store_index) e = simplify(sym::substitute(e, vars, at_part));
      part.outs = reader.outs;
      part.origins.insert(reader.origins.begin(), reader.origins.end());
    }
    std::vector<std::size_t>& writers = uses_.writers[reader.outs[0]];
    std::erase(writers, at);
    writers.insert(writers.end(), uses_.writers[whole].begin(), uses_.writers[whole].end());
    dead_.insert(at);
  }

  Graph& graph_;
  std::vector<Operation> list_;
  const std::vector<std::size_t> blocks_;  ///< of each operation, by its id before anything moved
  BufferUses uses_;
  std::set<std::size_t> dead_;
};

}  // namespace

void compute_in_parts(Graph& graph) { ComputedParts(graph).run(); }

}  // namespace coil::ir
