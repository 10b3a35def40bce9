// Views: maps from the result's indices to the argument's. Nothing is computed and nothing is copied.
#include "lowering/common.h"
#include "support/error.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// Any view that keeps the row-major order of elements: the recorded sizes say which.
Lowered reshaped(Context& ctx, const Values& args) { return reshape(ctx, ctx.tensor(args[0]), ctx.result().sizes); }

Lowered expanded(Context& ctx, const Values& args) { return expand(ctx, ctx.tensor(args[0]), ctx.result().sizes); }

Lowered permuted(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  std::vector<std::size_t> order;
  for (std::int64_t d : constants(ctx, args[1])) order.push_back(dimension(d, box.rank()));
  return permute(ctx, box, order);
}

Lowered swapped(Context& ctx, const TensorBox& box, std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(box.rank());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (!order.empty()) std::swap(order[a], order[b]);
  return permute(ctx, box, order);
}

Lowered transposed(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  return swapped(ctx, box, dimension(ctx, args[1], box.rank()), dimension(ctx, args[2], box.rank()));
}

Lowered matrix_transposed(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  return box.rank() < 2 ? Lowered(box) : swapped(ctx, box, box.rank() - 2, box.rank() - 1);
}

Lowered unsqueezed(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  return unsqueeze(ctx, box, dimension(ctx, args[1], box.rank() + 1));
}

/// A start argument as a position: counted from the end when negative (which only the run may tell), clamped to [0,
/// size].
Expr position(Context& ctx, Expr at, Expr size) {
  auto& env = ctx.graph.env();
  if (env.statically_known_lt(at, 0))
    at = env.simplify(sym::max(at + size, 0));
  else if (sym::has_symbol_of(at, sym::SymbolKind::Unbacked) && !env.statically_known_le(0, at))
    at = env.simplify(sym::where(sym::lt(at, 0), sym::max(at + size, 0), at));
  if (env.statically_known_le(at, size)) return at;
  return env.simplify(sym::min(at, size));
}

/// An index that must lie in [-size, size); where that depends on data, the run checks it.
Expr checked_index(Context& ctx, Expr at, Expr size, Expr length) {
  auto& env = ctx.graph.env();
  const bool from_end = env.statically_known_lt(at, 0), from_front = env.statically_known_le(0, at);
  if (!sym::has_symbol_of(at, sym::SymbolKind::Unbacked) && !sym::has_symbol_of(length, sym::SymbolKind::Unbacked))
    return from_end ? at + size : at;
  if (!from_front && !env.statically_known_le(-size, at))
    ctx.require(sym::ge(at, -size), fmt::format("{}: index {} is out of range for a size of {}", ctx.node->target,
                                                sym::to_string(at), sym::to_string(size)));
  const Expr place = from_front ? at : env.simplify(sym::where(sym::lt(at, 0), at + size, at));
  if (!env.statically_known_le(place + length, size))
    ctx.require(sym::le(place + length, size), fmt::format("{}: index {} is out of range for a size of {}",
                                                           ctx.node->target, sym::to_string(at), sym::to_string(size)));
  return place;
}

/// The part of `sizes` from `start` in one dimension, every step-th element.
TensorBox window(Context& ctx, const TensorBox& box, std::size_t dim, Expr start, Expr step, const Exprs& sizes) {
  // Sizes that data tell may be recorded as ones that fit, where only the run can say whether they do.
  auto of_data = [](Expr e) { return sym::has_symbol_of(e, sym::SymbolKind::Unbacked) || sym::has_float(e); };
  const Expr last = start + (sizes[dim] - 1) * step;
  if ((of_data(last) || of_data(box.sizes[dim])) && !ctx.graph.env().statically_known_lt(last, box.sizes[dim]))
    ctx.require(sym::lt(last, box.sizes[dim]),
                fmt::format("{}: {} elements from {} on do not fit a size of {}", ctx.node->target,
                            sym::to_string(sizes[dim]), sym::to_string(start), sym::to_string(box.sizes[dim])));
  Exprs index = ctx.graph.ivars(box.rank());
  index[dim] = start + index[dim] * step;
  return box.view(sizes, index);
}

Lowered sliced(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  const Expr start = args[2].is_none() ? Expr(0) : position(ctx, ctx.integer(args[2]), box.sizes[dim]);
  return window(ctx, box, dim, start, args.size() > 4 ? ctx.integer(args[4]) : Expr(1), ctx.result().sizes);
}

Lowered narrowed(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  return window(ctx, box, dim, checked_index(ctx, ctx.integer(args[2]), box.sizes[dim], ctx.integer(args[3])), 1,
                ctx.result().sizes);
}

TensorBox selected(Context& ctx, const TensorBox& box, std::size_t dim, Expr at) {
  Exprs sizes = box.sizes, index;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  for (std::size_t d = 0; d < box.rank(); ++d) index.push_back(d == dim ? at : ctx.graph.ivar(d < dim ? d : d - 1));
  return box.view(sizes, index);
}

