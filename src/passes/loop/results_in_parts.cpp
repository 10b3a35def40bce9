#include "passes/loop/results_in_parts.h"

#include <algorithm>

#include "library_ops/table.h"
#include "passes/loop/part_writes.h"

namespace coil::ir {
namespace {

class ResultsInParts {
 public:
  explicit ResultsInParts(Graph& graph) : graph_(graph), list_(graph.operations().begin(), graph.operations().end()) {
    const std::size_t count = graph.buffers().size();
    readers_.resize(count), writers_.resize(count), lives_on_.resize(count, false), is_stored_.resize(count, false);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const bool call = !list_[i].is_loop();
      for (BufferId b : reads(list_[i])) readers_[b].push_back(i), is_stored_[b] = is_stored_[b] || call;
      for (BufferId b : list_[i].outs) writers_[b].push_back(i), is_stored_[b] = is_stored_[b] || call;
    }
    for (const GraphOutput& out : graph.outputs)
      if (auto* view = std::get_if<BufferView>(&out.value)) lives_on_[view->buffer] = is_stored_[view->buffer] = true;
  }

  void run() {
    if (std::ranges::any_of(list_, [](const Operation& op) { return std::holds_alternative<Control>(op.node); }))
      return;
    std::vector<bool> gone(list_.size(), false);
    for (std::size_t part = 0; part < list_.size(); ++part) {
      const std::optional<Place> place = place_of(part);
      if (!place || !orders_stay(place->call, part) || !memory_allows(place->call, part)) continue;
      take(*place, part);
      gone[part] = true;
    }
    if (std::ranges::none_of(gone, [](bool g) { return g; })) return;
    std::vector<Operation> made;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (!gone[i]) made.push_back(std::move(list_[i]));
    graph_.replace_operations(std::move(made));
  }

 private:
  /// What computes a part, and where it would.
  struct Place {
    std::size_t call;
    BufferView view;
  };

  Expr simplified(Expr e) const { return graph_.env().simplify(e); }

  /// Where the product whose result loop `part` copies would write; nothing where it does not, or cannot.
  std::optional<Place> place_of(std::size_t part) const {
    const Operation& op = list_[part];
    const auto* loop = std::get_if<Pointwise>(&op.node);
    if (!loop || op.store_index.empty()) return std::nullopt;
    const Scalar load = loop->body;
    if ((load->op != ScalarOp::Load && load->op != ScalarOp::LinearLoad) || !load->args.empty() || load->mask)
      return std::nullopt;
    const BufferId from = load->buffer, to = op.outs[0];
    const Layout &given = graph_.buffer(from).layout, &whole = graph_.buffer(to).layout;
    if (graph_.buffer(from).kind != BufferKind::Computed || graph_.buffer(to).kind != BufferKind::Computed ||
        lives_on_[from] || given.comm || whole.comm || given.dtype != whole.dtype ||
        readers_[from] != std::vector{part} || writers_[from].size() != 1)
      return std::nullopt;
    const std::size_t call = writers_[from][0];
    const auto* product = std::get_if<Extern>(&list_[call].node);
    if (!product || list_[call].outs.size() != 1 || !library_ops::has(product->op, library_ops::Trait::Product))
      return std::nullopt;
    const BufferView& result = product->outputs[0];
    if (result.dtype != given.dtype || !result.offset.is_constant(0)) return std::nullopt;
    const Expr read = load->op == ScalarOp::Load ? linear_index(given, load->index) : load->index[0];
    auto view = moved(result, loop->sizes, read, linear_index(whole, op.store_index));
    if (!view) return std::nullopt;
    view->buffer = to;
    return Place{call, std::move(*view)};
  }

  /// The view whose elements, by the loop, are moved from `read` to `stored`: one dimension of the loop for each of the
  /// view's.
  std::optional<BufferView> moved(const BufferView& result, const Exprs& sizes, Expr read, Expr stored) const {
    BufferView out = result;
    std::vector<bool> found(result.sizes.size(), false);
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const Expr variable = graph_.ivar(d);
      const auto from = sym::linear_in(read, variable), to = sym::linear_in(stored, variable);
      if (!from || !to) return std::nullopt;
      read = from->rest, stored = to->rest;
      if (sizes[d].is_constant(1)) continue;
      std::size_t k = 0;
      const auto is_this = [&] {
        return !found[k] && result.sizes[k] == sizes[d] &&
               simplified(result.strides[k] - from->coefficient).is_constant(0);
      };
      while (k < found.size() && !is_this()) ++k;
      if (k == found.size()) return std::nullopt;
      found[k] = true;
      out.strides[k] = simplified(to->coefficient);
    }
    for (std::size_t k = 0; k < found.size(); ++k)
      if (!found[k] && !result.sizes[k].is_constant(1)) return std::nullopt;
    if (!simplified(read).is_constant(0) || sym::has_symbol_of(stored, sym::SymbolKind::Loop)) return std::nullopt;
    out.offset = simplified(stored);
    return has_even_rows(out) ? std::optional(out) : std::nullopt;
  }

