// What passes share that make one launch of several.
#pragma once
#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>
#include <vector>

#include "wrapper/program.h"

namespace coil::wrapper {

/// Bytes of a temporary that may live longer so that launches become one.
inline constexpr std::int64_t kJoinedTemporary = 1 << 20;

inline bool meet(const std::set<BufferId>& a, const std::vector<BufferId>& b) {
  return std::ranges::any_of(b, [&](BufferId x) { return a.contains(x); });
}

/// No call moves over such a line: over a border of blocks, or to where its sizes are not known.
inline bool keeps_calls_apart(const Line& line) {
  return std::holds_alternative<Control>(line) || std::holds_alternative<ReadSymbol>(line) ||
         std::holds_alternative<SetSymbol>(line);
}

}  // namespace coil::wrapper
