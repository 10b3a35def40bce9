#include "scheduler/space_match.h"

#include <algorithm>

#include "scheduler/space.h"
#include "support/error.h"

namespace coil::scheduler {
namespace {

bool is_reduction(const ir::Operation& op) { return std::holds_alternative<ir::Reduction>(op.node); }
bool is_scan(const ir::Operation& op) { return std::holds_alternative<ir::Scan>(op.node); }

Exprs concat(const Exprs& a, const Exprs& b) {
  Exprs out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

/// Composes each dimension's variable from refined ones.
Exprs compose_all(const std::vector<std::vector<std::size_t>>& parts, const Exprs& vars, const Exprs& sizes) {
  Exprs out;
  for (const auto& p : parts) out.push_back(compose(p, vars, sizes));
  return out;
}

/// What an index takes of a variable: variable / divisor, and of that the remainder by `modulus` (0: all of it).
struct Digits {
  std::int64_t divisor = 1, modulus = 0;
};

std::optional<Digits> digits_of(Expr index, Expr variable) {
  if (index == variable) return Digits{};
  if (index.kind() != sym::Kind::FloorDiv && index.kind() != sym::Kind::Mod) return std::nullopt;
  const auto by = index.operands()[1].constant();
  const auto of = by && *by > 0 ? digits_of(index.operands()[0], variable) : std::nullopt;
  if (!of || (of->modulus != 0 && of->modulus % *by != 0)) return std::nullopt;
  if (index.kind() == sym::Kind::Mod) return Digits{of->divisor, *by};
  return Digits{of->divisor * *by, of->modulus / *by};
}

class Matcher {
 public:
  Matcher(ir::Graph& graph, const Group& group, const ir::Operation& op) : graph_(graph), group_(group), op_(op) {}

  std::vector<Placement> all() {
    if (is_scan(op_)) return {};
    if (group_.pointwise()) {
      if (is_reduction(op_))
        split_by_reduction();
      else
        same_space(group_.outer, {}, Role::Outer);
    } else if (is_reduction(op_)) {
      both_parts();
    } else {
      same_space(group_.outer, group_.inner, Role::Inner);
      outer_only();
    }
    by_access();
    return std::move(out_);
  }

 private:
  const sym::ShapeEnv& env() { return graph_.env(); }

  /// Cuts the refined dimensions into the new outer and inner space: `inner_dims` tells which are inner.
  void add(const Refinement& r, const std::vector<bool>& inner_dims, std::size_t old_outer_rank, Role role,
           std::size_t op_outer_rank) {
    Placement p;
    Exprs vars(r.sizes.size());
    for (std::size_t k = 0; k < r.sizes.size(); ++k) {
      vars[k] = inner_dims[k] ? graph_.rvar(p.inner.size()) : graph_.ivar(p.outer.size());
      (inner_dims[k] ? p.inner : p.outer).push_back(r.sizes[k]);
    }
    Exprs old = compose_all(r.a, vars, r.sizes), mine = compose_all(r.b, vars, r.sizes);
    p.old_outer.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(old_outer_rank));
    p.old_inner.assign(old.begin() + static_cast<std::ptrdiff_t>(old_outer_rank), old.end());
    p.ivars.assign(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(op_outer_rank));
    p.rvars.assign(mine.begin() + static_cast<std::ptrdiff_t>(op_outer_rank), mine.end());
    p.role = role;
    out_.push_back(std::move(p));
  }

  void same_space(const Exprs& outer, const Exprs& inner, Role role) {
    auto r = refine(concat(outer, inner), op_.sizes(), env());
    if (!r) return;
    std::vector<bool> inner_dims(r->sizes.size(), false);
    for (std::size_t d = outer.size(); d < r->a.size(); ++d)
      for (std::size_t k : r->a[d]) inner_dims[k] = true;
    add(*r, inner_dims, outer.size(), role, op_.sizes().size());
  }

  /// A pointwise group meets a reduction: the reduction says which dimensions are inner.
  void split_by_reduction() {
    auto r = refine(group_.outer, concat(op_.sizes(), op_.reduced()), env());
    if (!r) return;
    std::vector<bool> inner_dims(r->sizes.size(), false);
    for (std::size_t d = op_.sizes().size(); d < r->b.size(); ++d)
      for (std::size_t k : r->b[d]) inner_dims[k] = true;
    add(*r, inner_dims, group_.outer.size(), Role::Reduce, op_.sizes().size());
  }

  /// A reduction group meets a reduction of the same outer and inner space.
  void both_parts() {
    auto o = refine(group_.outer, op_.sizes(), env());
    auto r = refine(group_.inner, op_.reduced(), env());
    if (!o || !r) return;
    Placement p{.outer = o->sizes, .inner = r->sizes, .role = Role::Reduce};
    const Exprs ov = graph_.ivars(o->sizes.size()), rv = graph_.rvars(r->sizes.size());
    p.old_outer = compose_all(o->a, ov, o->sizes);
    p.old_inner = compose_all(r->a, rv, r->sizes);
    p.ivars = compose_all(o->b, ov, o->sizes);
    p.rvars = compose_all(r->b, rv, r->sizes);
    out_.push_back(std::move(p));
  }

  /// A pointwise operation over the outer points of a reduction group: an epilogue of one value a row.
  void outer_only() {
    auto o = refine(group_.outer, op_.sizes(), env());
    if (!o) return;
    Placement p{.outer = o->sizes, .inner = group_.inner, .role = Role::Outer};
    const Exprs ov = graph_.ivars(o->sizes.size());
    p.old_outer = compose_all(o->a, ov, o->sizes);
    p.old_inner = graph_.rvars(group_.inner.size());
    p.ivars = compose_all(o->b, ov, o->sizes);
    out_.push_back(std::move(p));
  }

  /// Index expressions with which a member touches a buffer, over the group's variables.
  struct Access {
    ir::BufferId buffer;
    Exprs index;
  };
  std::vector<Access> group_accesses(const std::set<ir::BufferId>& wanted) {
    std::vector<Access> out;
    for (const Member& m : group_.members) {
      const ir::Operation& op = graph_.operations()[m.op];
      if (wanted.contains(op.outs[0])) out.push_back({op.outs[0], store_in_group(graph_, group_, m)});
      if (out.size() > 8) break;
      for (ir::Scalar l : loads_of(op))
        if (l->op == ir::ScalarOp::Load && l->args.empty() && wanted.contains(l->buffer)) {
          Exprs from = concat(graph_.ivars(op.sizes().size()), graph_.rvars(op.reduced().size())),
                to = concat(m.ivars, m.rvars), index;
          for (Expr e : l->index) index.push_back(sym::substitute(e, from, to));
          out.push_back({l->buffer, std::move(index)});
        }
    }
    return out;
  }

  /// Equates single variables, dimension by dimension, of a buffer that the operation and the group both touch. Every
  /// variable of the operation must be found.
  void by_access() {
    std::vector<ir::Scalar> mine;
    std::set<ir::BufferId> wanted;
    for (ir::Scalar l : loads_of(op_))
      if (l->op == ir::ScalarOp::Load && l->args.empty()) mine.push_back(l), wanted.insert(l->buffer);
    if (mine.empty()) return;
    const Exprs op_sizes = concat(op_.sizes(), op_.reduced());
    const Exprs op_vars = concat(graph_.ivars(op_.sizes().size()), graph_.rvars(op_.reduced().size()));
    const auto loops = loop_vars(graph_, group_);
    for (const Access& access : group_accesses(wanted))
      for (ir::Scalar l : mine) {
        if (l->buffer != access.buffer) continue;
        Exprs found(op_vars.size());
        std::vector<bool> known(op_vars.size(), false);
        for (std::size_t d = 0; d < l->index.size(); ++d) {
          if (!l->index[d].is_symbol() || !access.index[d].is_symbol()) continue;
          auto v = std::find(op_vars.begin(), op_vars.end(), l->index[d]);
          if (v == op_vars.end()) continue;
          auto loop =
              std::find_if(loops.begin(), loops.end(), [&](const sym::LoopVar& x) { return x.var == access.index[d]; });
          const auto k = static_cast<std::size_t>(v - op_vars.begin());
          if (loop == loops.end() || !(loop->size == op_sizes[k])) continue;
          found[k] = access.index[d];
          known[k] = true;
        }
        for (std::size_t k = 0; k < op_vars.size(); ++k) {
          if (op_sizes[k].is_constant(1)) found[k] = 0, known[k] = true;
          if (const auto whole =
                  known[k] ? std::nullopt : composed(op_vars[k], op_sizes[k], l->index, access.index, loops))
            found[k] = *whole, known[k] = true;
        }
        if (std::find(known.begin(), known.end(), false) == known.end()) add_permuted(found);
      }
  }

  /// A variable of the operation of the group's variables, where the buffer's dimensions take its digits one by one:
  /// rows of places, as lines and columns of a picture.
  std::optional<Expr> composed(Expr variable, Expr size, const Exprs& index, const Exprs& places,
                               const std::vector<sym::LoopVar>& loops) {
    struct Part {
      std::int64_t divisor, count;
      Expr var;
    };
    std::vector<Part> parts;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const auto digits = digits_of(index[d], variable);
      if (!digits) continue;
      const auto loop = std::ranges::find_if(loops, [&](const sym::LoopVar& x) { return x.var == places[d]; });
      const auto count = loop == loops.end() ? std::nullopt : loop->size.constant();
      if (!count || (digits->modulus != 0 && digits->modulus != *count)) return std::nullopt;
      parts.push_back({digits->divisor, *count, places[d]});
    }
    std::ranges::sort(parts, {}, &Part::divisor);
    Expr whole = 0;
    std::int64_t covered = 1;
    for (const Part& part : parts) {
      if (part.divisor != covered) return std::nullopt;
      whole = whole + part.var * part.divisor;
      covered *= part.count;
    }
    return parts.size() > 1 && size.is_constant(covered) ? std::optional(whole) : std::nullopt;
  }

