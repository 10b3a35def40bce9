// Writes at indices that are data (scatter, index_put), and values with a part replaced (slice_scatter and its kind).
#include <algorithm>

#include "lowering/common.h"
#include "ops/shapes/strides.h"
#include "support/error.h"

namespace coil::lowering {

bool lacks_update(Context& ctx, DType stored, ir::StoreMode mode) {
  return mode != ir::StoreMode::Assign && ctx.target().has(target::Feature::NarrowAtomics) && size_of(stored) == 8 &&
         !(mode == ir::StoreMode::Add && stored == DType::I64);
}

void scatter_into(Context& ctx, const TensorBox& out, const Exprs& sizes, Element body, Exprs index,
                  std::vector<Scalar> indirect, ir::StoreMode mode, bool apart) {
  const bool grids = ctx.target().has(target::Feature::ThreadGrids) && !apart;
  if (grids && (ctx.options.orders_writes || lacks_update(ctx, out.dtype(), mode)) &&
      scatter_in_order(ctx, out, sizes, body, index, indirect, mode))
    return;
  if (grids && scatter_in_pieces(ctx, out, sizes, body, index, indirect, mode)) return;
  ir::Operation op;
  op.outs = {*out.storage->buffer};
  op.origins = ctx.graph.provenance.of(body);
  op.where = ctx.graph.provenance.where;
  op.node = ir::Scatter{sizes, body.cast(register_type(out.dtype())), std::move(index), std::move(indirect), mode};
  ctx.graph.add_operation(std::move(op));
}

namespace {

using Values = ops::Values;
using ir::StoreMode;

Scalar position(Context& ctx, Element index, Expr size) {
  return ctx.graph.pool().check_index(index.cast(DType::I64), size);
}

/// A new buffer that holds a copy of the value, to be written into by `mode`. Sums and products of 16-bit floats are
/// kept in f32 until all of them are made: rounded at each step, a sum stops growing after a few hundred additions.
TensorBox fresh_copy(Context& ctx, const TensorBox& box, const sym::TensorMeta& meta, StoreMode mode) {
  const bool accumulates = mode == StoreMode::Add || mode == StoreMode::Prod;
  TensorBox copy = result(ctx, element(ctx, box, meta.sizes), accumulates ? unrounded(meta) : meta);
  copy.realize();
  return copy;
}

StoreMode mode_of(Context& ctx, const std::string& reduce) {
  if (reduce == "add" || reduce == "sum" || reduce == "mean") return StoreMode::Add;
  if (reduce == "multiply" || reduce == "prod") return StoreMode::Prod;
  if (reduce == "amax") return StoreMode::Max;
  if (reduce == "amin") return StoreMode::Min;
  refuse(ctx, fmt::format("knows no reduction `{}`", reduce));
}

/// self with src[i…] (or a number) combined into place i… with `dim` replaced by index[i…].
struct ScatterCall {
  TensorBox out, index;
  std::size_t dim = 0;
  Exprs at;
  std::vector<Scalar> indirect;
};

ScatterCall prepare(Context& ctx, const Values& args, StoreMode mode) {
  ScatterCall call{fresh_copy(ctx, ctx.tensor(args[0]), ctx.result(), mode), ctx.tensor(args[2]), 0, {}, {}};
  // A scalar is a list of one here.
  if (call.index.rank() == 0) call.index = unsqueeze(ctx, call.index, 0);
  if (call.out.rank() == 0) return call;
  call.dim = dimension(ctx, args[1], call.out.rank());
  call.at = ctx.graph.ivars(call.out.rank());
  call.at[call.dim] = ctx.graph.pool().indirect(0);
  call.indirect = {position(ctx, element(ctx, call.index, call.index.sizes), call.out.sizes[call.dim])};
  return call;
}

Element source(Context& ctx, const ops::Value& arg, const ScatterCall& call) {
  auto box = ctx.optional_tensor(arg);
  const DType t = register_type(call.out.dtype());
  if (!box) return {&ctx.graph.pool(), ctx.number(arg, t)};
  if (box->rank() == 0) return element(ctx, *box, {}).cast(t);
  // The source may be larger than the index; only the corner that the index covers is read.
  return element_at(ctx, *box, ctx.graph.ivars(box->rank()), call.index.sizes).cast(t);
}

LoweringFunction scatter(StoreMode mode) {
  return [mode](Context& ctx, const Values& args) -> Lowered {
    StoreMode m = mode;
    if (args.size() > 4 && args[4].is<std::string>()) m = mode_of(ctx, args[4].as_string());
    const ScatterCall call = prepare(ctx, args, m);
    scatter_into(ctx, call.out, call.index.sizes, source(ctx, args[3], call), call.at, call.indirect, m);
    return in_result_dtype(ctx, call.out);
  };
}

/// scatter_reduce(self, dim, index, src, reduce, include_self)
Lowered scatter_reduce(Context& ctx, const Values& args) {
  const std::string& reduce = args[4].as_string();
  const StoreMode mode = mode_of(ctx, reduce);
  const ScatterCall call = prepare(ctx, args, mode);
  const bool include_self = args.size() <= 5 || args[5].as_bool();
  const DType t = register_type(call.out.dtype());
  auto& pool = ctx.graph.pool();
  if (!include_self) {
    const ReductionKind kind = mode == StoreMode::Add    ? ReductionKind::Sum
                               : mode == StoreMode::Prod ? ReductionKind::Prod
                               : mode == StoreMode::Max  ? ReductionKind::Max
                                                         : ReductionKind::Min;
    scatter_into(ctx, call.out, call.index.sizes, {&pool, ir::neutral(pool, kind, t)}, call.at, call.indirect,
                 StoreMode::Assign);
  }
  scatter_into(ctx, call.out, call.index.sizes, source(ctx, args[3], call), call.at, call.indirect, mode);
  if (reduce != "mean") return in_result_dtype(ctx, call.out);
  const TensorBox counts = pointwise(ctx, t, call.out.sizes, number(ctx, t, include_self ? 1 : 0));
  counts.realize();
  scatter_into(ctx, counts, call.index.sizes, number(ctx, t, 1), call.at, call.indirect, StoreMode::Add);
  Element sum = element(ctx, call.out, call.out.sizes), n = maximum(element(ctx, counts, call.out.sizes), 1.0);
  return result(ctx, is_floating(t) ? sum / n : floor_div(sum, n));
}

/// index_put of one value where a mask over dimensions from `first` on says so: no index is computed.
Lowered put_by_mask(Context& ctx, const TensorBox& self, const TensorBox& mask, std::size_t first,
                    const TensorBox& values) {
  Exprs i;
  for (std::size_t d = 0; d < mask.rank(); ++d) i.push_back(ctx.graph.ivar(first + d));
  const Exprs& sizes = ctx.result().sizes;
  const Element value = element_at(ctx, values, Exprs(values.rank(), 0), sizes).cast(register_type(self.dtype()));
  return result(ctx, where(element_at(ctx, mask, i, sizes), value, element(ctx, self, sizes)));
}

/// index_put(self, indices, values, accumulate): the mirror of index.Tensor.
Lowered index_put(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), values = ctx.tensor(args[2]);
  const auto& list = args[1].as_list();
  const bool accumulate = args.size() > 3 && args[3].as_bool();
  std::size_t count = 0, first = 0, last = 0, broadcast = 0;
  for (std::size_t d = 0; d < list.size(); ++d)
    if (ctx.optional_tensor(list[d])) ++count, first = d;
  if (auto mask = count == 1 ? ctx.optional_tensor(list[first]) : std::nullopt;
      mask && mask->dtype() == DType::Bool && !accumulate && sym::product(values.sizes).is_constant(1))
    return put_by_mask(ctx, self, *mask, first, values);
  const auto indices =
      spread_masks(ctx, args[1], self.rank(), [&](std::size_t) { return ctx.graph.env().fresh_unbacked(); });
  first = self.rank();
  for (std::size_t d = 0; d < self.rank(); ++d) {
    if (!indices[d]) continue;
    broadcast = std::max(broadcast, indices[d]->rank());
    first = std::min(first, d);
    last = d;
  }
  count =
      static_cast<std::size_t>(std::count_if(indices.begin(), indices.end(), [](auto& i) { return i.has_value(); }));
  Exprs shape(broadcast, 1);
  for (auto& i : indices)
    if (i)
      for (std::size_t k = 0; k < i->rank(); ++k)
        if (Expr& s = shape[broadcast - i->rank() + k]; is_one(ctx, s)) s = i->sizes[k];
  const std::size_t at = last - first + 1 == count ? first : 0;
  // Loops: kept dimensions in order, with those of the indices at their place.
  Exprs sizes, where_stored;
  for (std::size_t d = 0; d < self.rank(); ++d)
    if (!indices[d]) sizes.push_back(self.sizes[d]);
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), shape.begin(), shape.end());
  const auto loops = loop_vars(ctx.graph, sizes);
  std::vector<Scalar> indirect;
  std::size_t next = 0;
  for (std::size_t d = 0; d < self.rank(); ++d) {
    if (!indices[d]) {
      where_stored.push_back(ctx.graph.ivar(next < at ? next : next + broadcast));
      ++next;
      continue;
    }
    Exprs i;
    for (std::size_t k = 0; k < indices[d]->rank(); ++k) {
      const std::size_t dim = broadcast - indices[d]->rank() + k;
      const bool repeated = indices[d]->sizes[k] != shape[dim] && is_one(ctx, indices[d]->sizes[k]);
      i.push_back(repeated ? Expr(0) : ctx.graph.ivar(at + dim));
    }
    where_stored.push_back(ctx.graph.pool().indirect(indirect.size()));
    const Element at_index = element_at(ctx, *indices[d], i, sizes);
    indirect.push_back(position(ctx, from_either_end(ctx, at_index, self.sizes[d], loops), self.sizes[d]));
  }
  const StoreMode mode = accumulate ? StoreMode::Add : StoreMode::Assign;
  const TensorBox out = fresh_copy(ctx, self, ctx.result(), mode);
  scatter_into(ctx, out, sizes, element(ctx, values, sizes), where_stored, indirect, mode);
  return in_result_dtype(ctx, out);
}

