// Times kernels on a CUDA device, on memory of its own, with the second-level cache emptied before each launch.
#pragma once
#include <memory>

#include "autotune/timer.h"
#include "runtime/cuda/driver/device.h"

namespace coil::autotune {

/// Timer::identity of a device, for names of what was chosen on it; empty where it is not there.
std::string cuda_identity(int index);

class CudaTimer : public Timer {
 public:
  /// `isa`: what the kernels are compiled for. Throws Error when there is no such device, or kernels for `isa` do not
  /// run on it.
  CudaTimer(int index, std::string isa, const std::string& driver_library = "libcuda.so.1");
  ~CudaTimer() override;
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  const std::string& identity() const override { return identity_; }
  void load(std::span<const std::vector<std::byte>> libraries) override;
  std::vector<std::optional<double>> time(std::span<const Trial>) override;

 private:
  bool launch(const Trial&, runtime::cuda::Address memory);
  bool launch_with_maps(const Trial&, runtime::cuda::Function, std::vector<std::uint64_t>& words);
  std::optional<double> once(const Trial&, runtime::cuda::Address memory);

  std::shared_ptr<const runtime::cuda::CudaDevice> device_;
  std::string isa_, identity_;
  std::unique_ptr<runtime::LoadedKernels> kernels_;
  runtime::cuda::Stream stream_ = nullptr;
  runtime::cuda::Event begin_ = nullptr, end_ = nullptr;
  runtime::cuda::Address flushed_ = 0;  ///< memory that is written to, to empty the cache
  std::size_t flushed_bytes_ = 0;
};

}  // namespace coil::autotune
