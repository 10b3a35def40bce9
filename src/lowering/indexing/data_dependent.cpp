// Operators whose results have sizes, or are numbers, that depend on data. Each counts first; the count becomes a
// symbol; what is sized by it is made after that.
#include "lowering/reductions/selection.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// A sum of all elements as I64, of no dimensions.
TensorBox total(Context& ctx, const TensorBox& box) {
  return reduce_over(ctx, box, reduced_axes(ctx, box, {}, false), ReductionKind::Sum, DType::I64);
}

TensorBox as_mask(Context& ctx, const TensorBox& box) {
  if (box.dtype() == DType::Bool) return box;
  Element x = element(ctx, box, box.sizes);
  return pointwise(ctx, DType::Bool, box.sizes, ne(x, 0.0));
}

/// Row-major positions of the mask's true elements, the first `count` of them; -1 behind the last.
TensorBox positions(Context& ctx, const TensorBox& mask, Expr count) {
  if (!ctx.target().has(target::Feature::Selections)) return positions_by_kernels(ctx, mask, count);
  const BufferView in = library_operand(ir::contiguous(mask));
  auto [flat, out] = library_result(ctx, DType::I64, {count});
  add_library_call(ctx, "nonzero", {}, {in}, {out});
  return flat;
}

/// Coordinate `dim` of row-major positions.
Element coordinate(Context& ctx, Element flat, const Exprs& sizes, std::size_t dim) {
  const Expr below = sym::product(std::span(sizes).subspan(dim + 1));
  Element at = below.is_constant(1) ? flat : floor_div(flat, index_value(ctx, below));
  return dim == 0 ? at : remainder(at, index_value(ctx, sizes[dim]));
}

/// The first element as a number: an integer or bool becomes a symbol, a float stays in memory.
Lowered first_element(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  for (Expr size : box.sizes)
    if (!size.is_constant(1)) ctx.require(sym::ge(size, 1), "there is no element to be read");
  const TensorBox number = pointwise(ctx, box.dtype(), {}, element_at(ctx, box, Exprs(box.rank(), 0), {}));
  const ops::Value& meta = ctx.node->meta.value;
  if (auto* e = meta.get_if<Expr>()) {
    ctx.define(*e, number);
  } else if (auto* b = meta.get_if<ops::Bool>()) {
    // A condition of the symbol that stands for the bool, as 0 or 1; of none, where the program asserts what it is.
    if (b->condition.is_constant()) {
      ctx.define(b->condition, number);
      return {};
    }
    const std::vector<Expr> symbols = sym::free_symbols(b->condition);
    if (symbols.size() != 1) refuse(ctx, "is recorded as a condition of several numbers");
    ctx.define(symbols[0], number);
  } else {
    TensorBox real = pointwise(ctx, DType::F64, {}, element(ctx, number, {}).cast(DType::F64));
    real.realize();
    if (auto* f = meta.get_if<ops::SymFloat>()) ctx.define(*f, real);
    return real;
  }
  return {};
}

Lowered item(Context& ctx, const Values& args) {
  for (Expr size : ctx.tensor(args[0]).sizes)
    if (!size.is_constant(1)) ctx.require(sym::eq(size, 1), "item takes a tensor of one element");
  return first_element(ctx, args);
}

/// nonzero(self) -> [count, rank]
Lowered nonzero(Context& ctx, const Values& args) {
  const TensorBox mask = as_mask(ctx, ctx.tensor(args[0]));
  mask.realize();
  const sym::TensorMeta& meta = ctx.result();
  ctx.define(meta.sizes[0], total(ctx, mask));
  const TensorBox flat = positions(ctx, mask, meta.sizes[0]);
  Element at = element_at(ctx, flat, {ctx.graph.ivar(0)}, meta.sizes), which = at;
  for (std::size_t d = 0; d < mask.rank(); ++d) {
    Element c = coordinate(ctx, at, mask.sizes, d);
    which = d == 0 ? c : where(condition(ctx, sym::eq(ctx.graph.ivar(1), static_cast<std::int64_t>(d))), c, which);
  }
  return result(ctx, which);
}

/// nonzero_numpy(self), where(condition): a list of coordinates for each dimension.
Lowered nonzero_numpy(Context& ctx, const Values& args) {
  TensorBox box = ctx.tensor(args[0]);
  if (box.rank() == 0) box = unsqueeze(ctx, box, 0);
  return coordinates(ctx, box, ctx.result(0).sizes[0]);
}

