// Sums of products in parts: where a result has fewer tiles than the machine has multiprocessors, several blocks share
// the sum of each, and a loop adds up what they found.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/ir.h"

namespace coil {

struct PartFacts {
  std::int64_t rows = 1, columns = 1, matrices = 1;  ///< known, or hints
  std::int64_t depth = 1;                            ///< elements of a sum
};

/// Into how many equal parts the sums of a product are worth being split, the best first; 1, which is no split, is
/// among them.
std::vector<std::int64_t> product_parts(const PartFacts&, const target::Costs&);

/// The parts for a call of `blocked_matmul`: 1 alone where its sums cannot be split.
std::vector<std::int64_t> product_parts(const ir::Graph&, const ir::Extern&);

/// What computes the call `own` in so many parts: a product that has the parts as one more dimension of its batch and
/// gives f32, a reduction that adds them up in order, and a loop that adds the bias and stores what `op` stored.
std::vector<ir::Operation> product_in_parts(ir::Graph&, const ir::Operation& op, const ir::Extern& own,
                                            std::int64_t parts);

}  // namespace coil
