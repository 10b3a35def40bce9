// Random expressions: construction, simplification, printing and parsing keep the value at random points.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>

#include "support/error.h"
#include "sym/print.h"
#include "sym/shape_env.h"

namespace coil::sym {
namespace {

using Values = std::unordered_map<Expr, std::int64_t>;

/// An expression as it was asked for, before any canonicalisation, and its value by the definition of the operators.
struct Tree {
  Kind kind;
  Expr leaf = 0;
  std::vector<Tree> below = {};
};

std::optional<std::int64_t> value_of(const Tree& t, const Values& values) {
  if (t.kind == Kind::Constant) return *t.leaf.constant();
  if (t.kind == Kind::Symbol) return values.at(t.leaf);
  if (t.kind == Kind::Where) {
    auto condition = value_of(t.below[0], values);
    return condition ? value_of(t.below[*condition ? 1 : 2], values) : std::nullopt;
  }
  std::vector<std::int64_t> v;
  for (const Tree& b : t.below) {
    auto x = value_of(b, values);
    if (!x || *x > 1'000'000'000 || *x < -1'000'000'000) return std::nullopt;
    v.push_back(*x);
  }
  auto divide = [](std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); };
  switch (t.kind) {
    case Kind::Add: return v[0] + v[1];
    case Kind::Mul: return v[0] * v[1];
    case Kind::FloorDiv: return v[1] ? std::optional(divide(v[0], v[1])) : std::nullopt;
    case Kind::CeilDiv: return v[1] ? std::optional(-divide(-v[0], v[1])) : std::nullopt;
    case Kind::Mod: return v[1] ? std::optional(v[0] - v[1] * divide(v[0], v[1])) : std::nullopt;
    case Kind::Min: return std::min(v[0], v[1]);
    case Kind::Max: return std::max(v[0], v[1]);
    case Kind::Eq: return v[0] == v[1];
    case Kind::Ne: return v[0] != v[1];
    case Kind::Lt: return v[0] < v[1];
    case Kind::Le: return v[0] <= v[1];
    case Kind::And: return v[0] && v[1];
    case Kind::Or: return v[0] || v[1];
    case Kind::Not: return !v[0];
    case Kind::BitAnd: return v[0] & v[1];
    default: ADD_FAILURE(); return 0;
  }
}

/// As it was asked for: every operator a function of its kind's name.
std::string text_of(const Tree& t) {
  if (t.below.empty()) return to_string(t.leaf);
  static const std::map<Kind, const char*> kNames = {
      {Kind::Add, "Add"},         {Kind::Mul, "Mul"},     {Kind::FloorDiv, "FloorDiv"},
      {Kind::CeilDiv, "CeilDiv"}, {Kind::Mod, "Mod"},     {Kind::Min, "Min"},
      {Kind::Max, "Max"},         {Kind::Where, "Where"}, {Kind::Eq, "Eq"},
      {Kind::Ne, "Ne"},           {Kind::Lt, "Lt"},       {Kind::Le, "Le"},
      {Kind::And, "And"},         {Kind::Or, "Or"},       {Kind::Not, "Not"},
      {Kind::BitAnd, "BitAnd"}};
  std::string out = kNames.at(t.kind), separator = "(";
  for (const Tree& b : t.below) out += separator + text_of(b), separator = ", ";
  return out + ")";
}

Expr build(const Tree& t) {
  if (t.below.empty()) return t.leaf;
  Exprs operands;
  for (const Tree& b : t.below) operands.push_back(build(b));
  return make(t.kind, operands);
}

struct SymProperty : testing::Test {
  std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random{seed};
  ShapeEnv env;
  std::vector<Expr> sizes;
  std::vector<LoopVar> loops;
  bool divisible = false;  // s2 is a multiple of 4
  bool related = false;    // by the conditions below

  std::int64_t pick(std::int64_t low, std::int64_t high) { return std::uniform_int_distribution(low, high)(random); }

  void SetUp() override {
    RecordProperty("seed", std::to_string(seed));
    sizes = {env.add_size("s0", std::nullopt), env.add_size("s1", std::nullopt, {1, 40}),
             env.add_size("s2", std::nullopt, {2, Range::kMax})};
    Expr i0 = env.loop_var("i0"), i1 = env.loop_var("i1"), i2 = env.loop_var("i2"), r0 = env.loop_var("r0");
    loops = {{i0, sizes[0]}, {i1, 8}, {i2, sizes[1]}, {r0, floor_div(sizes[2] + 1, 2)}};
  }