/// nonzero_static(self, *, size, fill_value): the first `size` of them, filled up.
Lowered nonzero_static(Context& ctx, const Values& args) {
  const TensorBox mask = as_mask(ctx, ctx.tensor(args[0]));
  const sym::TensorMeta& meta = ctx.result();
  const TensorBox flat = positions(ctx, mask, meta.sizes[0]);
  Element at = element_at(ctx, flat, {ctx.graph.ivar(0)}, meta.sizes), which = at;
  for (std::size_t d = 0; d < mask.rank(); ++d) {
    Element c = coordinate(ctx, maximum(at, 0.0), mask.sizes, d);
    which = d == 0 ? c : where(condition(ctx, sym::eq(ctx.graph.ivar(1), static_cast<std::int64_t>(d))), c, which);
  }
  Element fill = index_value(ctx, ctx.integer(ctx.node->arg("fill_value")));
  return result(ctx, where(lt(at, 0.0), fill, which));
}

/// masked_select(self, mask), both broadcast against each other.
Lowered masked_select(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), mask = ctx.tensor(args[1]);
  Exprs sizes(std::max(self.rank(), mask.rank()), 1);
  for (const TensorBox* box : {&self, &mask})
    for (std::size_t d = 0; d < box->rank(); ++d)
      if (Expr& s = sizes[sizes.size() - box->rank() + d]; s.is_constant(1)) s = box->sizes[d];
  const Expr count = ctx.result().sizes[0];
  const auto at = coordinates(ctx, expand(ctx, as_mask(ctx, mask), sizes), count);
  const Exprs over{count};
  std::vector<Scalar> indirect;
  Exprs index;
  for (std::size_t d = 0; d < self.rank(); ++d) {
    const std::size_t lead = sizes.size() - self.rank();
    if (self.sizes[d].is_constant(1) && !sizes[lead + d].is_constant(1)) {
      index.push_back(0);
      continue;
    }
    index.push_back(ctx.graph.pool().indirect(indirect.size()));
    indirect.push_back(element(ctx, at[lead + d], over));
  }
  return result(ctx, {&ctx.graph.pool(), self.load(index, loop_vars(ctx.graph, over), nullptr, std::move(indirect))});
}

/// For each of `count` results, which entry of `repeats` it repeats.
TensorBox repeated_positions(Context& ctx, TensorBox repeats, Expr count) {
  if (repeats.rank() == 0) repeats = unsqueeze(ctx, repeats, 0);
  repeats.realize();
  ctx.define(count, total(ctx, repeats));
  if (!ctx.target().has(target::Feature::Selections)) return repeats_by_kernels(ctx, repeats, count);
  const TensorBox wide =
      pointwise(ctx, DType::I64, repeats.sizes, element(ctx, repeats, repeats.sizes).cast(DType::I64));
  auto [at, out] = library_result(ctx, DType::I64, {count});
  add_library_call(ctx, "repeat_positions", {}, {library_operand(ir::contiguous(wide))}, {out});
  return at;
}

/// repeat_interleave.Tensor(repeats, *, output_size)
Lowered repeat_positions(Context& ctx, const Values& args) {
  const TensorBox at = repeated_positions(ctx, ctx.tensor(args[0]), ctx.result().sizes[0]);
  return result(ctx, element(ctx, at, ctx.result().sizes));
}

/// repeat_interleave.self_Tensor(self, repeats, dim, *, output_size)
Lowered repeat_interleave(Context& ctx, const Values& args) {
  TensorBox self = ctx.tensor(args[0]), repeats = ctx.tensor(args[1]);
  if (args[2].is_none()) self = reshape(ctx, self, {sym::product(self.sizes)});
  const std::size_t dim = args[2].is_none() ? 0 : dimension(ctx, args[2], self.rank());
  const Exprs& sizes = ctx.result().sizes;
  if (repeats.rank() == 0 || repeats.sizes[0].is_constant(1))
    repeats = expand(ctx, repeats, {self.sizes[dim]});
  else if (!ctx.graph.env().statically_known_equal(repeats.sizes[0], self.sizes[dim]))
    ctx.require(sym::eq(repeats.sizes[0], self.sizes[dim]),
                "repeats must have the size of the input in the repeated dimension");
  const TensorBox at = repeated_positions(ctx, repeats, sizes[dim]);
  Exprs index = ctx.graph.ivars(self.rank());
  index[dim] = ctx.graph.pool().indirect(0);
  std::vector<Scalar> indirect{element_at(ctx, at, {ctx.graph.ivar(dim)}, sizes)};
  return result(ctx, {&ctx.graph.pool(), self.load(index, loop_vars(ctx.graph, sizes), nullptr, std::move(indirect))});
}