/// index_add, index_copy, index_fill: rows of one dimension, by a list of positions.
LoweringFunction index_rows(StoreMode mode, bool fill) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox out = fresh_copy(ctx, ctx.tensor(args[0]), ctx.result(), mode);
    TensorBox index = ctx.tensor(args[2]);
    if (index.rank() == 0) index = unsqueeze(ctx, index, 0);
    if (out.rank() == 0) refuse(ctx, "has a scalar operand");
    const std::size_t dim = dimension(ctx, args[1], out.rank());
    Exprs sizes = out.sizes, at = ctx.graph.ivars(out.rank());
    sizes[dim] = index.sizes[0];
    at[dim] = ctx.graph.pool().indirect(0);
    const DType t = register_type(out.dtype());
    Element body;
    if (auto source = ctx.optional_tensor(args[3]); source && !fill)
      body = element(ctx, *source, sizes).cast(t);
    else
      body = operand(ctx, args[3], sizes, t);
    if (mode == StoreMode::Add) body = body * Element{&ctx.graph.pool(), ctx.number(ctx.node->arg("alpha"), t)};
    Element row = element_at(ctx, index, {ctx.graph.ivar(dim)}, sizes);
    // Negative indices count from the end in index_fill alone.
    if (fill) row = from_either_end(ctx, row, out.sizes[dim], loop_vars(ctx.graph, sizes));
    scatter_into(ctx, out, sizes, body, at, {position(ctx, row, out.sizes[dim])}, mode);
    return in_result_dtype(ctx, out);
  };
}

