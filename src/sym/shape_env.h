// What is known about symbols: ranges, divisibility, replacements, guards; and the two kinds of question asked of it.
//
// *Statically known* questions never guard and may answer no for want of knowledge. *Decide* questions answer by the
// hint, record a guard that the run checks, and take backed symbols only. No other code evaluates a hint to choose
// between code paths.
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/extension_api.h"
#include "sym/expr.h"

namespace coil::sym {

/// Inclusive bounds; the extreme int64 values mean "no bound".
struct Range {
  static constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t low = kMin, high = kMax;
  bool operator==(const Range&) const = default;
};

/// A loop variable that runs over [0, size).
struct LoopVar {
  Expr var, size;
};

/// A condition that must hold at run time, and where it came from in the user's terms.
struct Guard {
  Expr condition;
  std::string reason;
};

class COIL_EXTENSION_API ShapeEnv {
 public:
  ShapeEnv() = default;
  Context& context() { return context_; }

  /// A backed size symbol. `hint` is the value seen when the program was made, if known.
  Expr add_size(std::string_view name, std::optional<std::int64_t> hint, Range range = {0, Range::kMax});
  Expr add_unbacked(std::string_view name, Range range = {});
  /// The next free `u<N>`.
  Expr fresh_unbacked(Range range = {0, Range::kMax});
  /// The next symbol in the order in which a program defines those that data tell. Equal ones are said in terms of the
  /// first; of those that nothing was told about, the one that was added first counts as the first.
  void comes_next(Expr unbacked) { places_.try_emplace(unbacked, places_.size()); }
  Expr loop_var(std::string_view name) { return context_.symbol(name, SymbolKind::Loop); }
  std::vector<Expr> symbols() const { return symbols_; }  ///< sizes and unbacked, in order of addition

  Range range(Expr symbol) const;
  /// Narrows a symbol's range; throws Error when nothing is left.
  void constrain(Expr symbol, Range);
  /// Learns that `divisor` divides the expression.
  void learn_multiple_of(Expr e, std::int64_t divisor);
  /// From now on the symbol is this expression.
  void replace(Expr symbol, Expr by);
  /// Learns a fact (from `torch._check` and the like) without a guard: relations narrow ranges, equalities replace.
  void learn(Expr condition);

  /// Interval of an expression's values. Loop variables take theirs from `loops`, or [0, no bound).
  Range bounds(Expr, std::span<const LoopVar> loops = {}) const;
  /// With replacements made and what ranges and divisibility prove; index expressions also with their loops' extents,
  /// symbolic ones included: FloorDiv(i0*s0 + i1, s0) with i1 < s0 is i0. What has a loop variable in it is taken to be
  /// asked for only while that loop runs, so its size is at least 1.
  Expr simplify(Expr, std::span<const LoopVar> loops = {}) const;

  bool statically_known_true(Expr condition, std::span<const LoopVar> loops = {}) const;
  bool statically_known_equal(Expr a, Expr b) const { return statically_known_true(eq(a, b)); }
  bool statically_known_lt(Expr a, Expr b) const { return statically_known_true(lt(a, b)); }
  bool statically_known_le(Expr a, Expr b) const { return statically_known_true(le(a, b)); }
  /// Symbolic: 8*s0 is a multiple of 4 and of s0; nothing is evaluated.
  bool statically_known_multiple_of(Expr e, Expr divisor) const;

  /// The answer by hints, recorded as a guard unless statically known. Throws Error when an unbacked symbol is in it.
  bool decide(Expr condition, std::string_view reason);
  /// The value by hints, guarded to be that value.
  std::int64_t specialize(Expr e, std::string_view reason);
  /// The value with hints; nothing when a symbol has none. For estimates (sizes of tiles, orders of loops), never for
  /// correctness.
  std::optional<std::int64_t> hint(Expr) const;
  std::int64_t hint_or(Expr e, std::int64_t fallback) const { return hint(e).value_or(fallback); }
  /// The same where each symbol without a hint stands for `number`, or for the nearest that its range has: sizes that
  /// follow from one another fit together then, 8*u0 being eight times u0.
  std::optional<std::int64_t> hint_with(Expr, std::int64_t number) const;

  /// In the order they were made. They are knowledge from then on: simplify() turns each into 1, so check them as they
  /// are.
  const std::vector<Guard>& guards() const { return guards_; }
  /// Records the condition unless what is known implies it; throws Error where it contradicts what is known.
  void add_guard(Expr condition, std::string reason);

 private:
  struct Info {
    Range range;
    std::optional<std::int64_t> hint;
  };
  friend class Simplifier;

  using ValueOfSymbol = std::function<std::optional<std::int64_t>(Expr)>;
  /// Nothing where some symbol has no value.
  std::optional<std::int64_t> value_of(Expr, const ValueOfSymbol&) const;
  Expr resolve(Expr) const;  ///< with replacements made
  void learn_equal(Expr condition);
  std::size_t place_of(Expr unbacked) const;  ///< behind all others where nothing was told

  Context context_;
  std::vector<Expr> symbols_;
  std::unordered_map<Expr, Info> info_;
  std::unordered_map<Expr, Expr> replacements_;  ///< free of replaced symbols
  std::unordered_map<Expr, std::int64_t> multiples_;
  std::unordered_map<Expr, std::size_t> places_;  ///< of unbacked symbols, in the order in which they are defined
  std::vector<Expr> facts_;  ///< conditions known to hold that are neither ranges, replacements nor multiples
  std::vector<Guard> guards_;
  std::size_t next_unbacked_ = 0;
};

}  // namespace coil::sym