  Tree constant() {
    static constexpr std::int64_t kLikely[] = {-4, -3, -2, -1, 0, 1, 1, 2, 2, 3, 4, 4, 6, 7, 8, 8, 9, 12, 16, 64};
    return {Kind::Constant, kLikely[pick(0, std::ssize(kLikely) - 1)]};
  }
  Tree symbol() {
    std::int64_t k = pick(0, 6);
    return {Kind::Symbol, k < 3 ? sizes[static_cast<std::size_t>(k)] : loops[static_cast<std::size_t>(k - 3)].var};
  }
  Tree condition(int depth) {
    static constexpr Kind kKinds[] = {Kind::Eq, Kind::Ne, Kind::Lt, Kind::Le, Kind::And, Kind::Or, Kind::Not};
    Kind kind = kKinds[pick(0, depth > 0 ? 6 : 3)];
    if (kind == Kind::Not) return {kind, 0, {condition(depth - 1)}};
    if (kind == Kind::And || kind == Kind::Or) return {kind, 0, {condition(depth - 1), condition(depth - 1)}};
    return {kind, 0, {tree(depth - 1), tree(depth - 1)}};
  }
  Tree divisor(int depth) {
    std::int64_t k = pick(0, 9);
    if (k < 5) return constant();
    if (k < 8) return {Kind::Symbol, sizes[static_cast<std::size_t>(k - 5)]};
    if (k == 8) return {Kind::Mul, 0, {symbol(), divisor(depth - 1)}};
    return tree(depth - 1);
  }
  Tree tree(int depth) {
    if (depth <= 0) return pick(0, 2) ? symbol() : constant();
    switch (pick(0, 15)) {
      case 0: return constant();
      case 1: return symbol();
      case 2:
      case 3:
      case 4:
      case 5: return {Kind::Add, 0, {tree(depth - 1), tree(depth - 1)}};
      case 6:
      case 7:
      case 8: return {Kind::Mul, 0, {tree(depth - 1), pick(0, 1) ? constant() : tree(depth - 1)}};
      case 9:
      case 10: return {Kind::FloorDiv, 0, {tree(depth - 1), divisor(depth - 1)}};
      case 11:
      case 12: return {Kind::Mod, 0, {tree(depth - 1), divisor(depth - 1)}};
      case 13: return {pick(0, 1) ? Kind::Min : Kind::Max, 0, {tree(depth - 1), tree(depth - 1)}};
      case 14: return {Kind::Where, 0, {condition(depth - 1), tree(depth - 1), tree(depth - 1)}};
      default: return {pick(0, 2) ? Kind::CeilDiv : Kind::BitAnd, 0, {tree(depth - 1), divisor(depth - 1)}};
    }
  }

  /// Sizes in their ranges, small ones more often; loop variables in theirs. No loop whose variable is in `e` is empty.
  Values point(Expr e) {
    Values v;
    v[sizes[0]] = pick(contains(e, loops[0].var) ? 1 : 0, pick(0, 1) ? 4 : 70);
    v[sizes[1]] = pick(1, pick(0, 1) ? 4 : 40);
    v[sizes[2]] = divisible ? 4 * pick(1, 12) : pick(2, pick(0, 1) ? 5 : 70);
    if (related) {  // s1 < s0 + s2, 2*s0 <= s2 + 1, s0 + s2 != 9
      v[sizes[2]] = std::max(v[sizes[2]], v[sizes[1]] + 1);
      v[sizes[2]] = std::max(v[sizes[2]], 2 * v[sizes[0]] - 1);
      v[sizes[2]] += v[sizes[0]] + v[sizes[2]] == 9;
    }
    for (const LoopVar& l : loops)
      v[l.var] = pick(0, std::max<std::int64_t>(evaluate(l.size, [&](Expr s) { return v.at(s); }), 1) - 1);
    return v;
  }

  std::string explain(Expr e, Expr simplified, const Values& v) {
    std::string text = fmt::format("seed {}\n  {}\n  {}\n ", seed, to_string(e), to_string(simplified));
    for (Expr s : sizes) text += fmt::format(" {}={}", s.name(), v.at(s));
    for (const LoopVar& l : loops) text += fmt::format(" {}={}", l.var.name(), v.at(l.var));
    return text;
  }

