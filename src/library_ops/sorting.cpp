#include "library_ops/sorting.h"

#include "library_ops/table.h"

namespace coil::library_ops {
namespace {

std::vector<AttributeInfo> order(std::vector<AttributeInfo> more = {}) {
  using namespace sorting;
  std::vector<AttributeInfo> all{kDim, kDescending, kStable, kBits};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::vector<Descriptor> sorting_ops() {
  using namespace sorting;
  const Operand x{"x", "any"}, values{"values", "like x"}, places{"places", "like x", "in x, i64"},
      state{"state", "words", "counts of digits and tiles' sums, 0 before the first pass"};
  return {
      {.name = std::string(kSort),
       .sentence = "Elements in order along a dimension, stably, NaN greater than every number. The results may be "
                   "shorter than x in the dimension: then they are what stands from a rank on.",
       .operands = {x},
       .results = {{"values", "like x, or shorter"}, {"places", "like values", "in x, i64"}},
       .attributes = order({kFirst, kMiddle})},
      {.name = std::string(kTopk),
       .sentence = "The greatest or least elements along a dimension, in order, equal ones by place; the results' size "
                   "says how many.",
       .operands = {x},
       .results = {{"values", "like x, or shorter"}, {"places", "like values", "in x, i64"}},
       .attributes = {kDim, kLargest, kSorted}},
      {.name = std::string(kTiles),
       .sentence = "Pieces of a row, each in order.",
       .operands = {x},
       .results = {values, places},
       .attributes = order({kTile}),
       .traits = {Trait::Kernel}},
      {.name = std::string(kMerge),
       .sentence = "Runs in order, put together two by two.",
       .operands = {values, places},
       .results = {values, places},
       .attributes = order({kTile, kWidth}),
       .traits = {Trait::Kernel}},
      {.name = std::string(kCount),
       .sentence = "Counts the values of all digits of a row.",
       .operands = {x},
       .results = {state},
       .attributes = order({kDigits}),
       .traits = {Trait::Kernel}},
      {.name = std::string(kPass),
       .sentence = "Puts a row in order of one digit, those of equal digits as they stood.",
       .operands = {x,
                    {.name = "places", .sizes = "like x", .sentence = "i64 or i32", .when = When::not_zero(kDigit)},
                    state},
       .results = {values, {"places", "like x", "i64 after the last digit"}, state},
       .attributes = order({kDigits, kDigit}),
       .traits = {Trait::Kernel}},
      {.name = std::string(kSelect),
       .sentence = "The one element of each row that would stand at a rank, and its place, as a stable sort has them.",
       .operands = {x},
       .results = {{"values", "like x, 1 in the dimension"}, {"places", "like values", "in x, i64"}},
       .attributes = order({kFirst, kMiddle}),
       .traits = {Trait::Kernel}},
  };
}

}  // namespace coil::library_ops
