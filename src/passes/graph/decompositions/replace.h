// Putting in place what a rewriting made.
#pragma once
#include "passes/graph/decompositions/rewriter.h"
#include "passes/graph/metadata.h"

namespace coil::passes {

/// The node gives way to what stands for it, in the layout that is recorded for it, and is erased; of several results
/// each goes where its `getitem` was. Sizes that thereby have another name are noted.
void replace_call(Rewriter&, const Value& made, Renaming&);

/// Null for an operator without.
const Decomposition* decomposition_of(std::string_view target);

}  // namespace coil::passes
