// Operands that a library cannot take as they lie, copied through the workspace on the device.
#pragma once
#include <vector>

#include "runtime/cuda/driver/queue.h"

namespace coil::runtime::cuda {

/// A view of the queue's memory, borrowed.
Tensor tensor_at(const CudaQueue&, const void* data, const BoundView&);

/// Whether a library finds what lies as `given` where it is, when it is told that it lies as `shown` (the same sizes)
/// on kDeviceAlignment bytes.
bool lies_so(const BoundView& given, const BoundView& shown);

class DeviceStaging {
 public:
  /// A place in what `load` fills: where the library finds the operand.
  using Operand = std::size_t;

  Operand input(std::size_t index);
  /// Input `index`, which lies as `given`, as the library is shown it (the same sizes): copied before each run unless
  /// it lies so.
  Operand input(std::size_t index, const BoundView& given, const BoundView& shown);
  Operand output(std::size_t index);
  /// Likewise, copied after each run, and with `load` before it too.
  Operand output(std::size_t index, const BoundView& given, const BoundView& shown, bool load);
  Operand scratch(std::size_t bytes);

  std::size_t bytes() const { return bytes_; }
  std::size_t operands() const { return entries_.size(); }
  void load(CudaQueue&, std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
            std::span<void*> pointers) const;
  void store(CudaQueue&, std::span<void* const> outputs, std::span<void* const> pointers) const;

 private:
  enum class Source : std::uint8_t { Input, Output, Scratch };
  struct Entry {
    Source source = Source::Scratch;
    std::size_t index = 0, offset = 0;
    bool copied = false, loaded = false, stored = false;
    BoundView given, staged;
  };
  Operand add(Entry, std::size_t bytes);
  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace coil::runtime::cuda