  /// Rows of neighbours, all at one distance.
  bool has_even_rows(BufferView& v) const {
    const std::size_t rank = v.sizes.size();
    if (rank < 2 || !v.strides.back().is_constant(1)) return false;
    Expr next = v.strides[rank - 2];
    for (std::size_t k = rank - 2; k-- > 0;) {
      next = simplified(next * v.sizes[k + 1]);
      if (v.sizes[k].is_constant(1))
        v.strides[k] = next;
      else if (!simplified(v.strides[k] - next).is_constant(0))
        return false;
    }
    return true;
  }

  /// Whether nothing reads the larger buffer, or writes the same part of it, from the call to the copy; and the other
  /// parts that are stored behind the call come from memory, or are made behind it too.
  bool orders_stay(std::size_t call, std::size_t part) const {
    const BufferId to = list_[part].outs[0];
    if (std::ranges::any_of(readers_[to], [&](std::size_t r) { return r < part; })) return false;
    return std::ranges::all_of(writers_[to], [&](std::size_t w) {
      if (w == part || w < call) return true;
      const Operation& other = list_[w];
      if (!std::holds_alternative<Pointwise>(other.node) || other.store_index.empty() ||
          !stores_apart(graph_, list_[part], other))
        return false;
      return std::ranges::all_of(reads(other), [&](BufferId b) {
        return graph_.buffer(b).kind != BufferKind::Computed || is_stored_[b] ||
               std::ranges::all_of(writers_[b], [&](std::size_t made) { return made > call; });
      });
    });
  }

  std::int64_t bytes(BufferId b) const {
    constexpr std::int64_t kUnknown = 1 << 16;
    const Layout& l = graph_.buffer(b).layout;
    return std::max<std::int64_t>(0, graph_.env().hint_or(sym::product(l.sizes), kUnknown)) *
           static_cast<std::int64_t>(size_of(l.dtype));
  }

  /// By the values that are in memory for certain, at the program's order: at no step from the call to the copy is more
  /// live, with all of the larger buffer, than at the fullest.
  bool memory_allows(std::size_t call, std::size_t part) {
    const BufferId to = list_[part].outs[0], from = list_[call].outs[0];
    const std::size_t begin = writers_[to].front();
    if (begin <= call) return true;
    find_live();
    const std::int64_t more = bytes(to) - bytes(from);
    return std::all_of(live_.begin() + static_cast<std::ptrdiff_t>(call),
                       live_.begin() + static_cast<std::ptrdiff_t>(begin),
                       [&](std::int64_t live) { return live + more <= fullest_; });
  }

  void find_live() {
    if (!live_.empty()) return;
    std::vector<std::int64_t> change(list_.size() + 1, 0);
    for (BufferId b = 0; b < writers_.size(); ++b) {
      if (graph_.buffer(b).kind != BufferKind::Computed || !is_stored_[b] || writers_[b].empty()) continue;
      std::size_t last = lives_on_[b] ? list_.size() - 1 : writers_[b].back();
      if (!readers_[b].empty()) last = std::max(last, readers_[b].back());
      change[writers_[b].front()] += bytes(b);
      change[last + 1] -= bytes(b);
    }
    std::int64_t now = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) live_.push_back(now += change[i]);
    fullest_ = std::ranges::max(live_);
  }

  void take(const Place& place, std::size_t part) {
    Operation& op = list_[place.call];
    auto& call = std::get<Extern>(op.node);
    const BufferId from = op.outs[0], to = place.view.buffer;
    call.outputs[0] = place.view;
    op.outs = {to};
    op.origins.insert(list_[part].origins.begin(), list_[part].origins.end());
    writers_[from].clear(), readers_[from].clear();
    std::vector<std::size_t>& writers = writers_[to];
    std::erase(writers, part);
    writers.insert(std::ranges::lower_bound(writers, place.call), place.call);
    is_stored_[to] = true;
    live_.clear();
  }

  Graph& graph_;
  std::vector<Operation> list_;
  std::vector<std::vector<std::size_t>> readers_, writers_;  ///< by buffer
  std::vector<bool> lives_on_;                               ///< is a result
  std::vector<bool> is_stored_;                              ///< library calls read or write it, or it is a result
  std::vector<std::int64_t> live_;                           ///< bytes at each operation
  std::int64_t fullest_ = 0;
};

}  // namespace

void write_results_in_parts(Graph& graph) { ResultsInParts(graph).run(); }

}  // namespace coil::ir
