// One CUDA device: the driver, the device's primary context, what it can do.
#pragma once
#include <memory>
#include <string>

#include "runtime/cuda/driver/driver.h"
#include "runtime/device/device.h"

namespace coil::runtime::cuda {

/// Holds the device's primary context, which it shares with everything else in the process (PyTorch among it).
class CudaDevice {
 public:
  /// Throws Error when there is no device of this number.
  CudaDevice(std::shared_ptr<const Driver>, int index);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Driver& driver() const { return *driver_; }
  Device device() const { return {DeviceType::CUDA, index_}; }
  ContextHandle context() const { return context_; }
  int capability() const { return capability_; }                   ///< 90 for compute capability 9.0
  int shared_bytes() const { return shared_bytes_; }               ///< that one block may ask for
  const std::string& name() const { return name_; }                ///< `NVIDIA H200`
  int cache_bytes() const { return cache_bytes_; }                 ///< of the second-level cache
  double bytes_per_second() const { return bytes_per_second_; }    ///< of its memory, at most
  double cycles_per_second() const { return cycles_per_second_; }  ///< of all its multiprocessors together
  /// `cuda:0 (NVIDIA H200)`.
  std::string describe() const;

 private:
  std::shared_ptr<const Driver> driver_;
  int index_;
  Ordinal ordinal_ = 0;
  ContextHandle context_ = nullptr;
  std::string name_;
  int capability_ = 0, shared_bytes_ = 0, cache_bytes_ = 0;
  double bytes_per_second_ = 0, cycles_per_second_ = 0;
};

/// Makes a device's context current in the calling thread for its lifetime.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaDevice&);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const CudaDevice& device_;
  ContextHandle before_ = nullptr;
};

/// Device `index` as the executor sees it. Throws Error when the machine has no driver or no such device.
std::shared_ptr<DeviceRuntime> open_cuda(int index);
/// The same with another driver library (tests bring one of their own).
std::shared_ptr<DeviceRuntime> open_cuda(int index, const std::string& driver_library);

}  // namespace coil::runtime::cuda