Lowered select(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  return selected(ctx, box, dim, checked_index(ctx, ctx.integer(args[2]), box.sizes[dim], 1));
}

/// Consecutive parts along a dimension, of the recorded sizes.
Lowered split(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = dimension(ctx, ctx.node->arg("dim"), box.rank());
  std::vector<TensorBox> parts;
  Expr start = 0;
  for (std::size_t i = 0; i < ctx.node->meta.value.as_list().size(); ++i) {
    const Exprs& sizes = ctx.result(i).sizes;
    parts.push_back(window(ctx, box, dim, start, 1, sizes));
    start += sizes[dim];
  }
  return parts;
}

Lowered unbind(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  std::vector<TensorBox> parts;
  for (std::size_t i = 0; i < ctx.node->meta.value.as_list().size(); ++i)
    parts.push_back(selected(ctx, box, dim, static_cast<std::int64_t>(i)));
  return parts;
}

Lowered diagonal(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::int64_t offset = constant(ctx, args[1]);
  const std::size_t first = dimension(ctx, args[2], box.rank()), second = dimension(ctx, args[3], box.rank());
  const Exprs& sizes = ctx.result().sizes;
  const Expr along = ctx.graph.ivar(sizes.size() - 1);
  Exprs index;
  std::size_t next = 0;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (d == first)
      index.push_back(along + std::max<std::int64_t>(-offset, 0));
    else if (d == second)
      index.push_back(along + std::max<std::int64_t>(offset, 0));
    else
      index.push_back(ctx.graph.ivar(next++));
  }
  return box.view(sizes, index);
}

/// Windows of `size` every `step` elements; the elements of a window become the last dimension.
Lowered unfold(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Exprs& sizes = ctx.result().sizes;
  if (box.rank() == 0) return box.view(sizes, {});
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  Exprs index = ctx.graph.ivars(box.rank());
  index[dim] = index[dim] * ctx.integer(args[3]) + ctx.graph.ivar(box.rank());
  return box.view(sizes, index);
}

/// Where a buffer's first element lies in the storage that eager counts from, in the buffer's elements: constants and
/// inputs may be views into it. An input of complex numbers may be a buffer of their parts.
Expr start_in_storage(Context& ctx, ir::BufferId id) {
  if (auto constant = ctx.graph.constants.find(id); constant != ctx.graph.constants.end())
    return constant->second.offset;
  for (std::size_t k = 0; k < ctx.graph.inputs.size(); ++k)
    if (ctx.graph.inputs[k] == id)
      for (const fx::Node* n = ctx.module.graph.first(); n; n = n->next())
        if (n->opcode == fx::Opcode::Placeholder && n->target == ctx.module.inputs[k].placeholder)
          return sym::floor_div(n->tensor().offset * static_cast<std::int64_t>(size_of(n->tensor().dtype)),
                                static_cast<std::int64_t>(size_of(ctx.graph.buffer(id).layout.dtype)));
  return 0;
}

/// Whether the view certainly reaches outside: sizes and strides that are not known are no evidence.
bool reaches_outside(const ir::Layout& layout, const Exprs& sizes, const Exprs& strides, Expr first) {
  Expr low = first, high = first, span = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto stride = strides[d].constant();
    if (!stride || sizes[d].is_constant(0)) return false;
    (*stride < 0 ? low : high) += (sizes[d] - 1) * *stride;
  }
  for (std::size_t d = 0; d < layout.sizes.size(); ++d) span += (layout.sizes[d] - 1) * layout.strides[d];
  const auto from = low.constant(), to = (high - span).constant();
  return (from && *from < 0) || (to && *to >= 0);
}

/// Reads by stride from the memory that the argument lies in, which therefore keeps eager's layout.
Lowered as_strided(Context& ctx, const Values& args) {
  TensorBox box = ctx.tensor(args[0]);
  const fx::Node* source = args[0].as_node();
  const ir::BufferId id = box.realize();
  const ir::Buffer& buffer = ctx.graph.buffer(id);
  ctx.graph.buffer(id).layout.fixed = true;
  Expr first = args.size() < 4 || args[3].is_none() ? source->tensor().offset : ctx.integer(args[3]);
  first = first - start_in_storage(ctx, id);
  const Exprs strides = ctx.integers(args[2]);
  if (strides.size() != ctx.result().rank()) refuse(ctx, "sizes and strides differ in number");
  if (reaches_outside(buffer.layout, ctx.result().sizes, strides, first))
    refuse(ctx, "reads memory outside of the tensor that it is given, and the program is given that tensor alone");
  for (std::size_t d = 0; d < strides.size(); ++d) first += ctx.graph.ivar(d) * strides[d];
  box = ir::whole(ctx.graph, buffer.id);
  box.sizes = ctx.result().sizes;
  box.map = {first};
  box.linear = true;
  return box;
}

