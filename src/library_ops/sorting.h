// Sorting along one dimension, and its steps as kernels: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::sorting {

inline constexpr std::string_view kSort = "sort", kTopk = "topk", kTiles = "sort_tiles", kMerge = "merge_runs",
                                  kCount = "radix_count", kPass = "radix_pass", kSelect = "select_rank";

inline constexpr Integer kDim{.name = "dim", .sentence = "The dimension that is sorted.", .fallback = -1};
inline constexpr Flag kDescending{.name = "descending", .sentence = "The greatest first."};
inline constexpr Flag kStable{.name = "stable", .sentence = "What the program asked for; it is stable always."};
inline constexpr Integer kFirst{.name = "first", .sentence = "The rank that the results begin with."};
inline constexpr Flag kMiddle{.name = "middle", .sentence = "They begin with the lower middle of the row instead."};
inline constexpr Integer kBits{.name = "bits",
                               .sentence = "Only the lowest bits may differ, and no element is negative.",
                               .presence = Presence::Optional};
inline constexpr Flag kLargest{.name = "largest", .sentence = "Takes the greatest, else the least.", .fallback = true};
inline constexpr Flag kSorted{.name = "sorted", .sentence = "What the program asked for; they are in order always."};
inline constexpr Integer kTile{.name = "tile", .sentence = "Elements of a piece.", .presence = Presence::Required};
inline constexpr Integer kWidth{.name = "width", .sentence = "Elements of a run.", .presence = Presence::Required};
inline constexpr Integer kDigits{
    .name = "digits", .sentence = "Bytes of an element that may differ.", .presence = Presence::Required};
inline constexpr Integer kDigit{
    .name = "digit", .sentence = "Which digit, from the lowest.", .presence = Presence::Required};

/// Elements that a block of kernels orders at once in `shared_bytes` of its memory, each with its place there: a power
/// of two, at most 4096.
constexpr std::int64_t sorted_at_once(std::size_t element_bytes, std::int64_t shared_bytes) {
  const std::int64_t each = (element_bytes <= 4 ? 4 : 8) + 4;
  std::int64_t n = 4096;
  while (n > 64 && n * each > shared_bytes) n /= 2;
  return n;
}

}  // namespace coil::library_ops::sorting
