#define COIL_FOURIER_BYTES 16  // what every x86-64 and ARM processor has
#include "runtime/ops/fourier/kernels.h"

#include "runtime/ops/fourier/loops.h"
#include "support/best_loops.h"

namespace coil::runtime::fourier {

const Kernels& kernels_of_this_machine() {
  static const Kernels* const best = best_loops<Kernels>(COIL_ON_X86(&kAvx512), COIL_ON_X86(&kAvx2), &kKernels);
  return *best;
}

}  // namespace coil::runtime::fourier
