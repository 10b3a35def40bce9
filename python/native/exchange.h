// Tensors across the border to torch, by the functions of `torch.Tensor.__dlpack_c_exchange_api__`: no Python attribute
// is asked for, no copy is made, and nothing of torch is linked. Inputs are looked at by `TensorReader` where this
// torch has what it needs.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "dlpack.h"
#include "tensor/device.h"
#include "tensor/tensor.h"
#include "tensor_reader.h"

namespace coil::python {

namespace nb = nanobind;

/// Whoever uses it holds the GIL.
class Exchange {
 public:
  /// The one of this process; imports torch at the first call. Throws Error when torch is too old to have it (2.10 is
  /// the first).
  static const Exchange& get();

  /// Whether torch's tensors may lie there. Programs for other devices take and give tensors of the CPU.
  static bool has_tensors(Device d) { return d.is_host() || d.type == DeviceType::CUDA; }

  /// `to` becomes a borrowed view of a torch tensor, valid while the tensor lives; its vectors are reused. True where
  /// only its memory may be another than `to` had. `guarded`: somebody has seen to it that the tensor has strides.
  /// Throws python_error for an object that is no tensor, Error for what has no strided memory on `device` or the host.
  bool borrow(nb::handle tensor, Device device, Tensor& to, bool guarded) const;
  /// The short way to do that again, for a tensor that has strides and looks like the one that `to` was last borrowed
  /// from. False: nothing was done.
  bool borrow_alike(PyObject* tensor, Tensor& to) const {
    if (!reader_ || to.storage.bytes == 0 || to.offset != 0) return false;
    void* const data = reader_->data_of_same(tensor, to);
    if (!data) return false;
    point(to, static_cast<std::byte*>(data));
    return true;
  }
  /// The tensor itself, or one that has its values where torch has put off to negate or conjugate them, which memory
  /// does not show.
  nb::object resolve(nb::handle tensor) const;
  bool is_tensor(nb::handle) const;
  /// Whether the tensor and its memory are nobody's but that of who calls. False where this torch does not tell.
  bool is_alone(nb::handle tensor) const;
  /// The address of a tensor's first element.
  const void* address(nb::handle tensor) const;
  /// The tensor as borrow gives it, holding on to the memory.
  Tensor own(nb::handle tensor, Device device) const;
  /// A new torch tensor over a tensor's memory, which lives as long as it.
  nb::object wrap(const Tensor&) const;
  /// One that shares storage (and version counter) with `base`, at `offset` elements of `dtype` from where base's first
  /// element lies.
  nb::object alias(nb::handle base, DType base_dtype, const Tensor& like, std::int64_t offset) const;

  /// Memory of torch's own allocator, on the device's current stream; the GIL is not needed. Throws Error when it has
  /// none left.
  Storage allocate(Device, std::size_t bytes) const;
  nb::object dtype(DType) const;
  /// The CUstream that torch puts work of the calling thread on.
  void* current_stream(Device) const;

 private:
  Exchange();
  static void point(Tensor& to, std::byte* data) {
    if (to.storage.data.get() != data || to.storage.data.use_count() != 0)
      to.storage.data = std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), data);
  }
  dlpack::View look(nb::handle tensor, bool guarded) const;
  /// Null: torch did not give it.
  void* allocate_raw(Device, std::size_t bytes) const;
  const dlpack::ExchangeApi* api_;
  std::unique_ptr<const TensorReader> reader_;  ///< null: DLPack alone
  /// Memory of torch's current GPU without a tensor around it, and a guard that makes a GPU the current one; 0: done.
  /// Null: DLPack alone.
  std::int32_t (*raw_allocate_)(std::uint64_t bytes, void** memory) = nullptr;
  std::int32_t (*raw_release_)(void* memory) = nullptr;
  std::int32_t (*begin_guard_)(std::int32_t index, void** guard) = nullptr;
  std::int32_t (*end_guard_)(void* guard) = nullptr;
  nb::object torch_;
  nb::object as_strided_, resolve_neg_, resolve_conj_;
  nb::object holders_of_storage_;  ///< empty: this torch does not tell
};

}  // namespace coil::python
