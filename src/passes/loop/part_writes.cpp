#include "passes/loop/part_writes.h"

#include <algorithm>

#include "ir/comm_buffers.h"
#include "ir/tensor_box.h"

namespace coil::ir {
namespace {

constexpr std::int64_t kSmall = 1 << 14;  // bytes, below which one kernel over the whole is as fast
constexpr std::int64_t kShare = 2;        // a part is at most one half

bool is_plain_load(Scalar s) { return is_load(s) && s->args.empty(); }

/// Whether a load reads, of a buffer that could be `out`, the very element that is stored at `index` of `out`.
bool same_place(Graph& graph, Scalar load, BufferId out, const Exprs& index, const Exprs& loop_sizes) {
  if (!is_plain_load(load) || load->mask) return false;
  const Layout &from = graph.buffer(load->buffer).layout, &to = graph.buffer(out).layout;
  // Constants have no device of their own: they go where the program runs.
  const bool anywhere =
      graph.buffer(load->buffer).kind == BufferKind::Constant || graph.buffer(out).kind == BufferKind::Constant;
  if (from.dtype != to.dtype || !(anywhere || from.device == to.device)) return false;
  auto& env = graph.env();
  const auto loops = loop_vars(graph, loop_sizes);
  const Expr read = load->op == ScalarOp::Load ? linear_index(from, load->index) : load->index[0];
  return env.statically_known_equal(sym::product(from.sizes), sym::product(to.sizes)) &&
         env.simplify(read - linear_index(to, index), loops).is_constant(0);
}

/// A box of loop points: for each variable where it begins, its step and how many there are.
struct Region {
  Exprs sizes, index;  ///< loop sizes, and the variables of the whole over those of the region
};

class RegionFinder {
 public:
  RegionFinder(Graph& graph, const Exprs& sizes) : graph_(graph), sizes_(sizes), dims_(sizes.size()) {}

  /// Where the condition holds, when that is a box.
  std::optional<Region> find(Scalar condition) {
    if (!take(condition)) return std::nullopt;
    auto& env = graph_.env();
    Region region;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      Dim& dim = dims_[d];
      const Expr low = env.simplify(sym::max(dim.low, 0)),
                 high = env.simplify(dim.high ? sym::min(*dim.high, sizes_[d]) : sizes_[d]);
      if (dim.step != 1 && !env.statically_known_multiple_of(low + dim.phase, dim.step)) return std::nullopt;
      Expr count = env.simplify(sym::ceil_div(high - low, dim.step));
      if (!env.statically_known_le(0, count)) count = sym::max(count, 0);
      region.sizes.push_back(count);
      region.index.push_back(count.is_constant(1) ? low : low + graph_.ivar(d) * dim.step);
    }
    return region;
  }

 private:
  struct Dim {
    Expr low = 0;
    std::optional<Expr> high;
    std::int64_t step = 1;
    Expr phase = 0;  ///< variable + phase is a multiple of the step
  };

  bool take(Scalar condition) {
    if (condition->op == ScalarOp::And) return take(condition->args[0]) && take(condition->args[1]);
    return condition->op == ScalarOp::Index && condition->dtype == DType::Bool && take(condition->index[0]);
  }

  bool take(Expr condition) {
    const auto operands = condition.operands();
    switch (condition.kind()) {
      case sym::Kind::Constant: return condition.is_constant(1);
      case sym::Kind::And: return std::all_of(operands.begin(), operands.end(), [&](Expr e) { return take(e); });
      case sym::Kind::Lt:
      case sym::Kind::Le:
      case sym::Kind::Eq: return relation(condition.kind(), operands[0], operands[1]);
      default: return false;
    }
  }

  bool relation(sym::Kind kind, Expr a, Expr b) {
    if (kind == sym::Kind::Eq && b.kind() == sym::Kind::Mod) std::swap(a, b);
    if (kind == sym::Kind::Eq && a.kind() == sym::Kind::Mod && b.is_constant(0))
      return congruence(a.operands()[0], a.operands()[1]);
    const auto linear = in_one_variable(a - b);
    if (!linear) return false;
    auto& [d, coefficient, rest] = *linear;
    // coefficient*i + rest against 0
    const Expr at = coefficient > 0 ? -rest : rest;
    if (kind == sym::Kind::Eq) return raise(d, at), lower(d, at + 1), true;
    const int strict = kind == sym::Kind::Lt;
    if (coefficient > 0)
      lower(d, at + 1 - strict);
    else
      raise(d, at + strict);
    return true;
  }