/// What `distinct_by_kernels` says, by the library: rows and counts have the matrix's own length, of which the first
/// `count` are in use.
Distinct distinct(Context& ctx, const TensorBox& matrix, bool consecutive, Expr count) {
  if (!ctx.target().has(target::Feature::Selections)) return distinct_by_kernels(ctx, matrix, consecutive, count);
  const Expr n = matrix.sizes[0];
  auto [rows, rows_out] = library_result(ctx, matrix.dtype(), matrix.sizes);
  auto [inverse, inverse_out] = library_result(ctx, DType::I64, {n});
  auto [counts, counts_out] = library_result(ctx, DType::I64, {n});
  auto [number, number_out] = library_result(ctx, DType::I64, {});
  add_library_call(ctx, "unique", {{"consecutive", std::int64_t{consecutive}}},
                   {library_operand(ir::contiguous(matrix))}, {rows_out, inverse_out, counts_out, number_out});
  ctx.define(count, number);
  return {rows, inverse, counts};
}

/// Results of an operator that gives values, inverse and counts, of which some may not be wanted: those are recorded as
/// empty.
Lowered unique_flat(Context& ctx, const TensorBox& self, bool consecutive) {
  const Expr n = sym::product(self.sizes), count = ctx.result(0).sizes[0];
  const Distinct found = distinct(ctx, reshape(ctx, self, {n, 1}), consecutive, count);
  std::vector<TensorBox> results{
      result(ctx, element_at(ctx, found.rows, {ctx.graph.ivar(0), 0}, {count}), ctx.result(0))};
  for (std::size_t k = 1; k < ctx.node->meta.value.as_list().size(); ++k) {
    const sym::TensorMeta& meta = ctx.result(k);
    const bool empty = meta.rank() == 1 && meta.sizes[0].is_constant(0);
    const TensorBox all = k == 1 ? reshape(ctx, found.inverse, empty ? Exprs{0} : self.sizes) : found.counts;
    results.push_back(empty ? result(ctx, index_value(ctx, 0), meta)
                            : result(ctx, element_at(ctx, all, ctx.graph.ivars(all.rank()), meta.sizes), meta));
  }
  return results;
}

Lowered unique_rows(Context& ctx, const TensorBox& self, std::size_t dim, bool consecutive) {
  const Expr count = ctx.result(0).sizes[dim];
  std::vector<std::size_t> order{dim};
  for (std::size_t d = 0; d < self.rank(); ++d)
    if (d != dim) order.push_back(d);
  const TensorBox first = permute(ctx, self, order);
  const Expr width = sym::product(std::span(first.sizes).subspan(1));
  const Distinct found = distinct(ctx, reshape(ctx, first, {first.sizes[0], width}), consecutive, count);
  Exprs unfolded = first.sizes;
  unfolded[0] = found.rows.sizes[0];
  const TensorBox rows = reshape(ctx, found.rows, unfolded);
  Exprs index{ctx.graph.ivar(dim)};
  for (std::size_t d = 0; d < self.rank(); ++d)
    if (d != dim) index.push_back(ctx.graph.ivar(d));
  std::vector<TensorBox> results{result(ctx, element_at(ctx, rows, index, ctx.result(0).sizes), ctx.result(0))};
  for (std::size_t k = 1; k < ctx.node->meta.value.as_list().size(); ++k) {
    const sym::TensorMeta& meta = ctx.result(k);
    const bool empty = meta.sizes[0].is_constant(0);
    results.push_back(
        empty ? result(ctx, index_value(ctx, 0), meta)
              : result(ctx, element_at(ctx, k == 1 ? found.inverse : found.counts, {ctx.graph.ivar(0)}, meta.sizes),
                       meta));
  }
  return results;
}

/// _unique2(self, sorted, return_inverse, return_counts), _unique(self, sorted, return_inverse): sorted in any case, as
/// eager's are.
Lowered unique(Context& ctx, const Values& args) { return unique_flat(ctx, ctx.tensor(args[0]), false); }

/// unique_consecutive(self, return_inverse, return_counts, dim)
Lowered unique_consecutive(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]);
  if (args[3].is_none()) return unique_flat(ctx, self, true);
  return unique_rows(ctx, self, dimension(ctx, args[3], self.rank()), true);
}

/// unique_dim(self, dim, …), unique_dim_consecutive(self, dim, …)
LoweringFunction unique_dim(bool consecutive) {
  return [consecutive](Context& ctx, const Values& args) -> Lowered {
    const TensorBox self = ctx.tensor(args[0]);
    return unique_rows(ctx, self, dimension(ctx, args[1], self.rank()), consecutive);
  };
}

