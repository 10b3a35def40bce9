#include "passes/loop/nested_concatenations.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "passes/loop/buffer_uses.h"

namespace coil::ir {
namespace {

constexpr std::int64_t kVector = 16;  // bytes that are read at once

struct Part {
  Scalar body = nullptr;
  std::int64_t begin = 0, size = 0;  ///< along the dimension of the concatenation
  std::size_t at = 0;                ///< the operation that stores it, by its place in the list

  bool is_like(const Part& other) const { return body == other.body && size == other.size; }
};

struct Concatenation {
  BufferId buffer = 0;
  std::size_t dim = 0;
  std::vector<Part> parts;  ///< in order, side by side

  std::int64_t size() const { return parts.back().begin + parts.back().size; }
};

/// Where a concatenation lies in a longer one.
struct Window {
  BufferId buffer = 0;
  std::size_t dim = 0;
  std::int64_t begin = 0;
};

class Nester {
 public:
  explicit Nester(Graph& graph)
      : graph_(graph),
        list_(graph.operations().begin(), graph.operations().end()),
        blocks_(blocks(graph)),
        uses_(graph, list_) {}

  void run() {
    std::vector<Concatenation> all;
    for (const Buffer& b : graph_.buffers())
      if (auto found = concatenation(b)) all.push_back(std::move(*found));
    if (all.size() < 2) return;
    std::ranges::stable_sort(all, std::greater<>(), [](const Concatenation& c) { return c.parts.size(); });
    std::vector<Concatenation> whole;
    for (Concatenation& c : all)
      if (!nest(c, whole)) whole.push_back(std::move(c));
    if (!windows_.empty()) finish();
  }

 private:
  /// The part that an operation stores, along `dim`.
  std::optional<Part> part(std::size_t at, const Layout& layout, std::size_t dim) {
    const Operation& op = list_[at];
    const auto* loop = std::get_if<Pointwise>(&op.node);
    const std::size_t rank = layout.sizes.size();
    if (!loop || op.store_index.size() != rank || loop->sizes.size() != rank || may_fail(loop->body) ||
        !runtime_symbols(graph_, op).empty())
      return std::nullopt;
    for (std::size_t d = 0; d < rank; ++d)
      if (d != dim && (!(op.store_index[d] == graph_.ivar(d)) || !(loop->sizes[d] == layout.sizes[d])))
        return std::nullopt;
    const auto begin = (op.store_index[dim] - graph_.ivar(dim)).constant(), size = loop->sizes[dim].constant();
    if (!begin || !size) return std::nullopt;
    return Part{loop->body, *begin, *size, at};
  }

  std::optional<Concatenation> concatenation(const Buffer& b) {
    const auto writers = uses_.writers.find(b.id);
    if (b.kind != BufferKind::Computed || b.layout.comm || writers == uses_.writers.end() || writers->second.size() < 2)
      return std::nullopt;
    for (std::size_t dim = 0; dim < b.layout.sizes.size(); ++dim) {
      Concatenation made{b.id, dim, {}};
      for (std::size_t at : writers->second)
        if (const auto p = part(at, b.layout, dim)) made.parts.push_back(*p);
      std::ranges::stable_sort(made.parts, {}, &Part::begin);
      if (made.parts.size() == writers->second.size() && is_whole(made, b.layout)) return made;
    }
    return std::nullopt;
  }

  bool is_whole(const Concatenation& made, const Layout& layout) const {
    std::int64_t end = 0;
    for (const Part& p : made.parts) {
      if (p.begin != end || blocks_[list_[p.at].id] != blocks_[list_[made.parts[0].at].id]) return false;
      end += p.size;
    }
    return layout.sizes[made.dim].is_constant(end);
  }

  /// Into the longest of those that have all of its parts.
  bool nest(const Concatenation& c, std::vector<Concatenation>& whole) {
    if (!is_read_by_loops(c.buffer)) return false;
    Concatenation* best = nullptr;
    std::size_t place = 0;
    for (Concatenation& other : whole) {
      if (best && other.size() <= best->size()) continue;
      const auto found =
          std::ranges::search(other.parts, c.parts, [](const Part& a, const Part& b) { return a.is_like(b); }).begin();
      if (found == other.parts.end()) continue;
      const auto k = static_cast<std::size_t>(found - other.parts.begin());
      if (suits(c, other, k)) best = &other, place = k;
    }
    if (best) put_into(c, *best, place);
    return best != nullptr;
  }

