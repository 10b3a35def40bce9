// Between the C interface (coil/runtime.h) and the runtime: errors as return values, tensors as plain structs.
#pragma once
#include <exception>
#include <string_view>

#include "coil/runtime.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Keeps the message for coil_last_error.
void keep_error(std::string_view message) noexcept;

/// Runs `f`; 0, or 1 with the error kept.
template <class F>
int guarded(F&& f) noexcept {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    keep_error(e.what());
  } catch (...) {
    keep_error("an unknown error");
  }
  return 1;
}

/// The address of a new object made by `f`; null with the error kept.
template <class F>
auto guarded_pointer(F&& f) noexcept -> decltype(f()) {
  decltype(f()) made = nullptr;
  guarded([&] { made = f(); });
  return made;
}

coil_dtype to_c(DType);
/// Throws Error on a number that is no dtype.
DType from_c(coil_dtype);
/// Throws Error when the rank does not fit.
coil_tensor to_c(const Tensor&);
/// Borrows the memory. `device`: where tensors with `on_device` lie; with none (the CPU) Error is thrown for such a
/// tensor.
Tensor borrow(const coil_tensor&, Device device = {});

/// Throws Error unless the two have the same dtype and sizes, as copies want.
void require_alike(const Tensor&, const Tensor&);

/// A block with one owner, for coil_retain and coil_free, that keeps this memory, wherever it lies.
void* own(Storage);

}  // namespace coil::runtime
