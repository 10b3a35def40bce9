// The pass that leaves no complex tensor but in a program's inputs and outputs.
#pragma once
#include "fx/graph.h"

namespace coil::passes {

/// Complex tensors become two real ones, their parts, by the tables in passes/complex/. Throws Error naming an operator that these do not have.
void split_complex(fx::GraphModule&);

}  // namespace coil::passes
