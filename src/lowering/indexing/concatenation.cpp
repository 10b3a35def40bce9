// Tensors joined, stacked and padded.
#include <algorithm>

#include "lowering/common.h"
#include "lowering/products/products.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// Whether the only consumer works element by element, so that it can absorb the parts.
bool feeds_elementwise(const fx::Node& node) {
  constexpr std::string_view kElementwise[] = {"aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor",
                                               "aten.ne.Scalar",  "aten.eq.Scalar",  "aten.sub.Scalar",
                                               "aten.add.Scalar", "aten.mul.Scalar", "aten.div.Tensor"};
  return node.users().size() == 1 &&
         std::find(std::begin(kElementwise), std::end(kElementwise), node.users()[0]->target) != std::end(kElementwise);
}

/// Whether the parts have one element each along the innermost dimension: threads side by side then write with gaps,
/// once for every part.
bool interleaves(const Context& ctx, const std::vector<TensorBox>& parts, std::size_t dim) {
  return ctx.target().has(target::Feature::ThreadGrids) && dim + 1 == ctx.result().rank() &&
         std::ranges::all_of(parts, [&](const TensorBox& p) { return p.sizes[dim].is_constant(1); });
}

/// Each element chosen among the parts: costs a selection, but nothing is stored.
TensorBox as_selection(Context& ctx, const std::vector<TensorBox>& parts, std::size_t dim) {
  const sym::TensorMeta& meta = ctx.result();
  const Expr i = ctx.graph.ivar(dim);
  Element chosen;
  Expr end = meta.sizes[dim];
  for (std::size_t k = parts.size(); k-- > 0;) {
    const Expr start = end - parts[k].sizes[dim];
    Element inside = condition(ctx, k + 1 == parts.size() ? sym::ge(i, start)
                                    : k == 0              ? sym::lt(i, end)
                                                          : sym::logical_and(sym::ge(i, start), sym::lt(i, end)));
    Exprs index = ctx.graph.ivars(meta.rank());
    // A part of one element has it at every place, so that what several parts are made of is read once.
    const bool one = parts[k].sizes[dim].is_constant(1);
    index[dim] = one ? Expr(0) : i - start;
    Element part =
        one ? element_at(ctx, parts[k], index, meta.sizes) : element_at(ctx, parts[k], index, meta.sizes, {}, inside);
    part = part.cast(register_type(meta.dtype));
    chosen = chosen.scalar ? where(condition(ctx, sym::lt(i, end)), part, chosen) : part;
    end = start;
  }
  return result(ctx, chosen);
}

/// One buffer, to which each part is written in its place.
TensorBox as_writes(Context& ctx, const std::vector<TensorBox>& parts, std::size_t dim) {
  const sym::TensorMeta& meta = ctx.result();
  Exprs sizes = meta.sizes;
  if (!sizes.empty()) sizes.back() = columns_for_products(ctx, *ctx.node);
  auto [whole, window] =
      library_result(ctx, meta.dtype, sizes, sizes == meta.sizes ? meta.strides : sym::contiguous_strides(sizes));
  whole.sizes = meta.sizes;
  Expr start = 0;
  for (auto& part : parts) {
    ctx.graph.provenance.absorbed.clear();
    Element body = element(ctx, part, part.sizes).cast(register_type(meta.dtype));
    Exprs at = ctx.graph.ivars(meta.rank());
    at[dim] = at[dim] + start;
    store_part(ctx, window.buffer, part.sizes, std::move(at), body);
    start += part.sizes[dim];
  }
  return whole;
}

