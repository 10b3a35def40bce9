// Graphs inside graphs: bodies of branches and loops become blocks of operations in the program's own list.
#pragma once
#include <variant>
#include <vector>

#include "lowering/lowering.h"

namespace coil::lowering {

/// What a block takes or gives: a tensor (a float that the run computes is one of no dimensions), or a number by
/// expression.
using BlockValue = std::variant<TensorBox, ops::Value>;

/// Lowers a nested graph at the end of the list, with the options of the lowering around it; its placeholders stand for
/// the operands.
std::vector<BlockValue> lower_block(const fx::GraphModule&, const Context& outer,
                                    const std::vector<BlockValue>& operands);

}  // namespace coil::lowering
