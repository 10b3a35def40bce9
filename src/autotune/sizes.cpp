#include "autotune/sizes.h"

#include <algorithm>

namespace coil::autotune {

std::int64_t MeasuredSizes::of(sym::Expr unbacked) const {
  if (const auto found = told_.find(unbacked.name()); found != told_.end()) return found->second;
  const sym::Range range = env_.range(unbacked);
  return std::clamp(kUntold, range.low, std::max(range.low, range.high));
}

std::optional<std::int64_t> MeasuredSizes::operator()(sym::Expr e) const {
  sym::Exprs from, to;
  for (sym::Expr s : sym::free_symbols(e))
    if (s.symbol_kind() == sym::SymbolKind::Unbacked) from.push_back(s), to.push_back(of(s));
  return env_.hint(from.empty() ? e : sym::substitute(e, from, to));
}

}  // namespace coil::autotune
