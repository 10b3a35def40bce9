// Torch's tensors looked at where they lie: by the C functions that libtorch keeps stable for compiled models
// (`aoti_torch_get_sizes`, …), found at run time in the library that this process has loaded. A tenth of what an
// exchange by DLPack costs, which takes a reference to the tensor and with it the interpreter's lock, twice.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "dlpack.h"
#include "tensor/tensor.h"

namespace coil::python {

namespace nb = nanobind;

/// Whoever uses it holds the GIL.
class TensorReader {
 public:
  /// Null where this torch has no such functions, or where a tensor's handle is not found in its Python object: both
  /// are asked of torch itself, once.
  static std::unique_ptr<const TensorReader> find(nb::handle torch);

  /// Fills a borrowed view, as the DLPack function of that name does. False for what it has no answer to, which is
  /// DLPack's to take or refuse: no plain `torch.Tensor` or `Parameter`, no strided memory, another device than the CPU
  /// or a GPU, a type that DLPack has none of. `guarded`: it has strides, which need not be asked.
  bool view(PyObject* object, bool guarded, dlpack::View& to) const {
    void* const handle = handle_of(object);
    if (!handle) return false;
    std::int32_t layout = 0, type = 0, device = 0;
    std::int64_t rank = 0;
    // What fails prints a line on stderr: layouts that have no strides are sorted out first.
    if (!guarded && (layout_(handle, &layout) != 0 || layout != strided_)) return false;
    if (device_type_(handle, &device) != 0 || dtype_(handle, &type) != 0 || dim_(handle, &rank) != 0) return false;
    if (static_cast<std::uint32_t>(type) >= kTypes || types_[type].bits == 0) return false;
    if (device == cpu_)
      to.device = {dlpack::kCpu, 0};
    else if (device == cuda_ && device_index_(handle, &to.device.index) == 0)
      to.device.kind = dlpack::kCuda;
    else
      return false;
    to.type = types_[type];
    to.rank = static_cast<std::int32_t>(rank);
    to.byte_offset = 0;
    return sizes_(handle, &to.sizes) == 0 && strides_(handle, &to.strides) == 0 && data_(handle, &to.data) == 0;
  }

  /// Where the tensor's elements begin, if it is a plain one on this device, of this dtype, these sizes and these
  /// strides; else null. It must have strides.
  void* data_of_same(PyObject* object, const Tensor& like) const {
    void* const handle = handle_of(object);
    std::int32_t type = 0, device = 0;
    std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
    if (!handle || dtype_(handle, &type) != 0 || type != numbers_[static_cast<std::uint8_t>(like.dtype)] ||
        dim_(handle, &rank) != 0)
      return nullptr;
    const bool on_gpu = !like.device().is_host();
    if (device_type_(handle, &device) != 0 || device != (on_gpu ? cuda_ : cpu_)) return nullptr;
    if (on_gpu && (device_index_(handle, &device) != 0 || device != like.device().index)) return nullptr;
    const std::size_t dims = like.sizes.size();
    if (static_cast<std::size_t>(rank) != dims || like.strides.size() != dims || sizes_(handle, &sizes) != 0 ||
        strides_(handle, &strides) != 0)
      return nullptr;
    for (std::size_t d = 0; d < dims; ++d)
      if (sizes[d] != like.sizes[d] || strides[d] != like.strides[d]) return nullptr;
    void* data = nullptr;
    return data_(handle, &data) == 0 ? data : nullptr;
  }

 private:
  TensorReader() = default;

  void* handle_of(PyObject* object) const {
    return Py_TYPE(object) == tensor_ || Py_TYPE(object) == parameter_ ? reinterpret_cast<std::byte*>(object) + offset_
                                                                       : nullptr;
  }

  static constexpr std::uint32_t kTypes = 64;

  PyTypeObject *tensor_ = nullptr, *parameter_ = nullptr;
  std::size_t offset_ = 0;  ///< of torch's handle in the Python object
  std::int32_t strided_ = 0, cpu_ = 0, cuda_ = 0;
  dlpack::Type types_[kTypes] = {};  ///< by torch's number of a dtype; no bits: none
  std::int32_t numbers_[256];        ///< torch's number of a DType; -1: none
  template <class T>
  using Getter = std::int32_t (*)(void* handle, T* out);  ///< 0: done
  Getter<void*> data_ = nullptr;
  Getter<std::int64_t*> sizes_ = nullptr, strides_ = nullptr;
  Getter<std::int64_t> dim_ = nullptr;
  Getter<std::int32_t> layout_ = nullptr, dtype_ = nullptr, device_type_ = nullptr, device_index_ = nullptr;
};

}  // namespace coil::python
