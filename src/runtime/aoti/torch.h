// libtorch's stable C interface (`aoti_torch_*`), found in the process that has loaded the package: nothing of torch is
// needed to build, and a host without it is told so.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "tensor/device.h"
#include "tensor/dtype.h"

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;

namespace coil::runtime::aoti {

// X(name, parameters): `aoti_torch_NAME(parameters)`, which returns 0 where all went well.
#define COIL_TORCH_FUNCTIONS(X)                                                                                       \
  X(get_data_ptr, (AtenTensorHandle, void**))                                                                         \
  X(get_storage_size, (AtenTensorHandle, std::int64_t*))                                                              \
  X(get_storage_offset, (AtenTensorHandle, std::int64_t*))                                                            \
  X(get_dim, (AtenTensorHandle, std::int64_t*))                                                                       \
  X(get_sizes, (AtenTensorHandle, std::int64_t**))                                                                    \
  X(get_strides, (AtenTensorHandle, std::int64_t**))                                                                  \
  X(get_dtype, (AtenTensorHandle, std::int32_t*))                                                                     \
  X(get_device_type, (AtenTensorHandle, std::int32_t*))                                                               \
  X(get_device_index, (AtenTensorHandle, std::int32_t*))                                                              \
  X(delete_tensor_object, (AtenTensorHandle))                                                                         \
  X(new_tensor_handle, (AtenTensorHandle, AtenTensorHandle*))                                                         \
  X(empty_strided, (std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t, std::int32_t, \
                    AtenTensorHandle*))                                                                               \
  X(_alloc_from_pool, (AtenTensorHandle, std::int64_t, std::int32_t, std::int64_t, const std::int64_t*,               \
                       const std::int64_t*, AtenTensorHandle*))                                                       \
  X(_reinterpret_tensor,                                                                                              \
    (AtenTensorHandle, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t, AtenTensorHandle*))      \
  X(create_tensor_from_blob, (void*, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t,            \
                              std::int32_t, std::int32_t, std::int32_t, AtenTensorHandle*))                           \
  X(copy_, (AtenTensorHandle, AtenTensorHandle, std::int32_t))                                                        \
  X(cpu_randint_low_out, (AtenTensorHandle, std::int64_t, std::int64_t, const std::int64_t*, std::int64_t))           \
  X(get_current_device_index, (std::int32_t*))

/// The functions, each called as `torch().get_dim(handle, &rank)`. They throw Error where torch says that it failed;
/// what it says of it, it writes to stderr.
class Torch {
 public:
#define X(name, parameters)                                              \
  template <class... A>                                                  \
  void name(A... arguments) const {                                      \
    if (name##_function(arguments...) != 0) failed("aoti_torch_" #name); \
  }
  COIL_TORCH_FUNCTIONS(X)
#undef X

  /// Lets go of a handle.
  void release(AtenTensorHandle handle) const noexcept { delete_tensor_object_function(handle); }

  /// Torch's number of a dtype, and the way back. Throws Error on one that Coil does not know.
  std::int32_t number(DType) const;
  DType dtype(std::int32_t number) const;
  /// Torch's number of a kind of device.
  std::int32_t number(DeviceType) const;

  /// A function that this torch may not have, or a part of it: null then.
  template <class F>
  F* find(const std::string& symbol) const {
    return reinterpret_cast<F*>(address(symbol));
  }
  /// Threads that torch's operators use on the calling thread.
  int threads() const;

 private:
  friend const Torch& torch();
  Torch();
  void* address(const std::string& symbol) const;
  [[noreturn]] static void failed(const char* function);

#define X(name, parameters) std::int32_t(*name##_function) parameters = nullptr;
  COIL_TORCH_FUNCTIONS(X)
#undef X
  int (*threads_)() = nullptr;
  void* libraries_[3] = {};
  std::int32_t dtypes_[256];  ///< torch's numbers, by Coil's
};

/// Throws Error where the process has no libtorch, or one without some of the functions.
const Torch& torch();

struct DeleteTensor {
  void operator()(AtenTensorOpaque* handle) const noexcept { torch().release(handle); }
};
/// A tensor of torch's that is ours to let go of.
using TensorHandle = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

/// The handle that `make(&handle)` gives.
template <class F>
TensorHandle made(F&& make) {
  AtenTensorHandle handle = nullptr;
  make(&handle);
  return TensorHandle(handle);
}

}  // namespace coil::runtime::aoti
