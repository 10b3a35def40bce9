#ifdef __AVX2__
#define COIL_FOURIER_BYTES 32
#include "runtime/ops/fourier/loops.h"

namespace coil::runtime::fourier {

extern const Kernels kAvx2 = kKernels;

}  // namespace coil::runtime::fourier
#endif
