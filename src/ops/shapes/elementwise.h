// Broadcasting, type promotion, and results of element-wise operators.
#pragma once
#include <optional>
#include <span>

#include "ops/shapes/common.h"

namespace coil::ops::shapes {

/// Broadcast of all sizes; refuses sizes that do not match.
Exprs broadcast(const Call&, std::span<const Exprs> sizes);
/// `Tensor.expand`: a view in which dimensions of size 1 are repeated; -1 keeps a size.
TensorMeta expanded(const Call&, const TensorMeta& self, Exprs sizes);
/// Whether `sizes` broadcasts to `target` without growing it.
bool expands_to(Env&, std::span<const Expr> sizes, std::span<const Expr> target);

/// Refuses `sizes` that do not broadcast to `target`; sizes with unbacked symbols are taken to do so.
void require_expands(const Call&, std::span<const Expr> sizes, std::span<const Expr> target, std::string_view what);

/// torch.result_type: tensors with dimensions win over zero-dimensional ones, those over Python numbers, within a
/// category.
class Promotion {
 public:
  void add(const TensorMeta&);
  void add_number(DType category);
  /// A tensor, a number or None (ignored).
  void add(const Value&);
  DType result() const;

 private:
  std::optional<DType> dim_, zero_, number_;
};
DType result_type(std::initializer_list<const Value*>);
/// Integers and bool become the default float type.
DType to_float(DType);
/// Whether a result of type `from` may be stored to an output of type `to` (torch.can_cast).
bool can_cast(DType from, DType to);
/// The type of a Python number: bool, i64 or f32.
std::optional<DType> number_type(const Value&);

/// The result of TensorIterator over these tensors: broadcast sizes, eager's strides, first device with dimensions.
TensorMeta elementwise(const Call&, std::span<const TensorMeta* const> operands, DType);
/// The same over all tensors among the arguments; those of another type than `common` are cast to it first, which makes
/// them dense.
TensorMeta elementwise(const Call&, DType, std::optional<DType> common = {});

// Shape functions of families.
Value same_type(const Call&);      ///< all tensors promoted
Value float_type(const Call&);     ///< promoted, integers to float
Value bool_type(const Call&);      ///< comparisons
Value mask_in_place(const Call&);  ///< comparisons in place: the mask is stored in the type of `self`

}  // namespace coil::ops::shapes
