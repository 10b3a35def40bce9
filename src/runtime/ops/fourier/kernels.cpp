#define COIL_FOURIER_BYTES 16  // what every x86-64 and ARM processor has
#include "runtime/ops/fourier/kernels.h"

#include "runtime/ops/fourier/loops.h"
#include "support/cpu.h"

namespace coil::runtime::fourier {

const Kernels& kernels_of_this_machine() {
#ifdef __x86_64__
  static const bool widest = machine_runs("avx512"), wide = machine_runs("avx2");
  if (widest) return kAvx512;
  if (wide) return kAvx2;
#endif
  return kKernels;
}

}  // namespace coil::runtime::fourier
