// The memory through which the tiles of a scan's long rows tell each other what they come to: the second buffer of a
// Scan that has two, all zeros before it.
#pragma once
#include "sym/expr.h"

namespace coil::ir {

/// In words of eight bytes: two that count the tiles begun, and for each row two for every tile and for every group of
/// tiles, a mark and a value. Tiles have kSmallest elements at least.
struct ScanState {
  static constexpr std::int64_t kSmallest = 1024, kGroup = 32;
  sym::Expr tiles, groups;  ///< of a row, at most
  explicit ScanState(sym::Expr length)
      : tiles(sym::ceil_div(length, kSmallest)), groups(sym::ceil_div(length, kSmallest * kGroup)) {}
  sym::Expr row_words() const { return (tiles + groups) * 2; }
  sym::Expr words(sym::Expr rows) const { return rows * row_words() + 2; }
};

}  // namespace coil::ir
