// Scatters on machines whose threads run in any order, whose places are sorted: those whose results depend on the order
// of writes, since one thread can carry out all writes to a place then; and sums of many rows, since a thread can add
// up those for one place in registers, instead of each in memory.
#include <algorithm>
#include <bit>
#include <cmath>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

bool mentions(Scalar value, Expr variable) {
  const std::vector<Scalar> below = ir::topological({&value, 1});
  return std::any_of(below.begin(), below.end(), [&](Scalar n) {
    return std::any_of(n->index.begin(), n->index.end(), [&](Expr e) { return sym::contains(e, variable); });
  });
}

/// Whether the writes to a place give another result in another order.
bool depends_on_order(const Element& body, ir::StoreMode mode, DType stored) {
  if (mode == ir::StoreMode::Assign) return body.scalar->op != ScalarOp::Constant;
  return (mode == ir::StoreMode::Add || mode == ir::StoreMode::Prod) && is_floating(stored);
}

/// The tensor that says where an operator's sums go; null where it is none of those, or where several say it.
const fx::Node* places_of(const fx::Node& n) {
  if (n.is_call("aten.embedding_dense_backward.default")) return n.args[1].as_node();
  if (n.is_call("aten.scatter_add.default") || n.is_call("aten.index_add.default") ||
      n.is_call("aten.scatter_reduce.two"))
    return n.args[2].as_node();
  if (!n.is_call("aten.index_put.default")) return nullptr;
  const ops::Values& places = n.args[1].as_list();
  return places.size() == 1 && places[0].is<fx::Node*>() ? places[0].as_node() : nullptr;
}

/// Past operators that leave a tensor's elements what they are, in the same order or said again.
const fx::Node* without_views(const fx::Node* n) {
  constexpr std::string_view kViews[] = {"aten.view.default",      "aten.reshape.default", "aten._unsafe_view.default",
                                         "aten.unsqueeze.default", "aten.expand.default",  "aten.expand_as.default"};
  while (n->opcode == fx::Opcode::CallFunction && std::ranges::find(kViews, n->target) != std::end(kViews))
    n = n->args[0].as_node();
  return n;
}

/// Whether two tensors have the same elements, as far as it shows: views of one tensor, and rows of one matrix.
bool say_the_same(const fx::Node* a, const fx::Node* b) {
  a = without_views(a), b = without_views(b);
  if (a == b) return true;
  if (!a->is_call("aten.select.int") || !b->is_call("aten.select.int")) return false;
  return a->args[1] == b->args[1] && a->args[2] == b->args[2] &&
         say_the_same(a->args[0].as_node(), b->args[0].as_node());
}

/// Scatters of the graph to the places that `node` has, itself among them.
std::int64_t scatters_to_the_same_places(const fx::Graph& graph, const fx::Node& node) {
  const fx::Node* own = places_of(node);
  if (!own) return 1;
  const auto goes_there = [&](const fx::Node* n) {
    const fx::Node* places = places_of(*n);
    return places && say_the_same(places, own);
  };
  return std::max<std::int64_t>(1, std::ranges::count_if(graph.nodes(), goes_there));
}

/// What the loops of a scatter do. Iterations that differ in a loop that is a dimension's place never meet: such loops
/// stay as they are (`free`), or each of their points sorts by itself (`batch`) where the data that say the other
/// places depend on them. The other loops' iterations are `sorted`, flattened to one.
struct Loops {
  std::vector<std::size_t> batch, sorted, free;
};

/// The loops of a scatter as this file writes them: batch, the sorted ones as one, free.
class SortedScatter {
 public:
  SortedScatter(Context& ctx, const TensorBox& out, const Exprs& sizes, const Exprs& index,
                const std::vector<Scalar>& indirect)
      : ctx_(ctx), graph_(ctx.graph), out_(out), sizes_(sizes), index_(index), indirect_(indirect) {
    old_ = graph_.ivars(sizes.size());
    for (std::size_t d = 0; d < index.size(); ++d)
      if (std::find(old_.begin(), old_.end(), index[d]) == old_.end()) places_.push_back(d);
    sort_loops();
  }

