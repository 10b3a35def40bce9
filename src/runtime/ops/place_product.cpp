#include "runtime/ops/place_product.h"

#include <algorithm>

namespace coil::runtime {
namespace {

bool is_of_places(const ConvolutionProblem& p) {
  const auto all = [](std::span<const std::int64_t> sizes, std::int64_t value) {
    return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == value; });
  };
  return !p.transposed && p.groups == 1 && all(std::span(p.weight.sizes).subspan(2), 1) && all(p.padding, 0) &&
         all(p.padding_end, 0);
}

bool has_channels_innermost(const BoundView& v) { return v.sizes[1] == 1 || v.strides[1] == 1; }

/// [N, places.., channels] of [N, channels, places..]: those places of `v` that y's are made of.
BoundView by_rows(const BoundView& v, const BoundView& y, const Sizes& step) {
  BoundView rows{v.dtype, {v.sizes[0]}, {v.strides[0]}};
  for (std::size_t d = 2; d < v.sizes.size(); ++d) {
    rows.sizes.push_back(y.sizes[d]);
    rows.strides.push_back(v.strides[d] * step[d - 2]);
  }
  rows.sizes.push_back(v.sizes[1]);
  rows.strides.push_back(v.strides[1]);
  return rows;
}

}  // namespace

std::optional<GemmProblem> product_of_places(const ConvolutionProblem& p) {
  if (!is_of_places(p) || !has_channels_innermost(p.x) || !has_channels_innermost(p.y)) return std::nullopt;
  const Sizes none(p.spatial(), 1);
  GemmProblem product;
  product.n = p.y.sizes[1];
  product.k = p.x.sizes[1];
  product.m = product.n == 0 ? 0 : numel(p.y.sizes) / product.n;
  const Sizes sizes{product.m, product.n};
  product.a = {0, by_rows(p.x, p.y, p.stride), {product.m, product.k}};
  const BoundView weight{p.weight.dtype, {product.k, product.n}, {p.weight.strides[1], p.weight.strides[0]}};
  product.b = {1, weight, weight.sizes};
  product.y = {0, by_rows(p.y, p.y, none), sizes};
  if (p.bias) product.bias = GemmOperand{2, *p.bias, {product.n}};
  for (std::size_t i = 0; i < p.operands.size(); ++i)
    product.operands.push_back({p.first_operand + i, by_rows(p.operands[i], p.y, none), sizes});
  product.post = p.post;
  return product;
}

}  // namespace coil::runtime
