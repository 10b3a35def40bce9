#include "lowering/convolutions/products.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/relayout.h"
#include "lowering/products/products.h"

namespace coil::lowering {

namespace {

constexpr std::int64_t kVector = 16;  // bytes
std::int64_t vector_of(DType d) { return kVector / static_cast<std::int64_t>(size_of(d)); }

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

std::int64_t product_of(std::span<const std::int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

/// Sizes of a tensor that has, for each place of such a result, the elements that it reads.
Exprs patch_sizes(const Exprs& y, std::int64_t elements) {
  Exprs sizes{y[0]};
  sizes.insert(sizes.end(), y.begin() + 2, y.end());
  sizes.push_back(elements);
  return sizes;
}

/// [N, places.., elements of a window]: what each place of the result reads, in the order of the weight's elements.
TensorBox patches(Context& ctx, const Call& c, const Exprs& sizes) {
  Exprs index{ctx.graph.ivar(0), 0};
  index.resize(c.x.rank());
  Expr element_of_window = ctx.graph.ivar(sizes.size() - 1);
  std::optional<Element> inside;
  for (std::size_t d = c.spatial(); d-- > 0;) {
    const std::int64_t window = c.weight_sizes[2 + d];
    const Expr tap = sym::mod(element_of_window, window);
    index[2 + d] = ctx.graph.ivar(1 + d) * c.stride[d] + tap * c.dilation[d] - c.before[d];
    element_of_window = sym::floor_div(element_of_window, window);
    if (c.before[d] == 0 && c.after[d] == 0) continue;
    const Element there =
        condition(ctx, sym::le(0, index[2 + d])) & condition(ctx, sym::lt(index[2 + d], c.x.sizes[2 + d]));
    inside = inside ? *inside & there : there;
  }
  index[1] = element_of_window;
  return pointwise(ctx, c.x.dtype(), sizes,
                   inside ? element_at(ctx, c.x, index, sizes, {}, *inside) : element_at(ctx, c.x, index, sizes));
}

/// Whether x has few channels, and windows overlap little.
bool reads_patches(const Call& c) {
  constexpr std::int64_t kMostReads = 4, kFewest = 16;  // of each place; elements of a window, and channels of y
  const std::span window = std::span(c.weight_sizes).subspan(2);
  return c.weight_sizes[1] % vector_of(c.x.dtype()) != 0 && c.weight_sizes[0] >= kFewest &&
         c.weight_sizes[1] * product_of(window) >= kFewest && product_of(window) <= kMostReads * product_of(c.stride);
}

}  // namespace

bool is_product_of_groups(const TensorBox& x, const Exprs& weight, std::int64_t groups,
                          const std::vector<std::int64_t>& stride, const std::vector<std::int64_t>& padding) {
  const auto step = vector_of(x.dtype());
  const auto first = weight[0].constant(), second = weight[1].constant();
  const auto one = [](std::int64_t n) { return n == 1; };
  const auto none = [](std::int64_t n) { return n == 0; };
  if (!first || !second) return false;
  const bool is_small_sequence = groups == 1 && weight.size() == 3 && size_of(x.dtype()) == 2 && *second == step;
  return (groups > 1 || is_small_sequence) && x.rank() == weight.size() && is_floating(x.dtype()) &&
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

bool is_one_channel_of_products(const TensorBox& x, const std::vector<std::int64_t>& weight) {
  constexpr std::int64_t kMostTaps = 16;
  return x.rank() == 3 && weight.size() == 3 && weight[0] == 1 && weight[2] <= kMostTaps &&
         weight[1] * static_cast<std::int64_t>(size_of(x.dtype())) % kVector == 0;
}

TensorBox one_channel_of_products(Context& ctx, const TensorBox& x, const TensorBox& weight,
                                  const std::optional<TensorBox>& bias, std::int64_t stride, std::int64_t padding,
                                  std::int64_t dilation) {
  const sym::TensorMeta& meta = ctx.result();
  const std::int64_t taps = *weight.sizes[2].constant(), step = vector_of(x.dtype()), columns = round_up(taps, step);
  const Exprs by_tap{Expr(columns), x.sizes[1]};
  const Expr tap = ctx.graph.ivar(0);
  const Element inside = condition(ctx, sym::lt(tap, taps));
  const TensorBox w =
      pointwise(ctx, x.dtype(), by_tap, element_at(ctx, weight, {0, ctx.graph.ivar(1), tap}, by_tap, {}, inside));
  const BufferView rows = channels_last_operand(ctx, x), of_taps = library_operand(ir::contiguous(w));
  auto [made, out] = library_result(ctx, DType::F32, {x.sizes[0], x.sizes[2], columns});
  ctx.graph.buffer(out.buffer).layout.fixed = true;
  const Expr count = places(x.sizes);
  multiply(ctx, {rows.buffer, rows.dtype, {count, x.sizes[1]}, {x.sizes[1], 1}, rows.offset},
           {of_taps.buffer, of_taps.dtype, {x.sizes[1], columns}, {1, x.sizes[1]}, of_taps.offset},
           {out.buffer, out.dtype, {count, columns}, {columns, 1}, out.offset});
  Element sum = number(ctx, DType::F32, 0);
  if (bias) sum = element_at(ctx, *bias, {ctx.graph.ivar(1)}, meta.sizes).cast(DType::F32);
  for (std::int64_t k = 0; k < taps; ++k) {
    const Expr at = ctx.graph.ivar(2) * stride + (k * dilation - padding);
    const Element there = condition(ctx, sym::le(0, at)) & condition(ctx, sym::lt(at, x.sizes[2]));
    sum = sum + element_at(ctx, made, {ctx.graph.ivar(0), at, k}, meta.sizes, {}, there);
  }
  return pointwise(ctx, meta.dtype, meta.sizes, sum);
}

TensorBox weight_gradient_of_groups(Context& ctx, const TensorBox& x, const TensorBox& dy, std::int64_t groups,
                                    const sym::TensorMeta& meta) {
  const BufferView of_x = channels_last_operand(ctx, x), of_dy = channels_last_operand(ctx, dy);
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, sym::contiguous_strides(meta.sizes));
  ctx.graph.buffer(out.buffer).layout.fixed = true;
  multiply(ctx, turned(rows_of_groups(of_dy, groups)), rows_of_groups(of_x, groups), weight_of_groups(out, groups));
  return box;
}

bool is_product_of_patches(const Call& c) {
  return (c.x.dtype() == DType::F32 || c.x.dtype() == DType::F64) && reads_patches(c);
}

TensorBox product_of_patches(Context& ctx, const Call& c) {
  const sym::TensorMeta& meta = ctx.result();
  const std::size_t rank = meta.rank();
  const std::int64_t elements = product_of(std::span(c.weight_sizes).subspan(1));
  Exprs sizes = patch_sizes(meta.sizes, elements);
  const TensorBox rows = patches(ctx, c, sizes);
  sizes.back() = meta.sizes[1];
  const TensorBox made = linear_product(ctx, rows, reshape(ctx, c.weight, {c.weight.sizes[0], Expr(elements)}), c.bias,
                                        sym::contiguous(meta.dtype, meta.device, sizes));
  if (made.storage->realized()) ctx.graph.made_channels(*made.storage->buffer, rank - 1);
  std::vector<std::size_t> order{0, rank - 1};
  for (std::size_t d = 1; d + 1 < rank; ++d) order.push_back(d);
  return permute(ctx, made, order);
}

bool is_gradient_of_patches(const Call& c) {
  return is_floating(c.x.dtype()) && reads_patches(c) &&
         product_of(std::span(c.weight_sizes).subspan(1)) % vector_of(c.x.dtype()) == 0;
}

TensorBox weight_gradient_of_patches(Context& ctx, const Call& c, const TensorBox& dy, const sym::TensorMeta& meta) {
  const std::int64_t elements = product_of(std::span(c.weight_sizes).subspan(1));
  const BufferView rows = library_operand(patches(ctx, c, patch_sizes(dy.sizes, elements))),
                   of_dy = channels_last_operand(ctx, dy);
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, sym::contiguous_strides(meta.sizes));
  ctx.graph.buffer(out.buffer).layout.fixed = true;
  ctx.graph.buffer(rows.buffer).layout.fixed = true;
  const Expr count = places(dy.sizes), channels = meta.sizes[0];
  multiply(ctx, {of_dy.buffer, of_dy.dtype, {channels, count}, {1, channels}, of_dy.offset},
           {rows.buffer, rows.dtype, {count, elements}, {elements, 1}, rows.offset},
           {out.buffer, out.dtype, {channels, elements}, {elements, 1}, out.offset});
  return box;
}

}  // namespace coil::lowering