Lowered join(Context& ctx, std::vector<TensorBox> parts, std::size_t dim) {
  // Empty tensors of one dimension may be among the arguments (a rule of cat's), and tensors of no elements add
  // nothing.
  std::erase_if(parts,
                [&](const TensorBox& p) { return p.rank() != ctx.result().rank() || p.sizes[dim].is_constant(0); });
  if (parts.empty()) return result(ctx, number(ctx, register_type(ctx.result().dtype), 0));
  if (parts.size() == 1) return result(ctx, element(ctx, parts[0], ctx.result().sizes));
  constexpr std::size_t kFewParts = 4;
  const bool chosen = parts.size() <= kFewParts && (feeds_elementwise(*ctx.node) || interleaves(ctx, parts, dim));
  return chosen ? as_selection(ctx, parts, dim) : as_writes(ctx, parts, dim);
}

Lowered cat(Context& ctx, const Values& args) {
  const std::size_t dim = args.size() > 1 ? dimension(ctx, args[1], ctx.result().rank()) : 0;
  return join(ctx, ctx.tensors(args[0]), dim);
}

Lowered stack(Context& ctx, const Values& args) {
  const std::size_t dim = args.size() > 1 ? dimension(ctx, args[1], ctx.result().rank()) : 0;
  auto parts = ctx.tensors(args[0]);
  for (auto& p : parts) p = unsqueeze(ctx, p, dim);
  return join(ctx, std::move(parts), dim);
}

/// torch's pad lists: pairs (before, after) from the last dimension backwards.
Lowered constant_pad(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Exprs pad = ctx.integers(args[1]);
  const sym::TensorMeta& meta = ctx.result();
  const DType t = register_type(meta.dtype);
  Exprs index = ctx.graph.ivars(box.rank());
  Element inside = condition(ctx, 1);
  for (std::size_t k = 0; k < pad.size() / 2; ++k) {
    const std::size_t d = box.rank() - 1 - k;
    index[d] = index[d] - pad[2 * k];
    // Bounds that always hold fold away.
    auto require = [&](Expr bound) {
      inside = inside & condition(ctx, ctx.graph.env().simplify(bound, loop_vars(ctx.graph, meta.sizes)));
    };
    require(sym::ge(index[d], 0));
    require(sym::lt(index[d], box.sizes[d]));
  }
  Element x = element_at(ctx, box, index, meta.sizes, {}, inside).cast(t);
  const ops::Value zero(0);
  Element fill{&ctx.graph.pool(), ctx.number(args.size() > 2 && !args[2].is_none() ? args[2] : zero, t)};
  const bool is_zero = fill.scalar == ctx.graph.pool().constant(t, 0);
  return result(ctx, is_zero ? x : where(inside, x, fill));
}

}  // namespace

Exprs edge_pad_index(Context& ctx, const Exprs& sizes, const Exprs& pad, bool reflect) {
  Exprs index = ctx.graph.ivars(sizes.size());
  for (std::size_t k = 0; k < pad.size() / 2; ++k) {
    const std::size_t d = sizes.size() - 1 - k;
    const Expr at = index[d] - pad[2 * k], last = sizes[d] - 1;
    auto magnitude = [](Expr e) { return sym::max(e, -e); };
    index[d] = reflect ? last - magnitude(last - magnitude(at)) : sym::min(sym::max(at, 0), last);
  }
  return index;
}

namespace {

Lowered edge_pad(Context& ctx, const Values& args, bool reflect) {
  const TensorBox box = ctx.tensor(args[0]);
  return result(
      ctx, element_at(ctx, box, edge_pad_index(ctx, box.sizes, ctx.integers(args[1]), reflect), ctx.result().sizes));
}

}  // namespace

void add_concatenation(Table& t) {
  t["aten.cat.default"] = t["aten.concat.default"] = cat;
  t["aten.stack.default"] = stack;
  t["aten.constant_pad_nd.default"] = constant_pad;
  for (const char* name :
       {"aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default"})
    t[name] = [](Context& ctx, const Values& args) { return edge_pad(ctx, args, true); };
  for (const char* name :
       {"aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default"})
    t[name] = [](Context& ctx, const Values& args) { return edge_pad(ctx, args, false); };
}

}  // namespace coil::lowering