  bool is_inner_var(Expr v) { return v.is_symbol() && v.name().starts_with("r"); }

  void add_permuted(const Exprs& found) {
    std::set<std::string> distinct;
    std::size_t vars = 0, inner = 0, outer = 0;
    const bool is_plain = std::ranges::all_of(found, [](Expr e) { return e.is_symbol() || e.constant(); });
    for (Expr e : found)
      for (Expr v : sym::free_symbols(e)) {
        distinct.insert(std::string(v.name()));
        ++vars;
        ++(is_inner_var(v) ? inner : outer);
      }
    if (distinct.size() != vars || (!is_plain && is_reduction(op_))) return;
    const std::size_t rank = op_.sizes().size(), group_rank = group_.outer.size() + group_.inner.size();
    if (group_.pointwise() && is_reduction(op_)) {
      if (vars != group_rank) return;
      add_reordered(found, rank);
      return;
    }
    // The group's space stays; the operation's variables are some of it.
    Placement p{.outer = group_.outer,
                .inner = group_.inner,
                .old_outer = graph_.ivars(group_.outer.size()),
                .old_inner = graph_.rvars(group_.inner.size())};
    p.ivars.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(rank));
    p.rvars.assign(found.begin() + static_cast<std::ptrdiff_t>(rank), found.end());
    if (is_reduction(op_)) {
      for (Expr e : p.ivars)
        if (is_inner_var(e)) return;
      for (Expr e : p.rvars)
        if (e.is_symbol() && !is_inner_var(e)) return;
      if (outer != non_one(group_.outer) || inner != non_one(group_.inner)) return;
      p.role = Role::Reduce;
    } else if (outer == non_one(group_.outer) && inner == non_one(group_.inner)) {
      p.role = group_.pointwise() ? Role::Outer : Role::Inner;
    } else if (outer == non_one(group_.outer) && inner == 0) {
      p.role = Role::Outer;
    } else {
      return;
    }
    out_.push_back(std::move(p));
  }