/// A start or end argument: counted from the end when negative, clamped to [0, size].
Expr clamped(Context& ctx, const ops::Value& arg, Expr otherwise, Expr size) {
  if (arg.is_none()) return otherwise;
  auto& env = ctx.graph.env();
  Expr at = ctx.integer(arg);
  if (env.statically_known_lt(at, 0)) at = env.simplify(sym::max(at + size, 0));
  return env.statically_known_le(at, size) ? at : env.simplify(sym::min(at, size));
}

/// slice_scatter(self, src, dim, start, end, step)
Lowered slice_scatter(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), src = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  const std::size_t dim = dimension(ctx, args[2], self.rank());
  const Expr i = ctx.graph.ivar(dim), step = ctx.integer(args[5]);
  const Expr start = clamped(ctx, args[3], 0, sizes[dim]), end = clamped(ctx, args[4], sizes[dim], sizes[dim]);
  const auto loops = loop_vars(ctx.graph, sizes);
  Element inside = condition(ctx, 1);
  auto require = [&](Expr bound) { inside = inside & condition(ctx, ctx.graph.env().simplify(bound, loops)); };
  require(sym::ge(i, start));
  require(sym::lt(i, end));
  if (!step.is_constant(1)) require(sym::eq(sym::mod(i - start, step), 0));
  Exprs at = ctx.graph.ivars(src.rank());
  at[dim] = sym::floor_div(i - start, step);
  Element replaced = element_at(ctx, src, at, sizes, {}, inside).cast(register_type(self.dtype()));
  return result(ctx, where(inside, replaced, element(ctx, self, sizes)));
}

Lowered select_scatter(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), src = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  const std::size_t dim = dimension(ctx, args[2], self.rank());
  Element inside = condition(ctx, sym::eq(ctx.graph.ivar(dim), clamped(ctx, args[3], 0, sizes[dim])));
  Exprs at = ctx.graph.ivars(self.rank());
  at.erase(at.begin() + static_cast<std::ptrdiff_t>(dim));
  return result(ctx, where(inside, element_at(ctx, src, at, sizes, {}, inside).cast(register_type(self.dtype())),
                           element(ctx, self, sizes)));
}

