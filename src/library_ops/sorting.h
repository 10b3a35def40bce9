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

}  // namespace coil::library_ops::sorting