  static std::size_t non_one(const Exprs& sizes) {
    return static_cast<std::size_t>(
        std::count_if(sizes.begin(), sizes.end(), [](Expr e) { return !e.is_constant(1); }));
  }

  /// A pointwise group whose loops are put in the reduction's order.
  void add_reordered(const Exprs& found, std::size_t rank) {
    Placement p{.role = Role::Reduce};
    p.old_outer.assign(group_.outer.size(), 0);
    const Exprs vars = graph_.ivars(group_.outer.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (!found[k].is_symbol()) {
        (k < rank ? p.ivars : p.rvars).push_back(0);
        continue;
      }
      const auto d = static_cast<std::size_t>(std::find(vars.begin(), vars.end(), found[k]) - vars.begin());
      COIL_CHECK(d < vars.size());
      Expr v = k < rank ? graph_.ivar(p.outer.size()) : graph_.rvar(p.inner.size());
      (k < rank ? p.outer : p.inner).push_back(group_.outer[d]);
      p.old_outer[d] = v;
      (k < rank ? p.ivars : p.rvars).push_back(v);
    }
    out_.push_back(std::move(p));
  }

  ir::Graph& graph_;
  const Group& group_;
  const ir::Operation& op_;
  std::vector<Placement> out_;
};

}  // namespace

std::vector<ir::Scalar> loads_of(const ir::Operation& op) {
  if (const auto* scatter = std::get_if<ir::Scatter>(&op.node)) {
    std::vector<ir::Scalar> roots{scatter->body};
    roots.insert(roots.end(), scatter->indirect.begin(), scatter->indirect.end());
    return ir::loads(roots);
  }
  return ir::loads(op.body());
}

std::vector<Placement> placements(ir::Graph& graph, const Group& group, const ir::Operation& op) {
  return Matcher(graph, group, op).all();
}

}  // namespace coil::scheduler
