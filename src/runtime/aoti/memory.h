// Between torch's tensors and the runtime's: both hold a share of the same memory.
#pragma once
#include "runtime/aoti/torch.h"
#include "tensor/tensor.h"

namespace coil::runtime::aoti {

/// A tensor on the memory of torch's, of which it keeps the handle. Throws Error on one that is not dense in memory
/// (sparse, quantized), or is on a device that programs do not know; `name` is for messages.
Tensor from_torch(TensorHandle, const std::string& name);

/// The tensor itself, or its values computed where torch has put off to negate or conjugate them. `is_written`: what is
/// to be written to must lie there as it is, else Error is thrown.
TensorHandle as_it_lies(TensorHandle, const std::string& name, bool is_written);

/// Memory of torch's for `bytes` bytes, at least one.
Storage allocate(std::size_t bytes, Device);

/// Whether torch owns the memory.
bool is_torchs(const Storage&);

/// A tensor of torch's on the same memory where that is torch's own, else a copy. Null for a tensor without storage.
TensorHandle to_torch(const Tensor&);
/// The tensor as to_torch gives it, with another dtype and another layout; only for memory of torch's.
TensorHandle view_in_torch(const Tensor&, DType, const Sizes& sizes, const Sizes& strides);

}  // namespace coil::runtime::aoti
