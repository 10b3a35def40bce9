#include "tensor_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "loaded_library.h"

namespace coil::python {
namespace {

/// Where in a tensor's Python object its handle begins: the word that a handle of torch's own making, told of the same
/// tensor, holds as well.
std::optional<std::size_t> handle_offset(nb::handle torch, const LoadedLibrary& library) {
  std::int32_t (*end)(void*) = nullptr;
  nb::object made = nb::getattr(nb::getattr(nb::getattr(torch, "_C", nb::none()), "_aoti", nb::none()),
                                "unsafe_alloc_void_ptr_from_tensor", nb::none());
  if (made.is_none() || !library.find("aoti_torch_delete_tensor_object", end)) return {};
  std::optional<std::size_t> found;
  for (int i = 0; i < 2; ++i) {  // a second tensor, lest the first word was equal by accident
    nb::object tensor = torch.attr("empty")(1);
    nb::object capsule = made(tensor);
    void* handle = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
    if (!handle) {
      PyErr_Clear();
      return {};
    }
    std::optional<std::size_t> here;
    const auto bytes = static_cast<std::size_t>(Py_TYPE(tensor.ptr())->tp_basicsize);
    for (std::size_t at = sizeof(PyObject); !here && at + sizeof(void*) <= bytes; at += sizeof(void*))
      if (std::memcmp(reinterpret_cast<std::byte*>(tensor.ptr()) + at, handle, sizeof(void*)) == 0) here = at;
    end(handle);
    if (!here || (found && found != here)) return {};
    found = here;
  }
  return found;
}

}  // namespace

std::unique_ptr<const TensorReader> TensorReader::find(nb::handle torch) try {
  const LoadedLibrary library("libtorch_cpu.so");
  std::unique_ptr<TensorReader> r(new TensorReader());
  const auto offset = handle_offset(torch, library);
  const auto strided = library.number("aoti_torch_layout_strided"), cpu = library.number("aoti_torch_device_type_cpu"),
             cuda = library.number("aoti_torch_device_type_cuda");
  if (!offset || !strided || !cpu || !cuda) return nullptr;
  if (!library.find("aoti_torch_get_data_ptr", r->data_) || !library.find("aoti_torch_get_sizes", r->sizes_) ||
      !library.find("aoti_torch_get_strides", r->strides_) || !library.find("aoti_torch_get_dim", r->dim_) ||
      !library.find("aoti_torch_get_layout", r->layout_) || !library.find("aoti_torch_get_dtype", r->dtype_) ||
      !library.find("aoti_torch_get_device_type", r->device_type_) ||
      !library.find("aoti_torch_get_device_index", r->device_index_))
    return nullptr;
  r->offset_ = *offset;
  r->strided_ = *strided;
  r->cpu_ = *cpu;
  r->cuda_ = *cuda;
  std::ranges::fill(r->numbers_, -1);
  for (DType dtype : {
#define X(e, ...) DType::e,
           COIL_DTYPES(X)
#undef X
       }) {
    const auto number = library.number("aoti_torch_dtype_" + std::string(torch_name(dtype)));
    const auto type = dlpack::type_of(dtype);
    if (!number || !type || *number < 0 || static_cast<std::uint32_t>(*number) >= kTypes) continue;
    r->types_[*number] = *type;
    r->numbers_[static_cast<std::uint8_t>(dtype)] = *number;
  }
  nb::object parameter = torch.attr("nn").attr("Parameter");
  // Both live as long as torch, which is never unloaded.
  r->tensor_ = reinterpret_cast<PyTypeObject*>(torch.attr("Tensor").ptr());
  r->parameter_ = reinterpret_cast<PyTypeObject*>(parameter.ptr());
  return r;
} catch (const nb::python_error&) {
  return nullptr;  // a torch that does not know what was asked
}

}  // namespace coil::python
