#ifdef __AVX512F__
#define COIL_FOURIER_BYTES 64
#include "runtime/ops/fourier/loops.h"

namespace coil::runtime::fourier {

extern const Kernels kAvx512 = kKernels;

}  // namespace coil::runtime::fourier
#endif