  /// Tries `count` expressions, a fifth of them with sanitizers, or as many as COIL_SYM_COUNT says.
  void check(long count, int max_depth) {
#ifdef COIL_SANITIZED
    count /= 5;
#endif
    if (const char* given = std::getenv("COIL_SYM_COUNT")) count = std::atol(given);
    int changed = 0, proved = 0;
    for (long i = 0; i < count; ++i) {
      Tree t = i % 4 ? tree(static_cast<int>(pick(1, max_depth))) : condition(static_cast<int>(pick(1, max_depth)));
      Expr e, simplified;
      try {
        e = build(t);
        simplified = env.simplify(e, loops);
      } catch (const Error&) {
        continue;  // a division by a constant zero
      }
      changed += simplified != e;
      proved += simplified.is_constant() && !e.is_constant();
      Range bounds = env.bounds(e, loops);
      for (int k = 0; k < 3; ++k) {
        Values v = point(e);
        auto expected = value_of(t, v);
        if (!expected) continue;
        auto at = [&](Expr s) { return v.at(s); };
        ASSERT_EQ(*expected, evaluate(e, at)) << explain(e, e, v);
        ASSERT_EQ(*expected, evaluate(simplified, at)) << explain(e, simplified, v);
        ASSERT_TRUE(bounds.low <= *expected && *expected <= bounds.high)
            << explain(e, simplified, v) << "\n  bounds [" << bounds.low << ", " << bounds.high << "], value "
            << *expected;
      }
    }
    RecordProperty("changed", changed);
    RecordProperty("proved", proved);
  }

