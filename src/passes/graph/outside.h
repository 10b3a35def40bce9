// Decompositions of operators that are defined from outside, beside the tables of this folder.
#pragma once
#include <string_view>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

/// `decompose` rewrites calls of this operator so from now on. Throws Error when it has a decomposition already.
void define_decomposition(std::string_view target, Decomposition);

}  // namespace coil::passes
