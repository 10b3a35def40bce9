// A plain tensor: what archives hold, what runs take and give. On the host, but for what a run on another device gives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "support/extension_api.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace coil {

using Sizes = std::vector<std::int64_t>;

/// Strides, in elements, of a dense row-major tensor of these sizes (sizes of 0 count as 1, as in torch).
COIL_EXTENSION_API Sizes contiguous_strides(std::span<const std::int64_t> sizes);
/// Product of sizes; 1 for rank 0. Throws Error when it does not fit in int64.
COIL_EXTENSION_API std::int64_t numel(std::span<const std::int64_t> sizes);

/// Bytes that several tensors may share. The deleter of `data` knows where they came from (heap, mapped file, a host
/// program).
struct Storage {
  std::shared_ptr<std::byte> data;
  std::size_t bytes = 0;
  Device device;  ///< where they are; the host reads those of the CPU only
  /// Zero-filled, 64-byte aligned.
  /// `filled_elsewhere`: other threads are to touch the memory first.
  COIL_EXTENSION_API static Storage allocate(std::size_t bytes, bool filled_elsewhere = false);
};

/// A strided view of a storage. Sizes, strides and offset count elements; strides may be 0 or overlap.
struct Tensor {
  Storage storage;
  DType dtype = DType::F32;
  Sizes sizes, strides;
  std::int64_t offset = 0;

  /// A new dense row-major tensor, zero-filled.
  COIL_EXTENSION_API static Tensor empty(DType, Sizes sizes);

  std::int64_t numel() const { return coil::numel(sizes); }
  std::size_t rank() const { return sizes.size(); }
  Device device() const { return storage.device; }
  COIL_EXTENSION_API bool is_contiguous() const;
  std::byte* bytes() const { return storage.data.get() + offset * static_cast<std::int64_t>(size_of(dtype)); }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(bytes());
  }
  /// A dense row-major copy (itself when it is one already).
  COIL_EXTENSION_API Tensor contiguous() const;
  /// Throws Error unless every element lies inside the storage.
  COIL_EXTENSION_API void check_bounds() const;
};

}  // namespace coil