  bool has_sorted_loops() const { return !loops_.sorted.empty(); }

  /// Whether adding up pieces of the sorted rows takes less time than adding each row to memory. A sort reads and
  /// writes its keys once for each digit; `sharing` scatters share it. What one addition, key or value takes is told in
  /// bytes that are read from memory in that time (H200, 2026-11-28).
  bool gains_in_pieces(std::int64_t sharing) {
    if (key_sizes_.size() != 1) return false;
    Expr columns = 1, count = 1;
    for (std::size_t k : loops_.free) columns = columns * sizes_[k];
    for (std::size_t d : places_) count = count * out_.sizes[d];
    const auto size = [&](Expr e) { return std::max(1.0, static_cast<double>(graph_.env().hint_or(e, 0))); };
    constexpr double kAddition = 11.1, kDigit = 63, kValue = 1.65, kSecondsOfSort = 33e-6, kBitsOfDigit = 8,
                     kWorthIt = 1.1;
    const double rate = ctx_.target().costs.memory_bytes_per_second, rows = size(key_sizes_[0]), width = size(columns),
                 places = size(count), digits = std::ceil(std::log2(places + 1) / kBitsOfDigit),
                 sort = (kSecondsOfSort + rows * digits * kDigit / rate) / static_cast<double>(sharing),
                 sums = (rows + 3 * (std::min(places, rows) + rows / kPiece)) * width * kValue / rate;
    return rows * width * kAddition / rate > kWorthIt * (sort + sums);
  }

  /// Whether data say the places by themselves, and each value can be computed where its place has come to lie: its
  /// loads take the iteration from memory.
  bool can_add_in_pieces(const Element& body) {
    if (!has_plain_places()) return false;
    make_loops();
    const Expr position = graph_.ivar(loops_.batch.size());
    const Scalar value = moved(body.scalar, value_sizes_).scalar;
    const std::vector<Scalar> below = ir::topological({&value, 1});
    return std::ranges::all_of(below, [&](Scalar n) {
      const bool loads = n->op == ScalarOp::Load || n->op == ScalarOp::LinearLoad;
      return !n->mask && (loads || !mentions_directly(n, position));
    });
  }

  void add_in_pieces(const Element& body, ir::StoreMode mode) {
    const std::vector<TensorBox> sorted = sorted_keys();
    const Expr position = graph_.ivar(loops_.batch.size());
    const Scalar from = origin(sorted).scalar;
    const Scalar value = pool().replace_loads(moved(body.scalar, value_sizes_).scalar, [&](Scalar load) -> Scalar {
      if (!mentions_directly(load, position)) return nullptr;
      Exprs index = load->index;
      std::vector<Scalar> indirect = load->args;
      const Expr there = pool().indirect(indirect.size());
      for (Expr& e : index) e = sym::substitute(e, std::span(&position, 1), std::span(&there, 1));
      indirect.push_back(from);
      return load->op == ScalarOp::Load ? pool().load(load->buffer, load->rounded, index, indirect)
                                        : pool().linear_load(load->buffer, load->rounded, index[0], indirect);
    });
    write(body, {&pool(), value}, mode, sorted, kPiece);
  }

  void add(const Element& body, ir::StoreMode mode) {
    make_loops();
    const std::vector<TensorBox> sorted = sorted_keys();
    const TensorBox values = pointwise(ctx_, body.dtype(), value_sizes_, moved(body.scalar, value_sizes_));
    values.realize();
    Exprs from = graph_.ivars(value_sizes_.size());
    from[loops_.batch.size()] = pool().indirect(0);
    const Scalar value = values.load(from, loop_vars(graph_, value_sizes_), nullptr, {origin(sorted).scalar});
    write(body, {&pool(), value}, mode, sorted, 0);
  }

 private:
  static constexpr std::int64_t kPiece = 32;

