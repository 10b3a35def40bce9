// What the compiler knows about a tensor: everything of `torch.Tensor` but its bytes.
#pragma once
#include <string>

#include "sym/expr.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace coil::sym {

/// Sizes, strides and storage offset in elements.
struct TensorMeta {
  DType dtype = DType::F32;
  Device device;
  Exprs sizes, strides;
  Expr offset = 0;

  std::size_t rank() const { return sizes.size(); }
  Expr numel() const { return product(sizes); }
  bool operator==(const TensorMeta&) const = default;
};

/// Dense row-major strides; sizes that may be 0 count as Max(1, size), as in torch.
Exprs contiguous_strides(std::span<const Expr> sizes);
/// A dense row-major tensor at offset 0.
TensorMeta contiguous(DType, Device, Exprs sizes);
/// `f32[2, s0]`, with strides and offset appended where they are not the dense ones: `f32[2, 3]{1, 2}`, `f32[4]{1}+8`;
/// the device where it is not the CPU: `f32[2]@cuda:0`.
std::string to_string(const TensorMeta&);

}  // namespace coil::sym
