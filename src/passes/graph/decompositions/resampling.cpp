// Pooling and resampling in terms of their two- and three-dimensional batched forms with explicit sizes, and of views.
// Kept for lowering: max_pool2d_with_indices, max_pool3d_with_indices, avg_pool2d, avg_pool3d, _adaptive_avg_pool2d,
// _adaptive_avg_pool3d, adaptive_max_pool2d, upsample_* (with sizes).
#include <numeric>

#include "passes/graph/decompositions/grid_sampling.h"
#include "passes/graph/decompositions/resizing.h"

namespace coil::passes {

namespace {

Exprs with_ones(Rewriter& r, std::string_view name, Expr first) {
  Exprs list = r.ints(r[name]);
  if (list.empty()) return {};
  return {first, list.back()};
}

Value squeeze(Rewriter& r, const Value& x, std::int64_t dim) {
  return r.call("aten.squeeze.dims", {x, dims_value({dim})});
}

/// One dimension as two, of which the first has size 1.
Value max_pool1d(Rewriter& r) {
  Value flat = r.unsqueeze(r["self"], -2);
  bool unbatched = r.rank(flat) == 3;
  if (unbatched) flat = r.unsqueeze(flat, 0);
  fx::Node* pooled = r.call("aten.max_pool2d_with_indices.default",
                            {flat, with_ones(r, "kernel_size", 1), with_ones(r, "stride", 1),
                             with_ones(r, "padding", 0), with_ones(r, "dilation", 1), r["ceil_mode"]});
  auto back = [&](std::int64_t i) {
    Value made = squeeze(r, r.item(pooled, i), -2);
    return unbatched ? squeeze(r, made, 0) : made;
  };
  if (r.node->target == "aten.max_pool1d.default") return back(0);
  return Values{back(0), back(1)};
}

Value avg_pool1d(Rewriter& r) {
  Value flat = r.unsqueeze(r["self"], -2);
  Value made = r.call("aten.avg_pool2d.default", {flat, with_ones(r, "kernel_size", 1), with_ones(r, "stride", 1),
                                                  with_ones(r, "padding", 0), r["ceil_mode"], r["count_include_pad"]});
  return squeeze(r, made, -2);
}

Decomposition max_pool_values(std::string_view target) {
  return [target](Rewriter& r) -> Value { return r.item(r.call(target, r.node->args), 0); };
}

/// The mean over the last dimensions where one value of each is asked for.
Decomposition adaptive_average(std::size_t n, std::string_view kept) {
  return [=](Rewriter& r) -> Value {
    Exprs wanted = r.ints(r["output_size"]);
    bool ones = std::all_of(wanted.begin(), wanted.end(), [](Expr e) { return e.is_constant(1); });
    if (!ones) return r.node->target == kept ? Value(None{}) : Value(r.call(kept, {r["self"], wanted}));
    std::vector<std::int64_t> dims(n);
    std::iota(dims.begin(), dims.end(), -static_cast<std::int64_t>(n));
    return r.call("aten.mean.dim", {r["self"], dims_value(dims), true});
  };
}

Value adaptive_avg_pool1d(Rewriter& r) {
  Exprs wanted = r.ints(r["output_size"]);
  if (wanted[0].is_constant(1)) return r.call("aten.mean.dim", {r["self"], dims_value({-1}), true});
  return squeeze(r, r.call("aten._adaptive_avg_pool2d.default", {r.unsqueeze(r["self"], -2), Exprs{1, wanted[0]}}), -2);
}

Value adaptive_max_pool1d(Rewriter& r) {
  fx::Node* both =
      r.call("aten.adaptive_max_pool2d.default", {r.unsqueeze(r["self"], -2), Exprs{1, r.ints(r["output_size"])[0]}});
  return Values{squeeze(r, r.item(both, 0), -2), squeeze(r, r.item(both, 1), -2)};
}

/// `upsample_foo.vec(x, sizes or scales)` as `upsample_foo(x, sizes, …, scale of each dimension)`.
Value upsample_vec(Rewriter& r) {
  const TensorMeta& made = r.result();
  std::string target = r.node->target.substr(0, r.node->target.size() - 3) + "default";
  Values args = {r.node->args[0], Exprs(made.sizes.begin() + 2, made.sizes.end())};
  if (r.has("align_corners")) args.push_back(r["align_corners"]);
  for (std::size_t i = 0; i + 2 < made.rank(); ++i)
    args.push_back(r.has("scale_factors") ? r["scale_factors"].as_list()[i] : Value(None{}));
  return r.call(target, args);
}

Value pixel_shuffle(Rewriter& r) {
  const Exprs sizes = r.meta(r["self"]).sizes;
  std::size_t lead = sizes.size() - 3;
  bool up = r.node->target == "aten.pixel_shuffle.default";
  std::int64_t f = r.number(up ? "upscale_factor" : "downscale_factor");
  Exprs apart(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(lead));
  const Exprs& made = r.result().sizes;
  if (up)
    apart.insert(apart.end(), {made[lead], Expr(f), Expr(f), sizes[lead + 1], sizes[lead + 2]});
  else
    apart.insert(apart.end(), {sizes[lead], made[lead + 1], Expr(f), made[lead + 2], Expr(f)});
  std::vector<std::int64_t> order(lead + 5);
  std::iota(order.begin(), order.end(), 0);
  constexpr std::int64_t kUp[] = {0, 3, 1, 4, 2}, kDown[] = {0, 2, 4, 1, 3};
  for (std::size_t i = 0; i < 5; ++i) order[lead + i] = static_cast<std::int64_t>(lead) + (up ? kUp : kDown)[i];
  // A copy even where the factor is 1 or the pixels are single.
  return r.reshape(r.call("aten.clone.default", {r.permute(r.reshape(r["self"], apart), order)}), made);
}

Value channel_shuffle(Rewriter& r) {
  const Exprs sizes = r.meta(r["self"]).sizes;
  Expr groups = r.integer(r["groups"]);
  Exprs apart = {sizes[0], groups, r.module.env->simplify(sym::floor_div(sizes[1], groups))};
  apart.insert(apart.end(), sizes.begin() + 2, sizes.end());
  std::vector<std::int64_t> order(apart.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  return r.reshape(r.call("aten.clone.default", {r.permute(r.reshape(r["self"], apart), order)}), sizes);
}

/// Rows (or columns) that each position of a kernel reads at each of its places: kernel x places.
Value patch_positions(Rewriter& r, Expr kernel, Expr dilation, Expr stride, Expr places) {
  Value within = r.mul(r.iota(kernel), dilation), start = r.mul(r.iota(places), stride);
  return r.add(r.unsqueeze(within, 1), start);
}

struct Patches {
  Exprs kernel, dilation, padding, stride, places, padded;
  Patches(Rewriter& r, const Exprs& image) {
    auto two = [&](std::string_view name) {
      Exprs list = r.ints(r[name]);
      return list.size() == 1 ? Exprs(2, list[0]) : list;
    };
    kernel = two("kernel_size"), dilation = two("dilation"), padding = two("padding"), stride = two("stride");
    for (std::size_t i = 0; i < 2; ++i) {
      padded.push_back(image[i] + padding[i] * 2);
      places.push_back(
          r.module.env->simplify(sym::floor_div(padded[i] - dilation[i] * (kernel[i] - 1) - 1, stride[i]) + 1));
    }
  }
  /// Indices of an image (batch, channel, row, column): rows of kernel x places x 1 x 1, columns of kernel x places.
  Values indices(Rewriter& r) const {
    Value rows = patch_positions(r, kernel[0], dilation[0], stride[0], places[0]),
          columns = patch_positions(r, kernel[1], dilation[1], stride[1], places[1]);
    return {None{}, None{}, r.unsqueeze(r.unsqueeze(rows, -1), -1), columns};
  }
};

/// (batch, channel, kernel row, place row, kernel column, place column) has the patches' order after a swap.
Value im2col(Rewriter& r) {
  Value x = r["self"];
  if (r.rank(x) == 3) x = r.unsqueeze(x, 0);
  const Exprs sizes = r.meta(x).sizes;
  Patches p(r, {sizes[2], sizes[3]});
  if (!p.padding[0].is_constant(0) || !p.padding[1].is_constant(0))
    x = r.call("aten.constant_pad_nd.default", {x, Exprs{p.padding[1], p.padding[1], p.padding[0], p.padding[0]}, 0});
  Value patches = r.call("aten.index.Tensor", {x, p.indices(r)});
  return r.reshape(r.permute(patches, {0, 1, 2, 4, 3, 5}), r.result().sizes);
}

Value col2im(Rewriter& r) {
  Value x = r["self"];
  if (r.rank(x) == 2) x = r.unsqueeze(x, 0);
  Exprs image = r.ints(r["output_size"]);
  Patches p(r, image);
  Expr batch = r.meta(x).sizes[0], channels = r.result().sizes[r.result().rank() - 3];
  Value patches = r.permute(r.reshape(x, {batch, channels, p.kernel[0], p.kernel[1], p.places[0], p.places[1]}),
                            {0, 1, 2, 4, 3, 5});
  Value canvas = r.full({batch, channels, p.padded[0], p.padded[1]}, 0, r.dtype(x));
  Value made = r.call("aten.index_put.default", {canvas, p.indices(r), patches, true});
  made = r.slice(r.slice(made, 2, p.padding[0], p.padding[0] + image[0]), 3, p.padding[1], p.padding[1] + image[1]);
  return r.reshape(r.contiguous(made), r.result().sizes);
}

Value grid_sampler(Rewriter& r) {
  return r.call(r.rank(r["input"]) == 4 ? "aten.grid_sampler_2d.default" : "aten.grid_sampler_3d.default",
                r.node->args);
}

}  // namespace

void decompose_resampling(DecompositionTable& t) {
  t["aten.max_pool1d.default"] = max_pool1d;
  t["aten.max_pool1d_with_indices.default"] = max_pool1d;
  t["aten.avg_pool1d.default"] = avg_pool1d;
  t["aten.max_pool2d.default"] = max_pool_values("aten.max_pool2d_with_indices.default");
  t["aten.max_pool3d.default"] = max_pool_values("aten.max_pool3d_with_indices.default");
  t["aten.adaptive_avg_pool1d.default"] = adaptive_avg_pool1d;
  for (std::string_view op : {"aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default"})
    t[op] = adaptive_average(2, "aten._adaptive_avg_pool2d.default");
  for (std::string_view op : {"aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool3d.default"})
    t[op] = adaptive_average(3, "aten._adaptive_avg_pool3d.default");
  t["aten.adaptive_max_pool1d.default"] = adaptive_max_pool1d;
  for (std::string_view op :
       {"aten.upsample_nearest1d.vec", "aten.upsample_linear1d.vec", "aten._upsample_nearest_exact1d.vec",
        "aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_bicubic2d.vec",
        "aten._upsample_nearest_exact2d.vec", "aten._upsample_bilinear2d_aa.vec", "aten._upsample_bicubic2d_aa.vec",
        "aten._upsample_lanczos2d_aa.vec", "aten.upsample_nearest3d.vec", "aten.upsample_trilinear3d.vec",
        "aten._upsample_nearest_exact3d.vec"})
    t[op] = upsample_vec;
  for (std::string_view op : {"aten._upsample_bilinear2d_aa.default", "aten._upsample_bicubic2d_aa.default",
                              "aten._upsample_lanczos2d_aa.default"})
    t[op] = decompose_antialiased;
  for (std::string_view op : {"aten.upsample_bilinear2d.default", "aten.upsample_bicubic2d.default"})
    t[op] = decompose_resized;
  t["aten.pixel_shuffle.default"] = pixel_shuffle;
  t["aten.pixel_unshuffle.default"] = pixel_shuffle;
  t["aten.channel_shuffle.default"] = channel_shuffle;
  t["aten.im2col.default"] = im2col;
  t["aten.col2im.default"] = col2im;
  t["aten.grid_sampler.default"] = grid_sampler;
  t["aten.grid_sampler_2d.default"] = t["aten.grid_sampler_3d.default"] = decompose_grid_sampler;
}

}  // namespace coil::passes
