// What passes may know of the machine that a program is compiled for.
#pragma once
#include <string>

#include "tensor/device.h"

namespace coil::target {

struct Facts {
  Device device;
  std::string isa;           ///< instruction set or architecture that the kernels' binaries need: `avx512`, `sm_90a`
  int gpu_arch = 0;          ///< of a GPU, as in sm_90; 0 where kernels are for none
  bool gpu_kernels = false;  ///< kernels are those of a GPU: it is the device, or emulated on the CPU
};

/// Whether the CPU's libraries and kernels carry out the program.
inline bool on_cpu(const Facts& facts) { return facts.device.type == DeviceType::CPU && !facts.gpu_kernels; }

}  // namespace coil::target