  bool congruence(Expr e, Expr modulus) {
    const auto linear = in_one_variable(e);
    const auto step = modulus.constant();
    if (!linear || !step || *step < 1 || dims_[linear->dim].step != 1) return false;
    dims_[linear->dim].step = *step;
    dims_[linear->dim].phase = linear->coefficient > 0 ? linear->rest : -linear->rest;
    return true;
  }

  struct Linear {
    std::size_t dim;
    std::int64_t coefficient;  ///< 1 or -1
    Expr rest;
  };
  std::optional<Linear> in_one_variable(Expr e) {
    std::optional<Linear> found;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      if (!sym::contains(e, graph_.ivar(d))) continue;
      const auto linear = sym::linear_in(e, graph_.ivar(d));
      if (found || !linear || !(linear->coefficient.is_constant(1) || linear->coefficient.is_constant(-1)) ||
          sym::has_symbol_of(linear->rest, sym::SymbolKind::Loop))
        return std::nullopt;
      found = Linear{d, *linear->coefficient.constant(), linear->rest};
    }
    return found;
  }

  void raise(std::size_t d, Expr low) { dims_[d].low = sym::max(dims_[d].low, low); }
  void lower(std::size_t d, Expr high) { dims_[d].high = dims_[d].high ? sym::min(*dims_[d].high, high) : high; }

  Graph& graph_;
  const Exprs& sizes_;
  std::vector<Dim> dims_;
};

class PartWrites {
 public:
  explicit PartWrites(Graph& graph) : graph_(graph), blocks_(blocks(graph)) {}

  void run() {
    find_wanted();
    if (wanted_.empty()) return;
    std::vector<Operation> given(graph_.operations().begin(), graph_.operations().end());
    for (std::size_t k = 0; k < given.size(); ++k) {
      Operation& op = given[k];
      if (blocks_[k] == 0 && op.outs.size() == 1 && wanted_.contains(op.outs[0])) {
        if (split(op)) continue;
        detach(op);
      }
      made_.push_back(std::move(op));
    }
    if (changed_) graph_.replace_operations(std::move(made_));
  }

 private:
  /// Parts that are written one after the other, the last first, and what is there before them.
  struct Chain {
    struct Part {
      Region region;
      Scalar value;
    };
    std::vector<Part> parts;
    Scalar before = nullptr;
  };

  /// Buffers that inputs and states receive, and those that these were copied from.
  void find_wanted() {
    wanted_.insert(graph_.mutated.begin(), graph_.mutated.end());
    for (std::size_t k = wanted_.empty() ? 0 : graph_.operations().size(); k-- > 0;) {
      const Operation& op = graph_.operations()[k];
      if (blocks_[k] != 0 || op.outs.size() != 1 || !wanted_.contains(op.outs[0])) continue;
      if (auto from = copied_buffer(graph_, op))
        wanted_.insert(*from);
      else if (auto chain = chain_of(op))
        wanted_.insert(chain->before->buffer);
    }
  }

  std::int64_t elements(const Exprs& sizes, std::int64_t otherwise) {
    return graph_.env().hint_or(sym::product(sizes), otherwise);
  }

  std::optional<Chain> chain_of(const Operation& op) {
    const auto* loop = std::get_if<Pointwise>(&op.node);
    if (!loop || !op.store_index.empty() || loop->body->op != ScalarOp::Where || may_fail(loop->body))
      return std::nullopt;
    const Layout& layout = graph_.buffer(op.outs[0]).layout;
    const std::int64_t whole = elements(loop->sizes, std::numeric_limits<std::int32_t>::max());
    if (whole * static_cast<std::int64_t>(size_of(layout.dtype)) < kSmall) return std::nullopt;
    Chain chain;
    std::int64_t written = 0;
    for (chain.before = loop->body; chain.before->op == ScalarOp::Where; chain.before = chain.before->args[2]) {
      auto region = RegionFinder(graph_, loop->sizes).find(chain.before->args[0]);
      if (!region) return std::nullopt;
      written += elements(region->sizes, 0);
      if (written * kShare > whole) return std::nullopt;
      chain.parts.push_back({std::move(*region), chain.before->args[1]});
    }
    if (!same_place(graph_, chain.before, op.outs[0], graph_.ivars(loop->sizes.size()), loop->sizes))
      return std::nullopt;
    return chain;
  }

