#include "sym/declarations.h"

#include <fmt/format.h>

namespace coil::sym {
namespace {

std::string bound(std::int64_t b) { return b == Range::kMin ? "-inf" : b == Range::kMax ? "inf" : std::to_string(b); }

std::int64_t read_bound(LineCursor& c) {
  if (c.accept("inf")) return Range::kMax;
  if (c.accept("-inf")) return Range::kMin;
  return c.integer();
}

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

void read_declarations(LineCursor& c, ShapeEnv& env) {
  while (!c.accept(")")) {
    const std::string name = c.identifier();
    c.expect(":");
    const bool unbacked = c.accept("unbacked");
    c.expect("[");
    Range range{.low = read_bound(c), .high = 0};
    c.expect(",");
    range.high = read_bound(c);
    c.expect("]");
    if (env.context().find(name)) c.fault(fmt::format("the size {} is declared twice", name));
    if (unbacked)
      env.add_unbacked(name, range);
    else
      env.add_size(name, c.accept("=") ? std::optional(c.integer()) : std::nullopt, range);
    if (!c.accept(",") && c.peek() != ')') c.fault("',' or ')' should stand here");
  }
}

}  // namespace coil::sym
