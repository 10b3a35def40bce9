// Tensors across the border to torch, by the functions of `torch.Tensor.__dlpack_c_exchange_api__`: no Python attribute is asked for, no copy is made, and nothing of torch is linked.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "dlpack.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace coil::python {

namespace nb = nanobind;

/// Whoever uses it holds the GIL.
class Exchange {
 public:
  /// The one of this process; imports torch at the first call. Throws Error when torch is too old to have it (2.10 is the first).
  static const Exchange& get();

  /// `to` becomes a borrowed view of a torch tensor, valid while the tensor lives; its vectors are reused. Throws python_error for an object that is no tensor, Error for what has no strided memory on `device`
  /// or the host.
  void borrow(nb::handle tensor, Device device, Tensor& to) const;
  /// Of a tensor's first element.
  const void* address(nb::handle tensor) const;
  /// As borrow, holding on to the memory.
  Tensor own(nb::handle tensor, Device device) const;
  /// A new torch tensor over a tensor's memory, which lives as long as it.
  nb::object wrap(const Tensor&) const;
  /// One that shares storage (and version counter) with `base`, at `offset` elements of `dtype` from where base's first element lies.
  nb::object alias(nb::handle base, DType base_dtype, const Tensor& like, std::int64_t offset) const;

  /// Memory of torch's own allocator, on the current stream; the GIL is not needed. Throws Error when it has none left.
  Storage allocate(Device, std::size_t bytes) const;
  nb::object dtype(DType) const;
  /// The CUstream that torch puts work of the calling thread on.
  void* current_stream(Device) const;

 private:
  Exchange();
  const dlpack::ExchangeApi* api_;
  nb::object torch_;
  nb::object as_strided_;
};

}  // namespace coil::python
