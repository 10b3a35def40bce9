// Constants that no line uses need not travel with the program: weights that were packed, or whose readers were fused
// away.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

void drop_unused_constants(Program&);

}  // namespace coil::wrapper
