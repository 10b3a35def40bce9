// Sorting: how much of a row a block has in shared memory, and by which method it orders that.
#pragma once
#include <cstddef>

#include "codegen/heuristics/launch_config.h"

namespace coil::codegen {

struct SortFacts {
  std::size_t element_bytes = 4;
  std::int64_t shared_bytes = 40000;  ///< that a block may have
  /// The least power of two, 64 to 4096, that a row is known to have no more elements than; 0: none is known.
  int longest = 0;
  bool in_pieces = false;   ///< a block has a piece of a row, not the row
  bool has_digits = false;  ///< elements are ordered as unsigned numbers are
  bool first_only = false;  ///< only the first elements are wanted
};

struct SortPlan {
  LaunchConfig config;     ///< `tile` is the elements that a block orders at once
  bool fits = false;       ///< a row, or a piece of one, is certain to fit the block's tile
  bool by_digits = false;  ///< digit by digit where the row fits, else by comparisons
};

SortPlan plan_sort(const SortFacts&);
/// The launch config for a merge of two runs in order into one: a block makes `tile` elements of the result.
LaunchConfig merge_config(std::size_t element_bytes, std::int64_t shared_bytes);

/// Threads of blocks that sort by digits: one for each value of a digit.
inline constexpr int kRadixThreads = 256;
/// A block counts the digits of `tile` elements.
LaunchConfig digit_count_config();
/// A block finds one element of a row of so many, a hint: more threads for a long one.
LaunchConfig select_config(std::int64_t length);

}  // namespace coil::codegen
