// Layout rules of eager torch: dense and channels-last strides, what element-wise operators do with their inputs'
// layout, which views exist.
#pragma once
#include <optional>
#include <span>

#include "ops/shapes/common.h"

namespace coil::ops::shapes {

/// Row-major strides; constant sizes of 0 count as 1, symbolic sizes are taken for non-zero.
Exprs dense_strides(Env&, std::span<const Expr> sizes);
/// Strides that are dense when dimensions are laid out in this order, outermost first.
Exprs permuted_strides(Env&, std::span<const Expr> sizes, std::span<const std::size_t> order);
/// Dense strides of a memory format; channels last for other ranks than 4 (5 for ChannelsLast3d) is a COIL_CHECK
/// failure.
Exprs format_strides(Env&, std::span<const Expr> sizes, MemoryFormat);

/// A tensor of these sizes, dense, like `like` in device.
TensorMeta dense(Env&, DType, Device, Exprs sizes);
TensorMeta dense(Env&, const TensorMeta& like, Exprs sizes);
TensorMeta in_format(Env&, const TensorMeta& like, Exprs sizes, MemoryFormat);

/// Whether strides are equal; sizes that torch counts as Max(1, size) are taken for themselves.
bool same_stride(Env&, Expr a, Expr b);
/// Whether stride `a` is less than `b`: statically, else as multiples of each other, else by a guard.
bool stride_less(Env&, Expr a, Expr b);
/// Dimensions from the outermost in memory to the innermost.
std::vector<std::int64_t> memory_order(Env&, const Exprs& strides);
/// Where each dimension went under a permutation.
std::vector<std::int64_t> inverse_order(const std::vector<std::int64_t>&);

bool is_contiguous(Env&, const TensorMeta&);
bool is_contiguous(Env&, const TensorMeta&, MemoryFormat);
bool is_non_overlapping_and_dense(Env&, const TensorMeta&);
/// `Tensor.suggest_memory_format`: what the strides look like.
MemoryFormat suggest_format(Env&, const TensorMeta&);

/// One operand of an element-wise loop.
struct Operand {
  Exprs sizes, strides;
};
/// Strides of a new result of TensorIterator with these operands, broadcast to `sizes` (TensorIterator.cpp:
/// reorder_dimensions, allocate_or_resize_outputs).
Exprs elementwise_strides(Env&, std::span<const Expr> sizes, std::span<const Operand>);
/// Strides of `empty_like`, `clone`, `to` with memory_format=preserve: its own when non-overlapping and dense, else
/// dense in the order of its strides.
Exprs preserved_strides(Env&, const TensorMeta&);
/// The result of `empty_like`/`clone`/`contiguous` with a memory format argument (preserve when none).
TensorMeta like_in_format(Env&, const TensorMeta&, std::optional<MemoryFormat>);

/// Strides of a view of these sizes, or nothing when only a copy would do (ATen's computeStride). `exists`: there is
/// such a view, as eager has it for the sizes of now; what it needs becomes a guard.
std::optional<Exprs> view_strides(Env&, const TensorMeta&, std::span<const Expr> sizes, bool exists = false);
/// Sizes with -1 replaced by what is left of the element count.
Exprs infer_sizes(const Call&, Expr numel, Exprs sizes);

}  // namespace coil::ops::shapes
