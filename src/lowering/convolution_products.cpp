#include "lowering/convolution_products.h"

#include <algorithm>

#include "ir/relayout.h"

namespace coil::lowering {

namespace {

constexpr std::int64_t kVector = 16;  // bytes

/// Places of all pictures: the rows of the products.
Expr places(const Exprs& sizes) { return sizes[0] * sym::product(std::span(sizes).subspan(2)); }

/// Pictures with their channels innermost: made so where their layout is still open, else a copy.
BufferView channels_last_operand(Context& ctx, const TensorBox& x) {
  if (auto view = x.copied(ir::lies_channels_last)) return *view;
  const ir::BufferId whole = x.realize();
  if (x.sizes == ctx.graph.buffer(whole).layout.sizes) ir::relayout(ctx.graph, whole, ir::channels_last(x.sizes));
  if (auto view = x.strided(); view && ir::lies_channels_last(*view)) {
    ctx.graph.buffer(view->buffer).layout.fixed = true;
    return *view;
  }
  const TensorBox copy = pointwise(ctx, x.dtype(), x.sizes, element(ctx, x, x.sizes), ir::channels_last(x.sizes));
  BufferView view = library_operand(copy);
  ctx.graph.buffer(view.buffer).layout.fixed = true;
  return view;
}

/// [groups, places, channels of a group] of such pictures.
BufferView rows_of_groups(const BufferView& x, std::int64_t groups) {
  const Expr channels = x.sizes[1], of_group = sym::floor_div(channels, groups);
  return {x.buffer, x.dtype, {groups, places(x.sizes), of_group}, {of_group, channels, 1}, x.offset};
}

BufferView turned(BufferView v) {
  std::swap(v.sizes[1], v.sizes[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

/// A weight as [groups, first / groups, second].
BufferView weight_of_groups(BufferView weight, std::int64_t groups) {
  const Expr first = sym::floor_div(weight.sizes[0], groups), second = weight.sizes[1];
  return {weight.buffer, weight.dtype, {groups, first, second}, {first * second, second, 1}, weight.offset};
}

void multiply(Context& ctx, const BufferView& a, const BufferView& b, const BufferView& y) {
  add_library_call(ctx, "matmul", {{"has_bias", std::int64_t{0}}}, {a, b}, {y});
}

}  // namespace

bool is_product_of_groups(const TensorBox& x, const Exprs& weight, std::int64_t groups,
                          const std::vector<std::int64_t>& stride, const std::vector<std::int64_t>& padding) {
  const auto step = kVector / static_cast<std::int64_t>(size_of(x.dtype()));
  const auto first = weight[0].constant(), second = weight[1].constant();
  const auto one = [](std::int64_t n) { return n == 1; };
  const auto none = [](std::int64_t n) { return n == 0; };
  return groups > 1 && x.rank() == weight.size() && is_floating(x.dtype()) && first && second &&
         *first / groups % step == 0 && *second % step == 0 && std::ranges::all_of(stride, one) &&
         std::ranges::all_of(padding, none) &&
         std::ranges::all_of(std::span(weight).subspan(2), [](Expr e) { return e.is_constant(1); });
}

TensorBox product_of_groups(Context& ctx, const TensorBox& x, const TensorBox& weight,
                            const std::optional<TensorBox>& bias, std::int64_t groups, bool transposed) {
  const sym::TensorMeta& meta = ctx.result();
  const BufferView rows = channels_last_operand(ctx, x), w = library_operand(ir::contiguous(weight));
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, ir::channels_last(meta.sizes));
  ctx.graph.buffer(out.buffer).layout.fixed = true;
  const BufferView of_groups = weight_of_groups(w, groups);
  multiply(ctx, rows_of_groups(rows, groups), transposed ? of_groups : turned(of_groups), rows_of_groups(out, groups));
  if (!bias) return box;
  const DType t = register_type(meta.dtype);
  return pointwise(
      ctx, meta.dtype, meta.sizes,
      element(ctx, box, meta.sizes).cast(t) + element_at(ctx, *bias, {ctx.graph.ivar(1)}, meta.sizes).cast(t),
      ir::channels_last(meta.sizes));
}

TensorBox weight_gradient_of_groups(Context& ctx, const TensorBox& x, const TensorBox& dy, std::int64_t groups,
                                    const sym::TensorMeta& meta) {
  const BufferView of_x = channels_last_operand(ctx, x), of_dy = channels_last_operand(ctx, dy);
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, sym::contiguous_strides(meta.sizes));
  ctx.graph.buffer(out.buffer).layout.fixed = true;
  multiply(ctx, turned(rows_of_groups(of_dy, groups)), rows_of_groups(of_x, groups), weight_of_groups(out, groups));
  return box;
}

}  // namespace coil::lowering
