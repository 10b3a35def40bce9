#include "sym/shape_env.h"

#include "sym/interval.h"
#include "sym/node.h"
#include "sym/print.h"
#include "sym/simplify.h"

namespace coil::sym {

Expr ShapeEnv::add_size(std::string_view name, std::optional<std::int64_t> hint, Range range) {
  Expr symbol = context_.symbol(name, SymbolKind::Size);
  if (auto it = info_.find(symbol); it != info_.end()) {
    if (hint) it->second.hint = hint;
    constrain(symbol, range);
    return symbol;
  }
  symbols_.push_back(symbol);
  info_.emplace(symbol, Info{range, hint});
  if (range.low == range.high) replace(symbol, range.low);
  return symbol;
}

Expr ShapeEnv::add_unbacked(std::string_view name, Range range) {
  Expr symbol = context_.symbol(name, SymbolKind::Unbacked);
  if (info_.contains(symbol)) {
    constrain(symbol, range);
    return symbol;
  }
  symbols_.push_back(symbol);
  info_.emplace(symbol, Info{range, std::nullopt});
  if (range.low == range.high) replace(symbol, range.low);
  return symbol;
}

Expr ShapeEnv::fresh_unbacked(Range range) {
  std::string name;
  do name = fmt::format("u{}", next_unbacked_++);
  while (context_.find(name));
  return add_unbacked(name, range);
}

Range ShapeEnv::range(Expr symbol) const {
  if (auto it = info_.find(symbol); it != info_.end()) return it->second.range;
  COIL_CHECK(symbol.is_symbol(), "the range of an expression that is not a symbol");
  return symbol.symbol_kind() == SymbolKind::Unbacked ? Range{} : Range{0, Range::kMax};
}

void ShapeEnv::constrain(Expr symbol, Range range) {
  if (auto it = replacements_.find(symbol); it != replacements_.end()) {
    const Expr by = it->second;
    if (range.low != Range::kMin) learn(ge(by, range.low));
    if (range.high != Range::kMax) learn(le(by, range.high));
    return;
  }
  Range old = this->range(symbol), narrowed = interval_intersect(old, range);
  if (narrowed.low > narrowed.high)
    fail("the size {} would have to lie in [{}, {}] and in [{}, {}]", symbol.name(), old.low, old.high, range.low,
         range.high);
  if (narrowed == old) return;
  info_[symbol].range = narrowed;
  if (narrowed.low == narrowed.high) replace(symbol, narrowed.low);
}

void ShapeEnv::learn_multiple_of(Expr e, std::int64_t divisor) {
  if (divisor < 0) divisor = checked_negate(divisor);
  if (divisor < 2 || e.is_constant()) return;
  std::int64_t& known = multiples_.try_emplace(e, 1).first->second;
  std::int64_t common = known / gcd(known, divisor);
  if (!__builtin_mul_overflow(common, divisor, &common)) known = common;
}

void ShapeEnv::replace(Expr symbol, Expr by) {
  COIL_CHECK(symbol.is_symbol(), "the replacement of an expression that is not a symbol");
  by = resolve(by);
  if (by == symbol) return;
  if (contains(by, symbol)) fail("{} cannot be {}, which contains it", symbol.name(), to_string(by));
  if (auto it = replacements_.find(symbol); it != replacements_.end()) {
    if (it->second != by) learn(eq(it->second, by));
    return;
  }
  const Range known = range(symbol);
  if (auto c = by.constant(); c && (*c < known.low || *c > known.high))
    fail("the size {} cannot be {}: it lies in [{}, {}]", symbol.name(), *c, known.low, known.high);
  const Expr from[] = {symbol}, to[] = {by};
  for (auto& [_, old] : replacements_) old = substitute(old, from, to);
  replacements_.emplace(symbol, by);
  if (by.is_symbol())
    if (auto it = info_.find(by); it != info_.end() && !it->second.hint && info_.contains(symbol))
      it->second.hint = info_[symbol].hint;
  // What was known of the symbol is now known of its replacement.
  if (!by.is_constant()) constrain(symbol, known);
  std::vector<std::pair<Expr, std::int64_t>> multiples;
  for (const auto& [e, divisor] : multiples_)
    if (contains(e, symbol)) multiples.emplace_back(e, divisor);
  for (const auto& [e, divisor] : multiples) learn_multiple_of(substitute(e, from, to), divisor);
  const std::vector<Expr> facts = std::exchange(facts_, {});
  for (const Expr& fact : facts) {
    if (contains(fact, symbol))
      learn(fact);
    else
      facts_.push_back(fact);
  }
}

Expr ShapeEnv::resolve(Expr e) const {
  if (replacements_.empty() || e.is_constant()) return e;
  if (e.is_symbol()) {
    auto it = replacements_.find(e);
    return it == replacements_.end() ? e : it->second;
  }
  Exprs from, to;
  for (const auto& [symbol, by] : replacements_) {
    if (!(e.node()->symbol_filter & symbol.node()->symbol_filter)) continue;
    from.push_back(symbol);
    to.push_back(by);
  }
  return from.empty() ? e : substitute(e, from, to);
}

void ShapeEnv::learn(Expr condition) {
  const Expr given = condition;
  condition = simplify(condition);
  if (auto c = condition.constant()) {
    if (!*c) fail("the sizes cannot satisfy {}", to_string(given));
    return;
  }
  auto o = condition.operands();
  switch (condition.kind()) {
    case Kind::And:
      for (const Expr& part : o) learn(part);
      return;
    case Kind::Le:
    case Kind::Lt:
      if (o[0].is_constant() && o[1].is_symbol())
        constrain(o[1], {*o[0].constant(), Range::kMax});
      else if (o[1].is_constant() && o[0].is_symbol())
        constrain(o[0], {Range::kMin, *o[1].constant()});
      else
        facts_.push_back(condition);
      return;
    case Kind::Eq: return learn_equal(condition);
    case Kind::Ne:
      for (std::size_t side : {0, 1}) {
        auto c = o[1 - side].constant();
        Expr symbol = o[side];
        if (!c || !symbol.is_symbol()) continue;
        Range r = range(symbol);
        if (r.low == *c) constrain(symbol, {*c + 1, Range::kMax});
        if (r.high == *c) constrain(symbol, {Range::kMin, *c - 1});
      }
      facts_.push_back(condition);
      return;
    default: facts_.push_back(condition);
  }
}

std::size_t ShapeEnv::place_of(Expr unbacked) const {
  const auto found = places_.find(unbacked);
  return found == places_.end() ? places_.size() : found->second;
}

void ShapeEnv::learn_equal(Expr condition) {
  Expr left = condition.operands()[0], right = condition.operands()[1];
  for (auto [a, b] : {std::pair(left, right), std::pair(right, left)})
    if (a.kind() == Kind::Mod && b.is_constant(0) && a.operands()[1].is_constant()) {
      learn_multiple_of(a.operands()[0], *a.operands()[1].constant());
      return;
    }
  // A symbol that stands in it once, with coefficient 1 or -1: unbacked ones and later ones are replaced first, so that
  // what is defined early is not said in terms of what is defined later.
  Expr difference = left - right;
  std::vector<Expr> candidates = free_symbols(difference);
  std::ranges::stable_sort(candidates, [](Expr a, Expr b) {
    return a.symbol_kind() == SymbolKind::Unbacked && b.symbol_kind() != SymbolKind::Unbacked;
  });
  auto first_size = std::ranges::find_if(candidates, [](Expr e) { return e.symbol_kind() != SymbolKind::Unbacked; });
  std::reverse(candidates.begin(), first_size);
  std::stable_sort(candidates.begin(), first_size, [&](Expr a, Expr b) { return place_of(a) > place_of(b); });
  std::reverse(first_size, candidates.end());
  for (const Expr& symbol : candidates) {
    auto linear = linear_in(difference, symbol);
    if (!linear) continue;
    if (linear->coefficient.is_constant(1)) return replace(symbol, -linear->rest);
    if (linear->coefficient.is_constant(-1)) return replace(symbol, linear->rest);
  }
  facts_.push_back(condition);
}

std::optional<std::int64_t> ShapeEnv::hint(Expr e) const {
  return value_of(e, [&](Expr symbol) -> std::optional<std::int64_t> {
    const auto it = info_.find(symbol);
    return it == info_.end() ? std::nullopt : it->second.hint;
  });
}

std::optional<std::int64_t> ShapeEnv::hint_with(Expr e, std::int64_t number) const {
  return value_of(e, [&](Expr symbol) -> std::optional<std::int64_t> {
    const auto it = info_.find(symbol);
    if (it == info_.end()) return number;
    const auto& [range, hint] = it->second;
    return hint.value_or(std::clamp(number, range.low, range.high));
  });
}

std::optional<std::int64_t> ShapeEnv::value_of(Expr e, const ValueOfSymbol& value) const {
  if (auto c = e.constant()) return c;
  e = resolve(e);
  if (auto c = e.constant()) return c;
  for (const Expr& symbol : free_symbols(e))
    if (!value(symbol)) return std::nullopt;
  try {
    return evaluate(e, [&](Expr symbol) { return *value(symbol); });
  } catch (const Error&) {
    return std::nullopt;  // a division by a hint of 0, or an overflow
  }
}

bool ShapeEnv::decide(Expr condition, std::string_view reason) {
  Expr known = simplify(condition);
  if (auto c = known.constant()) return *c != 0;
  if (has_symbol_of(known, SymbolKind::Unbacked))
    fail("{} depends on the data ({}): whether {} is not known before the run", reason, to_string(known),
         to_string(condition));
  auto value = hint(known);
  if (!value) fail("{} asks whether {}, and there is no example size to decide it by", reason, to_string(known));
  add_guard(*value ? known : logical_not(known), std::string(reason));
  return *value != 0;
}

std::int64_t ShapeEnv::specialize(Expr e, std::string_view reason) {
  Expr known = simplify(e);
  if (auto c = known.constant()) return *c;
  if (has_symbol_of(known, SymbolKind::Unbacked))
    fail("{} needs the value of {}, which depends on the data", reason, to_string(known));
  auto value = hint(known);
  if (!value) fail("{} needs the value of {}, and there is no example size to take it from", reason, to_string(known));
  add_guard(eq(known, *value), std::string(reason));
  return *value;
}

void ShapeEnv::add_guard(Expr condition, std::string reason) {
  condition = simplify(condition);
  if (auto c = condition.constant()) {
    if (!*c) fail("the condition of {} can never hold", reason);
    return;
  }
  guards_.push_back({condition, std::move(reason)});
  learn(condition);
}

}  // namespace coil::sym
