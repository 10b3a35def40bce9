#include "sym/declarations.h"

#include <fmt/format.h>

namespace coil::sym {
namespace {

std::string bound(std::int64_t b) { return b == Range::kMin ? "-inf" : b == Range::kMax ? "inf" : std::to_string(b); }

}  // namespace

std::string declarations(const ShapeEnv& env) {
  std::string out;
  for (Expr s : env.symbols()) {
    const Range r = env.range(s);
    out += fmt::format("{}{}: {}[{}, {}]", out.empty() ? "" : ", ", s.name(),
                       s.symbol_kind() == SymbolKind::Unbacked ? "unbacked " : "", bound(r.low), bound(r.high));
    if (auto hint = env.hint(s)) out += fmt::format(" = {}", *hint);
  }
  return out;
}

}  // namespace coil::sym
