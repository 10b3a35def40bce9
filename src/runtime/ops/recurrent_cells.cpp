#define COIL_CELL_BYTES 16  // what every x86-64 and ARM processor has
#include "runtime/ops/recurrent_cells.h"

#include "runtime/ops/recurrent_cell_loops.h"
#include "support/best_loops.h"

namespace coil::runtime::cells {

const Kernels& kernels_of_this_machine() {
  static const Kernels* const best = best_loops<Kernels>(COIL_ON_X86(&kAvx512), COIL_ON_X86(&kAvx2), &kKernels);
  return *best;
}

}  // namespace coil::runtime::cells