  /// Whether data say a place by itself, in no expression with other numbers.
  bool has_plain_places() {
    return std::ranges::all_of(places_, [&](std::size_t d) {
      for (std::size_t j = 0; j < indirect_.size(); ++j)
        if (sym::contains(index_[d], pool().indirect(j))) return index_[d] == pool().indirect(j);
      return true;
    });
  }

  static bool mentions_directly(Scalar n, Expr variable) {
    return std::ranges::any_of(n->index, [&](Expr e) { return sym::contains(e, variable); });
  }

  /// A tensor over the sorted iterations, where the loops of the writes stand.
  Element at_position(const TensorBox& x) {
    return {&pool(), element_at(ctx_, x, graph_.ivars(loops_.batch.size() + 1), value_sizes_).scalar};
  }
  /// Where the iteration that has come to lie there was before.
  Element origin(const std::vector<TensorBox>& sorted) { return at_position(sorted[1]); }

  /// The writes again, those to one place side by side.
  void write(const Element& body, const Element& value, ir::StoreMode mode, const std::vector<TensorBox>& sorted,
             std::int64_t piece) {
    ir::Operation op;
    op.outs = {*out_.storage->buffer};
    op.origins = graph_.provenance.of(body);
    op.where = graph_.provenance.where;
    op.node = ir::Scatter{value_sizes_, value.cast(register_type(out_.dtype())),
                          stored(),     {at_position(sorted[0]).cast(DType::I64)},
                          mode,         loops_.batch.size(),
                          piece};
    graph_.add_operation(std::move(op));
  }

  ir::ScalarPool& pool() { return graph_.pool(); }

  void sort_loops() {
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      const bool apart = std::find(index_.begin(), index_.end(), old_[k]) != index_.end();
      bool moves = std::any_of(indirect_.begin(), indirect_.end(), [&](Scalar x) { return mentions(x, old_[k]); });
      for (std::size_t d : places_) moves = moves || sym::contains(index_[d], old_[k]);
      (!apart ? loops_.sorted : moves ? loops_.batch : loops_.free).push_back(k);
    }
  }

  /// What the old loops' variables are in the new ones, and the sizes of these.
  void make_loops() {
    const std::size_t at = loops_.batch.size();
    const Expr position = graph_.ivar(at);
    now_.resize(sizes_.size());
    for (std::size_t k = 0; k < at; ++k) {
      now_[loops_.batch[k]] = graph_.ivar(k);
      key_sizes_.push_back(sizes_[loops_.batch[k]]);
    }
    Expr length = 1;
    for (std::size_t k = loops_.sorted.size(); k-- > 0;) {
      const Expr size = sizes_[loops_.sorted[k]], turns = sym::floor_div(position, length);
      now_[loops_.sorted[k]] = k == 0 ? turns : sym::mod(turns, size);
      length = length * size;
    }
    key_sizes_.push_back(graph_.env().simplify(length));
    value_sizes_ = key_sizes_;
    for (std::size_t k = 0; k < loops_.free.size(); ++k) {
      now_[loops_.free[k]] = graph_.ivar(at + 1 + k);
      value_sizes_.push_back(sizes_[loops_.free[k]]);
    }
  }

  /// A value over the old loops, over new ones of these sizes.
  Element moved(Scalar x, const Exprs& sizes) {
    const auto among = loop_vars(graph_, sizes);
    return {&pool(), pool().substitute(x, old_, now_, [&](Expr e) { return graph_.env().simplify(e, among); })};
  }

  /// The place of each iteration as one number.
  Element key() {
    Element key{&pool(), pool().constant_int(DType::I64, 0)};
    for (std::size_t d : places_) {
      Element place;
      for (std::size_t j = 0; j < indirect_.size(); ++j)
        if (index_[d] == pool().indirect(j)) place = moved(indirect_[j], key_sizes_).cast(DType::I64);
      if (!place.scalar) {
        if (!has_plain_places()) refuse(ctx_, "cannot be carried out in a fixed order (deterministic=true)");
        place = index_value(
            ctx_, graph_.env().simplify(sym::substitute(index_[d], old_, now_), loop_vars(graph_, key_sizes_)));
      }
      key = d == places_.front() ? place : key * index_value(ctx_, out_.sizes[d]) + place;
    }
    return key;
  }

  /// The keys in order, and where each was. Few places have narrow keys, of which few digits differ.
  std::vector<TensorBox> sorted_keys() {
    Expr count = 1;
    for (std::size_t d : places_) count = count * out_.sizes[d];
    const DType type = graph_.env().statically_known_le(count, std::int64_t{1} << 31) ? DType::I32 : DType::I64;
    library_ops::Attributes order{{"dim", static_cast<std::int64_t>(loops_.batch.size())},
                                  {"descending", std::int64_t{0}},
                                  {"stable", std::int64_t{1}}};
    if (const auto most = graph_.env().simplify(count).constant(); most && *most > 1)
      order["bits"] = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(*most - 1)));
    const Element place = key().cast(type);
    for (const Context::SortedPlaces& known : ctx_.sorted_places)
      if (known.place == place.scalar && known.sizes == key_sizes_ && known.order == order) return known.sorted;
    std::vector<TensorBox> sorted = ordered(ctx_, pointwise(ctx_, type, key_sizes_, place), order, key_sizes_);
    ctx_.sorted_places.push_back({place.scalar, key_sizes_, std::move(order), sorted});
    return sorted;
  }

  /// Where a sorted write goes, by its key.
  Exprs stored() {
    Exprs out(index_.size());
    for (std::size_t d = 0; d < index_.size(); ++d) out[d] = sym::substitute(index_[d], old_, now_);
    Expr step = 1;
    for (std::size_t k = places_.size(); k-- > 0;) {
      const Expr whole = sym::floor_div(pool().indirect(0), step);
      out[places_[k]] = k == 0 ? whole : sym::mod(whole, out_.sizes[places_[k]]);
      step = step * out_.sizes[places_[k]];
    }
    return out;
  }

  Context& ctx_;
  ir::Graph& graph_;
  const TensorBox& out_;
  const Exprs &sizes_, &index_;
  const std::vector<Scalar>& indirect_;
  Exprs old_;                        ///< variables of the loops as they were
  std::vector<std::size_t> places_;  ///< dimensions whose place is no loop
  Loops loops_;
  Exprs now_, key_sizes_, value_sizes_;
};

}  // namespace

