// Kernels for NVIDIA GPUs: CUDA C++ text, compiled in this process by NVRTC.
#pragma once
#include "codegen/backend.h"
#include "codegen/cpp/toolchain.h"
#include "codegen/heuristics/alternatives.h"
#include "target/settings.h"

namespace coil::codegen {

/// The setting cuda.launch_config as a number. Throws Error where it is none.
int launch_config_of(const Settings&);
/// The setting cuda.alternatives; off where a row's bits must not depend on how many there are, as they would. Throws
/// Error where it is none of its values.
Alternatives alternatives_of(const Settings&);

struct CudaOptions {
  int device = 0;                ///< number of the GPU
  std::string arch;              ///< `sm_90a`; empty: that GPU's, `sm_90` where there is none
  std::string nvrtc;             ///< see Nvrtc
  bool dependent_launch = true;  ///< kernels may begin while the one before still runs, from sm_90 on
  int launch_config = 0;         ///< of every kernel whose group names none: its number among the candidates
  std::string cluster;           ///< blocks that share a long row, as digits; empty: as many as its length asks for
  Alternatives alternatives = Alternatives::Off;  ///< kernels for some of the sizes (Backend::alternatives)
};

std::unique_ptr<Backend> make_cuda_backend(CudaOptions, std::unique_ptr<scheduler::Choices> = nullptr);

/// The same kernels on the CPU, compiled behind a machine part that runs a block's threads one after another: for tests
/// of their values where there is no GPU.
std::unique_ptr<Backend> make_emulated_cuda_backend(Toolchain, std::unique_ptr<scheduler::Choices> = nullptr,
                                                    int launch_config = 0,
                                                    Alternatives alternatives = Alternatives::Off);

}  // namespace coil::codegen
