// A GPU's queue behind the C interface: what programs written as C++ for one are made of.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "coil/runtime.h"
#include "runtime/device/device.h"

/// `kernels` outlive the queue, whose end waits for its work.
struct coil_queue {
  std::shared_ptr<coil::runtime::DeviceRuntime> device;
  std::unique_ptr<coil::runtime::LoadedKernels> kernels;
  std::map<const void*, std::string> names;  ///< of kernels that were asked for
  std::unique_ptr<coil::runtime::Queue> queue;
};
