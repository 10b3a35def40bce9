// What a loaded model holds, for the executor's own files.
#pragma once
#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/seeds.h"

namespace coil::runtime {

struct Model::Impl {
  Plan plan;
  std::shared_ptr<DeviceRuntime> device;
  std::vector<std::shared_ptr<DeviceRuntime>> others;  ///< of plan.others
  std::vector<Tensor> constants;                       ///< each on its device
  std::shared_ptr<LoadedKernels> loaded;
  std::vector<std::shared_ptr<LoadedKernels>> loaded_others;  ///< on plan.others
  std::vector<std::uint32_t> constant_place;                  ///< for each constant the device that it lies on
  std::vector<const void*> kernels;                           ///< one for each of plan.kernels
  std::shared_ptr<Seeds> seeds = std::make_shared<Seeds>();
  Host host;                     ///< carries out what is left to it; may be empty
  bool states_in_place = false;  ///< contexts write to states where they lie among `constants`
  std::uint64_t weight_bytes = 0;
  std::string provenance;
};

}  // namespace coil::runtime
