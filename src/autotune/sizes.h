// The sizes that measurements are made at: hints of those that inputs have, and of those that only data tell what
// example inputs gave, or a number.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sym/shape_env.h"

namespace coil::autotune {

/// Unbacked symbols by name, as they were on example inputs.
using ToldSizes = std::map<std::string, std::int64_t, std::less<>>;

class MeasuredSizes {
 public:
  /// What an unbacked symbol is taken for that nobody tells, as far as its range goes.
  static constexpr std::int64_t kUntold = 8192;

  MeasuredSizes(const sym::ShapeEnv& env, const ToldSizes& told) : env_(env), told_(told) {}

  /// The value of an expression; nothing where it has a size of an input without a hint.
  std::optional<std::int64_t> operator()(sym::Expr) const;
  /// The value of an unbacked symbol.
  std::int64_t of(sym::Expr unbacked) const;

 private:
  const sym::ShapeEnv& env_;
  const ToldSizes& told_;
};

}  // namespace coil::autotune
