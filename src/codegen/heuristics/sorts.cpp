#include "codegen/heuristics/sorts.h"

#include <algorithm>

#include "ir/radix_state.h"
#include "library_ops/sorting.h"

namespace coil::codegen {
namespace {

constexpr int kSortThreads = 512;   // of a block that compares, at most
constexpr int kMergeThreads = 256;  // of a block that merges
constexpr int kLeastSorted = 64;
constexpr int kCounted = 8192;  // elements whose digits a block counts

}  // namespace

SortPlan plan_sort(const SortFacts& f) {
  int capacity = static_cast<int>(library_ops::sorting::sorted_at_once(f.element_bytes, f.shared_bytes));
  SortPlan plan{.fits = f.in_pieces || (f.longest > 0 && f.longest <= capacity)};
  // Short rows: less memory and fewer threads, and so more rows at a time.
  if (f.longest > 0) capacity = std::max(kLeastSorted, std::min(capacity, f.longest));
  // Fewer are compared sooner than their digits are counted; so are the first of a row that never fits.
  plan.by_digits = f.has_digits && capacity >= (f.element_bytes <= 4 ? 1024 : 2048) && (plan.fits || !f.first_only);
  plan.config.threads = plan.by_digits ? kRadixThreads : std::clamp(capacity / 4, 32, kSortThreads);
  plan.config.tile = capacity;
  return plan;
}

LaunchConfig merge_config(std::size_t element_bytes, std::int64_t shared_bytes) {
  const auto sorted = static_cast<int>(library_ops::sorting::sorted_at_once(element_bytes, shared_bytes));
  return {.threads = kMergeThreads, .tile = sorted / 2};
}

LaunchConfig digit_count_config() { return {.threads = kRadixThreads, .tile = kCounted}; }

LaunchConfig select_config(std::int64_t length) {
  return {.threads = length > 2 * ir::RadixState::kTile ? 4 * kRadixThreads : kRadixThreads};
}

}  // namespace coil::codegen