/// Counts of equal numbers on a machine of few threads: parts of the numbers are counted side by side, each into a row
/// of its own, as long as rows are short beside the parts; then rows are added.
TensorBox counted_in_parts(Context& ctx, const TensorBox& self, const sym::TensorMeta& meta) {
  auto& pool = ctx.graph.pool();
  constexpr std::int64_t kParts = 8, kNumbersPerCount = 4;
  const Expr numbers = self.sizes[0], length = meta.sizes[0];
  const Expr parts =
      sym::max(1, sym::min(kParts, sym::floor_div(numbers, sym::max(1, length * (kParts * kNumbersPerCount)))));
  const Expr part = sym::ceil_div(numbers, parts);
  const Exprs sizes{parts, part}, rows{parts, length};
  const TensorBox table = pointwise(ctx, meta.dtype, rows, {&pool, pool.constant_int(DType::I64, 0)});
  table.realize();
  const Expr place = ctx.graph.ivar(0) * part + ctx.graph.ivar(1);
  const Element inside = condition(ctx, sym::lt(place, numbers)),
                x = element_at(ctx, self, {place}, sizes, {}, inside).cast(DType::I64);
  const Element none = {&pool, pool.constant_int(DType::I64, 0)}, one = {&pool, pool.constant_int(DType::I64, 1)};
  scatter_into(ctx, table, sizes, where(inside, one, none), {ctx.graph.ivar(0), pool.indirect(0)},
               {pool.check_index(x, length)}, ir::StoreMode::Add);
  return reduce_over(ctx, table, reduced_axes(ctx, table, std::vector<std::int64_t>{0}, false), ReductionKind::Sum,
                     meta.dtype);
}

/// bincount(self, weights, minlength)
Lowered bincount(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]);
  self.realize();
  const Axes axes = reduced_axes(ctx, self, {}, false);
  auto& pool = ctx.graph.pool();
  Element largest = element(ctx, reduce_over(ctx, self, axes, ReductionKind::Max, DType::I64), {});
  Element smallest = element(ctx, reduce_over(ctx, self, axes, ReductionKind::Min, DType::I64), {});
  const Expr least = ctx.read(pointwise(ctx, DType::Bool, {}, ge(smallest, 0.0)), {0, 1});
  ctx.require(sym::eq(least, 1), "bincount takes no negative numbers");
  Element one{&pool, pool.constant_int(DType::I64, 1)};
  Element length =
      maximum(where(lt(largest, 0.0), largest.number(0), largest + one), index_value(ctx, ctx.integer(args[2])));
  const sym::TensorMeta& meta = ctx.result();
  ctx.define(meta.sizes[0], pointwise(ctx, DType::I64, {}, length));
  const DType t = register_type(meta.dtype);
  const auto weights = ctx.optional_tensor(args[1]);
  if (!weights && ctx.target().has(target::Feature::Selections)) return counted_in_parts(ctx, self, meta);
  const TensorBox out = result(ctx, {&pool, pool.constant_int(t, 0)});
  out.realize();
  Element add = {&pool, pool.constant_int(t, 1)};
  if (weights) add = element(ctx, *weights, self.sizes).cast(t);
  scatter_into(ctx, out, self.sizes, add, {pool.indirect(0)},
               {pool.check_index(element(ctx, self, self.sizes).cast(DType::I64), meta.sizes[0])}, ir::StoreMode::Add);
  return out;
}

}  // namespace

std::vector<TensorBox> coordinates(Context& ctx, const TensorBox& given, Expr count) {
  const TensorBox mask = as_mask(ctx, given);
  mask.realize();
  ctx.define(count, total(ctx, mask));
  const TensorBox flat = positions(ctx, mask, count);
  std::vector<TensorBox> result;
  for (std::size_t d = 0; d < mask.rank(); ++d)
    result.push_back(mask.rank() == 1 ? flat
                                      : pointwise(ctx, DType::I64, {count},
                                                  coordinate(ctx, element(ctx, flat, {count}), mask.sizes, d)));
  return result;
}

void add_data_dependent(Table& t) {
  t["aten.item.default"] = item;
  t["aten._local_scalar_dense.default"] = first_element;  // which asks for no more than that there is one, in eager
  t["aten.nonzero.default"] = t["aten.argwhere.default"] = nonzero;
  t["aten.nonzero_numpy.default"] = t["aten.where.default"] = nonzero_numpy;
  t["aten.nonzero_static.default"] = nonzero_static;
  t["aten.masked_select.default"] = masked_select;
  t["aten.repeat_interleave.Tensor"] = repeat_positions;
  t["aten.repeat_interleave.self_Tensor"] = repeat_interleave;
  t["aten._unique2.default"] = t["aten._unique.default"] = unique;
  t["aten.unique_consecutive.default"] = unique_consecutive;
  t["aten.unique_dim.default"] = unique_dim(false);
  t["aten.unique_dim_consecutive.default"] = unique_dim(true);
  t["aten.bincount.default"] = bincount;
}

}  // namespace coil::lowering