  bool split(const Operation& op) {
    auto chain = chain_of(op);
    if (!chain) return false;
    const BufferId out = op.outs[0];
    auto emit = [&](Exprs sizes, Scalar body, BufferId to, Exprs store_index) {
      made_.push_back({.node = Pointwise{std::move(sizes), body},
                       .outs = {to},
                       .store_index = std::move(store_index),
                       .origins = op.origins,
                       .where = op.where});
    };
    const auto& whole = std::get<Pointwise>(op.node);
    const Exprs vars = graph_.ivars(whole.sizes.size());
    for (auto& [region, value] : chain->parts) {
      const auto loops = loop_vars(graph_, region.sizes);
      value =
          graph_.pool().substitute(value, vars, region.index, [&](Expr e) { return graph_.env().simplify(e, loops); });
      const bool reads = reads_elsewhere(value, [&](Scalar load) {
        return chain->parts.size() == 1 && same_place(graph_, load, out, region.index, region.sizes);
      });
      if (!reads) continue;
      const BufferId early = temporary(graph_.buffer(out).layout, region.sizes);
      emit(region.sizes, value, early, {});
      value = graph_.pool().load(early, graph_.buffer(out).layout.dtype, vars);
    }
    if (chain->before->buffer != out) emit(whole.sizes, chain->before, out, {});
    for (std::size_t k = chain->parts.size(); k-- > 0;)
      emit(chain->parts[k].region.sizes, chain->parts[k].value, out, chain->parts[k].region.index);
    return changed_ = true;
  }

  /// What a scatter stores, and where, known before it stores.
  void detach(Operation& op) {
    auto* scatter = std::get_if<Scatter>(&op.node);
    if (!scatter || elements(scatter->sizes, 0) * kShare > elements(graph_.buffer(op.outs[0]).layout.sizes, 0)) return;
    auto ahead = [&](Scalar& value, DType dtype) {
      if (!reads_elsewhere(value, [](Scalar) { return false; })) return;
      Layout like = graph_.buffer(op.outs[0]).layout;
      like.dtype = dtype;
      const BufferId early = temporary(like, scatter->sizes);
      made_.push_back(
          {.node = Pointwise{scatter->sizes, value}, .outs = {early}, .origins = op.origins, .where = op.where});
      value = graph_.pool().load(early, dtype, graph_.ivars(scatter->sizes.size()));
      changed_ = true;
    };
    ahead(scatter->body, register_type(graph_.buffer(op.outs[0]).layout.dtype));
    for (Scalar& x : scatter->indirect) ahead(x, DType::I64);
  }

  bool reads_elsewhere(Scalar value, const std::function<bool(Scalar)>& harmless) {
    const auto all = loads(value);
    return std::any_of(all.begin(), all.end(),
                       [&](Scalar load) { return wanted_.contains(load->buffer) && !harmless(load); });
  }

  BufferId temporary(const Layout& like, const Exprs& sizes) {
    return graph_
        .add_buffer("", BufferKind::Computed, {like.dtype, like.device, sizes, sym::contiguous_strides(sizes), true})
        .id;
  }

  Graph& graph_;
  const std::vector<std::size_t> blocks_;
  std::set<BufferId> wanted_;
  std::vector<Operation> made_;
  bool changed_ = false;
};

}  // namespace

std::optional<BufferId> copied_buffer(Graph& graph, const Operation& op) {
  const auto* loop = std::get_if<Pointwise>(&op.node);
  if (!loop || !op.store_index.empty() || !is_plain_load(loop->body) || loop->body->buffer == op.outs[0])
    return std::nullopt;
  if (is_peer_sum(graph, loop->body->buffer)) return std::nullopt;
  if (!same_place(graph, loop->body, op.outs[0], graph.ivars(loop->sizes.size()), loop->sizes)) return std::nullopt;
  return loop->body->buffer;
}

bool stores_apart(Graph& graph, const Operation& a, const Operation& b) {
  const Exprs &at = a.store_index, &other_at = b.store_index;
  const std::size_t rank = std::min(at.size(), other_at.size());
  for (std::size_t d = 0; d < rank; ++d)  // the parts of a stack, without more ado
    if (at[d].is_constant() && other_at[d].is_constant() && !(at[d] == other_at[d])) return true;
  const Exprs &sizes = a.sizes(), &others = b.sizes();
  const Exprs vars = graph.ivars(others.size()), renamed = graph.rvars(others.size());
  const auto loops = loop_vars(graph, sizes, others);
  for (std::size_t d = 0; d < rank; ++d)
    if (graph.env().statically_known_true(sym::ne(at[d], sym::substitute(other_at[d], vars, renamed)), loops))
      return true;
  return false;
}

void split_part_writes(Graph& graph) { PartWrites(graph).run(); }

}  // namespace coil::ir