  /// For a script that checks what is written: starts again from COIL_SYM_SEED, where it is given, and says how many
  /// COIL_SYM_COUNT asks for.
  long seed_and_count() {
    if (const char* given = std::getenv("COIL_SYM_SEED")) random.seed(std::strtoull(given, nullptr, 10));
    const char* count = std::getenv("COIL_SYM_COUNT");
    return count ? std::atol(count) : 1000;
  }
};

TEST_F(SymProperty, SmallExpressionsKeepTheirValues) { check(150'000, 3); }

TEST_F(SymProperty, LargeExpressionsKeepTheirValues) { check(50'000, 5); }

/// Pairs for a solver to prove equal (test_simplifier.py): COIL_SYM_PAIRS names the file that they go to,
/// COIL_SYM_COUNT says how many, COIL_SYM_SEED makes them again.
TEST_F(SymProperty, PairsForASolver) {
  const char* path = std::getenv("COIL_SYM_PAIRS");
  if (!path) GTEST_SKIP() << "only where COIL_SYM_PAIRS names a file";
  std::ofstream file(path);
  for (long left = seed_and_count(); left > 0;) {
    const Tree t = left % 4 ? tree(static_cast<int>(pick(1, 3))) : condition(2);
    try {
      const Expr e = build(t), simplified = env.simplify(e, loops);
      file << text_of(t) << "\t" << to_string(simplified) << "\n";
      --left;
    } catch (const Error&) {  // a division by a constant zero
    }
  }
}

/// The value of every part of it, each of which a width of 32 bits must hold.
bool fits_32_bits(Expr e, const std::function<std::int64_t(Expr)>& at) {
  const std::int64_t v = evaluate(e, at);
  return v == static_cast<std::int32_t>(v) &&
         std::ranges::all_of(e.operands(), [&](Expr o) { return fits_32_bits(o, at); });
}

/// One expression a line in every language, with points and values (test_printers.py): COIL_SYM_TEXTS names the file,
/// COIL_SYM_COUNT says how many, COIL_SYM_SEED makes them again.
TEST_F(SymProperty, TextsForLanguages) {
  const char* path = std::getenv("COIL_SYM_TEXTS");
  if (!path) GTEST_SKIP() << "only where COIL_SYM_TEXTS names a file";
  std::ofstream file(path);
  const std::pair<const char*, Language> languages[] = {{"cpp", Language::Cpp},
                                                        {"cuda", Language::Cuda},
                                                        {"metal", Language::Metal},
                                                        {"triton", Language::Triton},
                                                        {"python", Language::Python}};
  for (auto& [word, language] : languages) std::ofstream(fmt::format("{}.{}", path, word)) << code_helpers(language);
  auto name = [](Expr s) { return std::string(s.name()); };
  auto nonnegative = [&](Expr x) { return env.bounds(x, loops).low >= 0; };
  for (long left = seed_and_count(), turn = 0; left > 0; ++turn) {
    const bool narrow = left % 2;
    Tree t = turn % 4 ? tree(static_cast<int>(pick(1, 4))) : condition(3);
    if (turn % 8 == 5)
      t = {std::array{Kind::Pow, Kind::ShiftLeft, Kind::ShiftRight, Kind::BitOr,
                      Kind::BitXor}[static_cast<std::size_t>(pick(0, 4))],
           0,
           {tree(1), {Kind::Symbol, loops[1].var}}};  // by 0 to 7
    std::string line;
    try {
      const Expr e = turn % 3 ? env.simplify(build(t), loops) : build(t);
      std::string points;
      for (int k = 0; k < 3; ++k) {
        const Values v = point(e);
        auto at = [&](Expr s) { return v.at(s); };
        if (narrow && !fits_32_bits(e, at)) continue;
        points += fmt::format("\t{}", evaluate(e, at));
        for (Expr s : sizes) points += fmt::format(" {}", v.at(s));
        for (const LoopVar& l : loops) points += fmt::format(" {}", v.at(l.var));
      }
      if (points.empty()) continue;
      line = narrow ? "32" : "64";
      for (auto& [word, language] : languages)
        line += "\t" + to_code(language, e, name, nonnegative, narrow ? IntWidth::Bits32 : IntWidth::Bits64);
      file << line << points << "\n";
      --left;
    } catch (const Error&) {  // a division by zero, a value beyond 64 bits, a constant beyond 32
    }
  }
}

TEST_F(SymProperty, KnownMultiplesKeepValues) {
  env.learn(eq(mod(sizes[2], 4), 0));
  divisible = true;
  check(50'000, 4);
}

TEST_F(SymProperty, FactsKeepValues) {
  env.learn(le(sizes[0] * 2, sizes[2] + 1));
  env.learn(ne(sizes[0] + sizes[2], 9));
  env.learn(lt(sizes[1], sizes[2] + sizes[0]));
  related = true;
  check(50'000, 4);
}

/// Coordinates of a view of one shape seen through another whose dimensions are products of neighbours: no division may
/// be left.
TEST_F(SymProperty, ViewsOfMergedDimensionsNeedNoDivision) {
  for (int round = 0; round < 3000; ++round) {
    const Expr choices[] = {
        2, 3, 4, 8, 64, sizes[0], sizes[1], sizes[2], sizes[0] * 2, sizes[1] + 1, floor_div(sizes[2], 2)};
    Exprs shape, index;
    std::vector<LoopVar> nest;
    for (int d = 0; d < 4; ++d) {
      shape.push_back(choices[pick(0, std::ssize(choices) - 1)]);
      index.push_back(env.loop_var(fmt::format("v{}", d)));
      nest.push_back({index.back(), shape.back()});
    }
    Expr flat = 0;
    for (std::size_t d = 0; d < 4; ++d) flat = flat * shape[d] + index[d];
    std::size_t begin = static_cast<std::size_t>(pick(0, 3)),
                end = static_cast<std::size_t>(pick(static_cast<std::int64_t>(begin) + 1, 4));
    Expr inner = product(std::span(shape).subspan(end)), middle = product(std::span(shape).subspan(begin, end - begin));
    Expr coordinate = mod(floor_div(flat, inner), middle), expected = 0;
    for (std::size_t d = begin; d < end; ++d) expected = expected * shape[d] + index[d];
    ASSERT_EQ(env.simplify(coordinate, nest), env.simplify(expected, nest))
        << "seed " << seed << "\n  " << to_string(coordinate) << "\n  " << to_string(env.simplify(coordinate, nest))
        << "\n  " << to_string(expected);
  }
}

TEST_F(SymProperty, TextParsesBackToTheSameExpression) {
  for (int i = 0; i < 30'000; ++i) {
    Tree t = i % 4 ? tree(static_cast<int>(pick(1, 5))) : condition(4);
    Expr e;
    try {
      e = build(t);
    } catch (const Error&) {
      continue;
    }
    std::string text = to_string(e);
    Expr back = parse(text, [&](std::string_view name) { return *env.context().find(name); });
    ASSERT_EQ(e, back) << "seed " << seed << "\n  " << text << "\n  " << to_string(back);
  }
}

TEST_F(SymProperty, RebuildingChangesNothing) {
  for (int i = 0; i < 30'000; ++i) {
    Tree t = tree(static_cast<int>(pick(1, 5)));
    try {
      Expr e = build(t);
      if (e.operands().empty()) continue;
      ASSERT_EQ(e, make(e.kind(), e.operands())) << "seed " << seed << "\n  " << to_string(e);
    } catch (const Error&) {}
  }
}

}  // namespace
}  // namespace coil::sym