/// diagonal_scatter(self, src, offset, dim1, dim2)
Lowered diagonal_scatter(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), src = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  const std::int64_t offset = constant(ctx, args[2]);
  const std::size_t first = dimension(ctx, args[3], self.rank()), second = dimension(ctx, args[4], self.rank());
  Element inside = condition(ctx, sym::eq(ctx.graph.ivar(first) + offset, ctx.graph.ivar(second)));
  Exprs at;
  for (std::size_t d = 0; d < self.rank(); ++d)
    if (d != first && d != second) at.push_back(ctx.graph.ivar(d));
  at.push_back(offset < 0 ? ctx.graph.ivar(second) : ctx.graph.ivar(first));
  return result(ctx, where(inside, element_at(ctx, src, at, sizes, {}, inside).cast(register_type(self.dtype())),
                           element(ctx, self, sizes)));
}

/// Dimensions of a dense tensor from the outermost in memory to the innermost, each with its stride; those of one
/// element are left out. Empty when it is not known to be dense.
std::optional<std::vector<std::pair<std::size_t, Expr>>> dense_order(sym::ShapeEnv& env, const sym::TensorMeta& t) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < t.rank(); ++d)
    if (!env.statically_known_equal(t.sizes[d], 1)) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ops::shapes::stride_less(env, t.strides[b], t.strides[a]);
  });
  std::vector<std::pair<std::size_t, Expr>> found;
  Expr expected = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (!ops::shapes::same_stride(env, t.strides[*d], expected)) return {};
    found.emplace(found.begin(), *d, expected);
    expected = expected * t.sizes[*d];
  }
  return found;
}

/// as_strided_scatter(self, src, size, stride, storage_offset): places in memory, turned into places in the dense
/// result.
Lowered as_strided_scatter(Context& ctx, const Values& args) {
  const TensorBox src = ctx.tensor(args[1]);
  if (ctx.result().rank() == 0) {
    if (!ctx.graph.env().statically_known_equal(sym::product(src.sizes), 1)) refuse(ctx, "writes many values to one");
    return result(ctx, element_at(ctx, src, Exprs(src.rank(), 0), {}).cast(register_type(ctx.result().dtype)));
  }
  const TensorBox out = fresh_copy(ctx, ctx.tensor(args[0]), ctx.result(), StoreMode::Assign);
  const Exprs strides = ctx.integers(args[3]);
  const auto dense = dense_order(ctx.graph.env(), ctx.result());
  if (!dense) refuse(ctx, "writes by stride into a tensor that is not dense");
  Expr flat = args[4].is_none() ? ctx.result().offset : ctx.integer(args[4]);
  for (std::size_t d = 0; d < strides.size(); ++d) flat += ctx.graph.ivar(d) * strides[d];
  const auto loops = loop_vars(ctx.graph, src.sizes);
  Exprs at(out.rank(), 0);
  for (const auto& [d, stride] : *dense) {
    const Expr e = sym::floor_div(flat, stride);
    at[d] = ctx.graph.env().simplify(d == dense->front().first ? e : sym::mod(e, out.sizes[d]), loops);
  }
  Element body = element(ctx, src, src.sizes).cast(register_type(out.dtype()));
  ctx.graph.add_operation({.node = ir::Pointwise{src.sizes, body},
                           .outs = {*out.storage->buffer},
                           .store_index = at,
                           .origins = ctx.graph.provenance.of(body),
                           .where = ctx.graph.provenance.where});
  return out;
}

}  // namespace

void add_scatter(Table& t) {
  for (const char* name :
       {"aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce"})
    t[name] = scatter(StoreMode::Assign);
  t["aten.scatter_add.default"] = scatter(StoreMode::Add);
  t["aten.scatter_reduce.two"] = scatter_reduce;
  t["aten.index_put.default"] = t["aten._unsafe_index_put.default"] = index_put;
  t["aten.index_add.default"] = index_rows(StoreMode::Add, false);
  t["aten.index_copy.default"] = index_rows(StoreMode::Assign, false);
  t["aten.index_fill.int_Scalar"] = t["aten.index_fill.int_Tensor"] = index_rows(StoreMode::Assign, true);
  t["aten.slice_scatter.default"] = slice_scatter;
  t["aten.select_scatter.default"] = select_scatter;
  t["aten.diagonal_scatter.default"] = diagonal_scatter;
  t["aten.as_strided_scatter.default"] = as_strided_scatter;
}

}  // namespace coil::lowering