bool scatter_in_order(Context& ctx, const TensorBox& out, const Exprs& sizes, Element body, const Exprs& index,
                      const std::vector<Scalar>& indirect, ir::StoreMode mode) {
  if (!depends_on_order(body, mode, out.dtype()) && !lacks_update(ctx, out.dtype(), mode)) return false;
  SortedScatter scatter(ctx, out, sizes, index, indirect);
  if (!scatter.has_sorted_loops()) return false;
  scatter.add(body, mode);
  return true;
}

bool scatter_in_pieces(Context& ctx, const TensorBox& out, const Exprs& sizes, Element body, const Exprs& index,
                       const std::vector<Scalar>& indirect, ir::StoreMode mode) {
  const bool sums = mode == ir::StoreMode::Add && out.dtype() == DType::F32,
             bounds = (mode == ir::StoreMode::Max || mode == ir::StoreMode::Min) && size_of(out.dtype()) <= 4;
  if (!(sums || bounds) || !is_floating(out.dtype()) || indirect.empty() ||
      !ctx.target().has(target::Feature::VectorAtomics) || ctx.options.sort_sums == SortSums::Never)
    return false;
  SortedScatter scatter(ctx, out, sizes, index, indirect);
  if (!scatter.has_sorted_loops() || !scatter.can_add_in_pieces(body)) return false;
  if (ctx.options.sort_sums == SortSums::WhereItGains &&
      !scatter.gains_in_pieces(scatters_to_the_same_places(ctx.module.graph, *ctx.node)))
    return false;
  scatter.add_in_pieces(body, mode);
  return true;
}

}  // namespace coil::lowering
