// Definitions of users' kernels, which graphs come with in their calls.
#pragma once
#include "fx/graph.h"

namespace coil::fx {

/// Takes the definitions out of the calls (ops/user_kernel.h) into the module's table, those of subgraphs too; what
/// stays in a call is the kernel's symbol. Throws Error on a call that does not fit its kernel.
void take_user_kernels(GraphModule&);

}  // namespace coil::fx
