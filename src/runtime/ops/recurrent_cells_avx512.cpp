#ifdef __AVX512F__
#define COIL_CELL_BYTES 64
#include "runtime/ops/recurrent_cell_loops.h"

namespace coil::runtime::cells {

extern const Kernels kAvx512 = kKernels;

}  // namespace coil::runtime::cells
#endif
