#include "library_ops/selection.h"

#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> selection_ops() {
  using namespace selection;
  return {
      {.name = std::string(kNonzero),
       .sentence = "The first row-major positions of true elements, as many as the result has, then -1.",
       .operands = {{"mask", "any", "dense"}},
       .results = {{"positions", "[N]", "i64"}},
       .attributes = {}},
      {.name = std::string(kRepeatPositions),
       .sentence = "Position 0 counts[0] times, position 1 counts[1] times, and so on.",
       .operands = {{"counts", "[N]", "i64"}},
       .results = {{"positions", "[the sum of counts]", "i64"}},
       .attributes = {}},
      {.name = std::string(kUnique),
       .sentence = "The distinct rows of a matrix; the first `number` rows and counts mean something.",
       .operands = {{"rows", "[N, M]", "dense"}},
       .results = {{"distinct", "[N, M]"},
                   {"inverse", "[N]", "which distinct row each row is, i64"},
                   {"counts", "[N]", "i64"},
                   {"number", "[]", "i64"}},
       .attributes = {kConsecutive}},
      {.name = std::string(kComplexParts),
       .sentence =
           "Complex numbers as pairs of real ones, pairs as complex numbers, or complex numbers in another place, "
           "bit for bit.",
       .operands = {{"x", "any", "a side that is not complex has a last dimension of 2 more"}},
       .results = {{"y", "any"}},
       .attributes = {}},
  };
}

}  // namespace coil::library_ops