/// The index of a dimension of the argument for the result's index in that dimension.
using IndexMap = std::function<Expr(Context&, std::size_t dim, Expr i, Expr size)>;

/// A new value that reads the argument at mapped indices. A view here would have no strides.
Lowered mapped(Context& ctx, const TensorBox& box, const IndexMap& map) {
  const sym::TensorMeta& meta = ctx.result();
  const std::size_t lead = meta.rank() - box.rank();
  Exprs index;
  for (std::size_t d = 0; d < box.rank(); ++d) index.push_back(map(ctx, d, ctx.graph.ivar(lead + d), box.sizes[d]));
  return result(ctx, element_at(ctx, box, index, meta.sizes));
}

Lowered flip(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  // A number has a dimension to name, and none to turn around.
  std::vector<bool> flipped(std::max<std::size_t>(box.rank(), 1));
  for (std::int64_t d : constants(ctx, args[1])) flipped[dimension(d, box.rank())] = true;
  return mapped(ctx, box, [&](Context&, std::size_t d, Expr i, Expr size) { return flipped[d] ? size - 1 - i : i; });
}

Lowered roll(Context& ctx, const Values& args) {
  TensorBox box = ctx.tensor(args[0]);
  const Exprs shifts = ctx.integers(args[1]);
  const auto dims = args.size() > 2 && !args[2].is_none() ? constants(ctx, args[2]) : std::vector<std::int64_t>{};
  if (dims.empty()) {
    // Without dimensions the elements roll in row-major order.
    const Expr count = sym::product(box.sizes);
    const TensorBox flat = reshape(ctx, box, {count});
    const TensorBox rolled = pointwise(
        ctx, box.dtype(), {count}, element_at(ctx, flat, {sym::mod(ctx.graph.ivar(0) - shifts[0], count)}, {count}));
    return result(ctx, element(ctx, reshape(ctx, rolled, ctx.result().sizes), ctx.result().sizes));
  }
  Exprs by(box.rank(), 0);
  for (std::size_t k = 0; k < dims.size(); ++k) by[dimension(dims[k], box.rank())] += shifts.at(k);
  return mapped(ctx, box, [&](Context&, std::size_t d, Expr i, Expr size) {
    return by[d].is_constant(0) ? i : sym::mod(i - by[d], size);
  });
}

Lowered repeat(Context& ctx, const Values& args) {
  return mapped(ctx, ctx.tensor(args[0]), [](Context&, std::size_t, Expr i, Expr size) {
    return size.is_constant(1) ? Expr(0) : sym::mod(i, size);
  });
}

Lowered repeat_interleave(Context& ctx, const Values& args) {
  TensorBox box = ctx.tensor(args[0]);
  if (args[2].is_none()) box = reshape(ctx, box, {sym::product(box.sizes)});
  const std::size_t dim = args[2].is_none() ? 0 : dimension(ctx, args[2], box.rank());
  const Expr times = ctx.integer(args[1]);
  return mapped(ctx, box,
                [&](Context&, std::size_t d, Expr i, Expr) { return d == dim ? sym::floor_div(i, times) : i; });
}

}  // namespace

void add_views(Table& t) {
  for (const char* name :
       {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.squeeze.default",
        "aten.squeeze.dim", "aten.squeeze.dims", "aten.flatten.using_ints", "aten.unflatten.int",
        "aten.view_copy.default", "aten.view_as.default", "aten._reshape_alias.default", "aten.ravel.default"})
    t[name] = reshaped;
  for (const char* name :
       {"aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default", "aten.expand_copy.default"})
    t[name] = expanded;
  t["aten.permute.default"] = permuted;
  t["aten.transpose.int"] = t["aten.swapaxes.default"] = t["aten.swapdims.default"] = transposed;
  t["aten.t.default"] = t["aten.numpy_T.default"] = t["aten.mT.default"] = matrix_transposed;
  t["aten.unsqueeze.default"] = unsqueezed;
  t["aten.slice.Tensor"] = sliced;
  t["aten.narrow.default"] = narrowed;
  t["aten.select.int"] = select;
  for (const char* name :
       {"aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.split.sizes",
        "aten.unsafe_split.Tensor", "aten.unsafe_chunk.default", "aten.tensor_split.sections"})
    t[name] = split;
  t["aten.unbind.int"] = unbind;
  t["aten.diagonal.default"] = diagonal;
  t["aten.unfold.default"] = unfold;
  t["aten.as_strided.default"] = as_strided;
  t["aten.flip.default"] = flip;
  t["aten.roll.default"] = roll;
  t["aten.repeat.default"] = repeat;
  t["aten.repeat_interleave.self_int"] = repeat_interleave;
}

}  // namespace coil::lowering
