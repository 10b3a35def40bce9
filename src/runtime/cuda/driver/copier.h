// Copies between layouts on the device, by a small kernel in PTX: it works where a program brings no kernel of its own
// and no compiler is there.
#pragma once
#include <memory>
#include <string>

#include "runtime/cuda/driver/device.h"
#include "tensor/tensor.h"

namespace coil::runtime::cuda {

class Copier {
 public:
  /// Throws Error when the driver cannot compile the kernel.
  explicit Copier(std::shared_ptr<const CudaDevice>);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Same dtype and sizes, both on the device; at most 8 dimensions are left after merging.
  void copy(const Tensor& to, const Tensor& from, Stream) const;

  /// The kernels' text.
  static std::string ptx();

 private:
  static constexpr std::size_t kRank = 8, kWidths = 5;
  std::shared_ptr<const CudaDevice> device_;
  Module module_ = nullptr;
  Function functions_[kWidths][2] = {};  ///< for elements of 1, 2, 4, 8, 16 bytes, many and fewer than 2^31
};

}  // namespace coil::runtime::cuda
