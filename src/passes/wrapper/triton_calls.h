// Kernels whose text is Triton are called as kernels that users wrote in it.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Their calls become lines of users' kernels, which hold the text and no code yet.
void call_triton_kernels(Program&);

}  // namespace coil::wrapper