  /// Whether only loads of single elements read it: a window has no place for what a library or the caller is handed.
  bool is_read_by_loops(BufferId b) const {
    const auto readers = uses_.readers.find(b);
    if (graph_.buffer(b).is_output || uses_.returned.contains(b) || readers == uses_.readers.end()) return false;
    return std::ranges::all_of(readers->second, [&](std::size_t at) {
      const Operation& op = list_[at];
      if (!std::holds_alternative<Pointwise>(op.node) && !std::holds_alternative<Reduction>(op.node)) return false;
      return std::ranges::all_of(loads(op.body()),
                                 [&](Scalar load) { return load->buffer != b || load->op == ScalarOp::Load; });
    });
  }

  bool suits(const Concatenation& c, const Concatenation& whole, std::size_t place) const {
    const Layout &own = graph_.buffer(c.buffer).layout, &other = graph_.buffer(whole.buffer).layout;
    if (own.dtype != other.dtype || !(own.device == other.device) || c.dim != whole.dim ||
        blocks_[list_[c.parts[0].at].id] != blocks_[list_[whole.parts[0].at].id] || !lies_alike(own, other))
      return false;
    for (std::size_t d = 0; d < own.sizes.size(); ++d)
      if (d != c.dim && !(own.sizes[d] == other.sizes[d])) return false;
    const auto address = [&](std::int64_t n) {
      return std::gcd(n * static_cast<std::int64_t>(size_of(own.dtype)), kVector);
    };
    if (std::min(address(whole.size()), address(whole.parts[place].begin)) < address(c.size())) return false;
    for (std::size_t k = 0; k < c.parts.size(); ++k)
      if (!means_the_same(c.parts[k], whole.parts[place + k])) return false;
    return true;
  }

  /// Dimensions in the same order, from the outermost.
  bool lies_alike(const Layout& a, const Layout& b) const {
    const auto order = [&](const Layout& l) {
      std::vector<std::size_t> dims;
      for (std::size_t d = 0; d < l.sizes.size(); ++d)
        if (!l.sizes[d].is_constant(1)) dims.push_back(d);
      std::ranges::stable_sort(dims, std::greater<>(),
                               [&](std::size_t d) { return graph_.env().hint_or(l.strides[d], 0); });
      return dims;
    };
    return a.strides.size() == b.strides.size() && order(a) == order(b);
  }

  /// Nothing that the value is made of is written between the two places that store it.
  bool means_the_same(const Part& a, const Part& b) const {
    const auto [first, last] = std::minmax(a.at, b.at);
    return std::ranges::all_of(loads(a.body), [&](Scalar load) {
      const auto writers = uses_.writers.find(load->buffer);
      return writers == uses_.writers.end() ||
             std::ranges::none_of(writers->second, [&](std::size_t w) { return first < w && w < last; });
    });
  }

  void put_into(const Concatenation& c, Concatenation& whole, std::size_t place) {
    windows_[c.buffer] = {whole.buffer, c.dim, whole.parts[place].begin};
    for (std::size_t k = 0; k < c.parts.size(); ++k) {
      Part& kept = whole.parts[place + k];
      const auto [first, last] = std::minmax(kept.at, c.parts[k].at);
      Operation store = list_[kept.at];
      store.origins.insert(list_[c.parts[k].at].origins.begin(), list_[c.parts[k].at].origins.end());
      store.id = list_[first].id;
      list_[first] = std::move(store);
      dropped_.insert(last);
      kept.at = first;
    }
  }

  void finish() {
    std::vector<Operation> kept;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (dropped_.contains(i)) continue;
      if (auto* loop = std::get_if<Pointwise>(&list_[i].node)) loop->body = from_windows(loop->body);
      if (auto* loop = std::get_if<Reduction>(&list_[i].node)) loop->body = from_windows(loop->body);
      kept.push_back(std::move(list_[i]));
    }
    graph_.replace_operations(std::move(kept));
  }

  Scalar from_windows(Scalar body) {
    return graph_.pool().replace_loads(body, [&](Scalar load) -> Scalar {
      const auto window = windows_.find(load->buffer);
      if (window == windows_.end()) return nullptr;
      ScalarNode node = *load;
      node.buffer = window->second.buffer;
      node.index[window->second.dim] = node.index[window->second.dim] + window->second.begin;
      return graph_.pool().exactly(std::move(node));
    });
  }

  Graph& graph_;
  std::vector<Operation> list_;
  const std::vector<std::size_t> blocks_;  ///< of each operation, by its id
  const BufferUses uses_;
  std::map<BufferId, Window> windows_;
  std::set<std::size_t> dropped_;
};

}  // namespace

void nest_concatenations(Graph& graph) { Nester(graph).run(); }

}  // namespace coil::ir
