#include "passes/loop/narrow_columns.h"

#include <algorithm>

namespace coil::ir {
namespace {

constexpr std::int64_t kNarrow = 32;         // columns: two vectors
constexpr std::int64_t kFewRows = 16;        // below which the sums by column are as many as what is added up
constexpr std::int64_t kElements = 1 << 14;  // of neighbouring results, below which the first-level cache holds them

class NarrowColumns {
 public:
  explicit NarrowColumns(Graph& graph) : graph_(graph) {}

  void run() {
    if (std::ranges::none_of(graph_.operations(), [&](const Operation& op) { return columns_of(op).has_value(); }))
      return;
    std::vector<Operation> result;
    for (const Operation& op : graph_.operations()) {
      const auto columns = columns_of(op);
      if (!columns) {
        result.push_back(op);
        continue;
      }
      Operation first = by_column(op, *columns);
      std::ranges::move(spread_, std::back_inserter(result));
      spread_.clear();
      result.push_back(std::move(first));
      result.push_back(over_columns(op, *columns, result.back().outs[0]));
    }
    graph_.replace_operations(std::move(result));
  }

 private:
  std::optional<std::int64_t> step(Expr index, Expr variable) const {
    const auto linear = sym::linear_in(index, variable);
    return linear ? linear->coefficient.constant() : std::nullopt;
  }

  /// Which reduced dimension walks the columns; nothing where the operation is not such a sum.
  std::optional<std::size_t> columns_of(const Operation& op) {
    const auto* sum = std::get_if<Reduction>(&op.node);
    if (!sum || sum->kind != ReductionKind::Sum || sum->reduced.size() < 2 || !device_of(graph_, op).is_host())
      return std::nullopt;
    for (std::size_t d = 0; d < sum->reduced.size(); ++d) {
      const auto width = sum->reduced[d].constant();
      if (width && *width > 1 && *width < kNarrow && is_narrow(*sum, d, *width)) return d;
    }
    return std::nullopt;
  }

  bool is_narrow(const Reduction& sum, std::size_t d, std::int64_t width) {
    const sym::ShapeEnv& env = graph_.env();
    const std::int64_t reduced = env.hint_or(sym::product(sum.reduced), 0),
                       all = reduced * env.hint_or(sym::product(sum.sizes), 0);
    if (reduced / width < kFewRows) return false;
    return std::ranges::any_of(loads(sum.body), [&](Scalar load) {
      if (load->op != ScalarOp::Load) return false;
      const Layout& layout = graph_.buffer(load->buffer).layout;
      const Expr index = linear_index(layout, load->index);
      if (env.hint_or(sym::product(layout.sizes), 0) < all || step(index, graph_.rvar(d)) != 1) return false;
      for (std::size_t k = 0; k < sum.sizes.size(); ++k)
        if (!sum.sizes[k].is_constant(1) && step(index, graph_.ivar(k)) == width)
          return reduced * env.hint_or(sum.sizes[k], 0) >= kElements;
      return false;
    });
  }

  Operation by_column(const Operation& op, std::size_t d) {
    const auto& sum = std::get<Reduction>(op.node);
    Exprs from = graph_.rvars(sum.reduced.size()), to = from;
    to[d] = graph_.ivar(sum.sizes.size());
    for (std::size_t k = d + 1; k < to.size(); ++k) to[k] = graph_.rvar(k - 1);
    Reduction made{.sizes = sum.sizes, .reduced = sum.reduced, .kind = sum.kind};
    made.sizes.push_back(sum.reduced[d]);
    made.reduced.erase(made.reduced.begin() + static_cast<std::ptrdiff_t>(d));
    const Scalar body = graph_.pool().substitute(sum.body, from, to, [&](Expr e) { return graph_.env().simplify(e); });
    made.body = graph_.pool().replace_loads(body, [&](Scalar load) { return spread(load, op, made); });
    Operation result{.outs = {new_buffer(op, body->dtype, made.sizes)}, .origins = op.origins, .where = op.where};
    result.node = std::move(made);
    return result;
  }

  Operation over_columns(const Operation& op, std::size_t d, BufferId columns) {
    const auto& sum = std::get<Reduction>(op.node);
    const Buffer& out = graph_.buffer(op.outs[0]);
    const bool is_kept = out.writers.size() == 1 && out.layout.dtype == sum.body->dtype;  // as it was added up
    if (is_kept && op.store_index.empty()) columns_[out.id] = columns;
    Exprs index = graph_.ivars(sum.sizes.size());
    index.push_back(graph_.rvar(0));
    Operation made = op;
    made.node = Reduction{.sizes = sum.sizes,
                          .reduced = {sum.reduced[d]},
                          .kind = sum.kind,
                          .body = graph_.pool().load(columns, sum.body->dtype, index)};
    return made;
  }

  /// Where a sum of such columns is read, as for a mean, it is added up for each column: so all that the loop reads
  /// lies as the columns do, and they are one dimension.
  Scalar spread(Scalar load, const Operation& op, const Reduction& by_column) {
    const auto columns = columns_.find(load->buffer);
    const Exprs& sizes = by_column.sizes;
    if (load->op != ScalarOp::Load || columns == columns_.end() ||
        graph_.buffer(columns->second).layout.sizes != sizes || !is_of_result(load->index, sizes))
      return nullptr;
    Exprs index = load->index;
    index.push_back(graph_.rvar(0));
    Operation again{.outs = {new_buffer(op, load->dtype, by_column.sizes)}, .origins = op.origins, .where = op.where};
    again.node = Reduction{.sizes = by_column.sizes,
                           .reduced = {by_column.sizes.back()},
                           .body = graph_.pool().load(columns->second, load->dtype, index)};
    const BufferId made = again.outs[0];
    spread_.push_back(std::move(again));
    return graph_.pool().load(made, load->dtype, graph_.ivars(sizes.size()));
  }

  /// Whether an index is that of the result itself; `sizes` has the columns behind its dimensions.
  bool is_of_result(const Exprs& index, const Exprs& sizes) {
    if (index.size() + 1 != sizes.size()) return false;
    for (std::size_t d = 0; d < index.size(); ++d)
      if (!sizes[d].is_constant(1) && index[d] != graph_.ivar(d)) return false;
    return true;
  }

  BufferId new_buffer(const Operation& op, DType dtype, const Exprs& sizes) {
    const Layout layout{dtype, device_of(graph_, op), sizes, sym::contiguous_strides(sizes), true};
    return graph_.add_buffer("", BufferKind::Computed, layout).id;
  }

  Graph& graph_;
  std::vector<Operation> spread_;
  std::map<BufferId, BufferId> columns_;  ///< of a sum, those that it is the sum of
};

}  // namespace

void sum_narrow_columns(Graph& graph) { NarrowColumns(graph).run(); }

}  // namespace coil::ir
