// The pass that leaves no complex tensor but in a program's inputs and outputs.
#pragma once
#include "fx/graph.h"

namespace coil::passes {

/// Complex tensors become two real ones, their parts, by the tables in passes/graph/complex/. Throws Error naming an
/// operator that these do not have. `widest`: the widest float that kernels compute in.
void split_complex(fx::GraphModule&, DType widest = DType::F64);
/// Whether the tables have every call that takes or gives complex tensors.
bool splits_complex(const fx::GraphModule&);
/// Torch's operators on complex tensors become calls of the host (`host.aten.…`), which no pass and no lowering takes
/// for others: all of them, so that they may hand each other complex tensors.
void leave_complex_to_host(fx::GraphModule&);

}  // namespace coil::passes
