#include "scheduler/space.h"

namespace coil::scheduler {
namespace {

/// Sizes of one nest without its ones, with the place each came from.
struct Trimmed {
  Exprs sizes;
  std::vector<std::size_t> from;
};

Trimmed trim(std::span<const Expr> sizes) {
  Trimmed t;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!sizes[d].is_constant(1)) t.sizes.push_back(sizes[d]), t.from.push_back(d);
  return t;
}

/// `whole / part` when `part` is known to divide it and is smaller.
std::optional<Expr> quotient(Expr whole, Expr part, const sym::ShapeEnv& env) {
  if (whole.is_constant() && part.is_constant()) {
    const auto w = *whole.constant(), p = *part.constant();
    if (p <= 1 || w <= p || w % p) return std::nullopt;
    return Expr(w / p);
  }
  if (!env.statically_known_multiple_of(whole, part)) return std::nullopt;
  Expr q = env.simplify(sym::floor_div(whole, part));
  if (q.kind() == sym::Kind::FloorDiv || q.is_constant(1) || q.is_constant(0)) return std::nullopt;
  return q;
}

}  // namespace

std::optional<Refinement> refine(std::span<const Expr> a, std::span<const Expr> b, const sym::ShapeEnv& env) {
  Refinement out;
  out.a.resize(a.size());
  out.b.resize(b.size());
  Trimmed ta = trim(a), tb = trim(b);
  // Cut from the innermost dimension outwards: the smaller of the two rests must divide the larger.
  std::size_t na = ta.sizes.size(), nb = tb.sizes.size();
  while (na > 0 && nb > 0) {
    Expr x = ta.sizes[na - 1], y = tb.sizes[nb - 1];
    const std::size_t k = out.sizes.size();
    if (x == y || env.statically_known_equal(x, y)) {
      out.sizes.push_back(x);
      out.a[ta.from[--na]].push_back(k);
      out.b[tb.from[--nb]].push_back(k);
    } else if (auto q = quotient(x, y, env)) {
      out.sizes.push_back(y);
      out.a[ta.from[na - 1]].push_back(k);
      ta.sizes[na - 1] = *q;
      out.b[tb.from[--nb]].push_back(k);
    } else if (auto p = quotient(y, x, env)) {
      out.sizes.push_back(x);
      out.b[tb.from[nb - 1]].push_back(k);
      tb.sizes[nb - 1] = *p;
      out.a[ta.from[--na]].push_back(k);
    } else {
      return std::nullopt;
    }
  }
  if (na > 0 || nb > 0) return std::nullopt;
  // Collected innermost first; turn around.
  std::reverse(out.sizes.begin(), out.sizes.end());
  for (auto* side : {&out.a, &out.b})
    for (auto& parts : *side) {
      std::reverse(parts.begin(), parts.end());
      for (auto& k : parts) k = out.sizes.size() - 1 - k;
    }
  return out;
}

Expr compose(std::span<const std::size_t> parts, std::span<const Expr> vars, std::span<const Expr> sizes) {
  Expr value = 0;
  for (std::size_t k : parts) value = value * sizes[k] + vars[k];
  return value;
}

}  // namespace coil::scheduler
