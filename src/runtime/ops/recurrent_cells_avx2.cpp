#ifdef __AVX2__
#define COIL_CELL_BYTES 32
#include "runtime/ops/recurrent_cell_loops.h"

namespace coil::runtime::cells {

extern const Kernels kAvx2 = kKernels;

}  // namespace coil::runtime::cells
#endif
