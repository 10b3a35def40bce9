// Values that a program over several devices makes on one of them, and reads on the other.
#pragma once
#include "passes/graph/fold_constants.h"
#include "target/target.h"

namespace coil::passes {

/// What follows from no input but small constants, and is made on the CPU of a program over several devices to be read
/// on the other one alone, is made there: masks and positions that a model makes without saying where, and copies. It
/// would be copied in each run, and the other device would wait for it.
void make_where_read(fx::GraphModule&, const target::Target&, const IsLowered&);

}  // namespace coil::passes
