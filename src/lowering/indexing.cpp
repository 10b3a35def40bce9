// Reads at indices that are data: embedding, index, gather and their kind. Indices are checked when the kernel runs.
#include <algorithm>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// An index tensor's element as a checked position in a dimension of this size.
Scalar position(Context& ctx, Value index, Expr size) { return ctx.graph.pool().check_index(index.cast(DType::I64), size); }

/// embedding(weight, indices, padding_idx, …): a row of the table for each index.
Lowered embedding(Context& ctx, const Values& args) {
  const TensorBox table = ctx.tensor(args[0]), indices = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  Value at = element_at(ctx, indices, ctx.graph.ivars(indices.rank()), sizes);
  Scalar row = table.load(Exprs{ctx.graph.pool().indirect(0), ctx.graph.ivar(sizes.size() - 1)}, loop_vars(ctx.graph, sizes), nullptr, {position(ctx, at, table.sizes[0])});
  return result(ctx, {&ctx.graph.pool(), row});
}

/// index.Tensor(self, indices): tensors where a dimension is indexed, None where it is kept. The broadcast dimensions of the
/// indices stand where the first of them stood when they are neighbours, and first otherwise (numpy's rule).
Lowered index(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const auto& list = args[1].as_list();
  const Exprs& sizes = ctx.result().sizes;
  std::vector<std::optional<TensorBox>> indices(box.rank());
  std::size_t count = 0, first = box.rank(), last = 0, broadcast = 0;
  for (std::size_t d = 0; d < list.size(); ++d) {
    indices.at(d) = ctx.optional_tensor(list[d]);
    if (!indices[d]) continue;
    if (indices[d]->dtype() == DType::Bool) refuse(ctx, "an index of booleans gives a size that depends on data");
    broadcast = std::max(broadcast, indices[d]->rank());
    first = std::min(first, d);
    last = d;
    ++count;
  }
  if (count == 0) return result(ctx, element(ctx, box, sizes));
  const bool neighbours = last - first + 1 == count;
  const std::size_t at = neighbours ? first : 0;
  const Exprs shape(sizes.begin() + static_cast<std::ptrdiff_t>(at), sizes.begin() + static_cast<std::ptrdiff_t>(at + broadcast));
  Exprs where_read;
  std::vector<Scalar> indirect;
  std::size_t next = neighbours ? 0 : broadcast;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (neighbours && d == first) next += broadcast;
    if (!indices[d]) {
      where_read.push_back(ctx.graph.ivar(next++));
      continue;
    }
    const TensorBox& tensor = *indices[d];
    Exprs i;
    for (std::size_t k = 0; k < tensor.rank(); ++k) {
      const std::size_t dim = broadcast - tensor.rank() + k;
      i.push_back(tensor.sizes[k].is_constant(1) && !shape[dim].is_constant(1) ? Expr(0) : ctx.graph.ivar(at + dim));
    }
    where_read.push_back(ctx.graph.pool().indirect(indirect.size()));
    indirect.push_back(position(ctx, element_at(ctx, tensor, i, sizes), box.sizes[d]));
  }
  return result(ctx, {&ctx.graph.pool(), box.load(where_read, loop_vars(ctx.graph, sizes), nullptr, std::move(indirect))});
}

/// gather(self, dim, index): out[i…] = self[i… with dim replaced by index[i…]].
Lowered gather(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[2]);
  const Exprs& sizes = ctx.result().sizes;
  if (box.rank() == 0) return result(ctx, element_at(ctx, box, {}, sizes));
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  Exprs at = ctx.graph.ivars(box.rank());
  if (indices.rank() == 0) at = {0};
  at[dim] = ctx.graph.pool().indirect(0);
  Scalar where_read = position(ctx, element(ctx, indices, sizes), box.sizes[dim]);
  return result(ctx, {&ctx.graph.pool(), box.load(at, loop_vars(ctx.graph, sizes), nullptr, {where_read})});
}

/// index_select(self, dim, index): rows of a dimension by a list of positions.
Lowered index_select(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[2]);
  const Exprs& sizes = ctx.result().sizes;
  if (box.rank() == 0) return result(ctx, element(ctx, box, sizes));
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  Exprs at = ctx.graph.ivars(box.rank());
  at[dim] = ctx.graph.pool().indirect(0);
  const Exprs i = indices.rank() ? Exprs{ctx.graph.ivar(dim)} : Exprs{};
  Scalar where_read = position(ctx, element_at(ctx, indices, i, sizes), box.sizes[dim]);
  return result(ctx, {&ctx.graph.pool(), box.load(at, loop_vars(ctx.graph, sizes), nullptr, {where_read})});
}

/// take(self, index): positions in row-major order.
Lowered take(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[1]);
  const Expr count = sym::product(box.sizes);
  const TensorBox flat = reshape(ctx, box, {count});
  const Exprs& sizes = ctx.result().sizes;
  Scalar where_read = position(ctx, element(ctx, indices, sizes), count);
  return result(ctx, {&ctx.graph.pool(), flat.load(Exprs{ctx.graph.pool().indirect(0)}, loop_vars(ctx.graph, sizes), nullptr, {where_read})});
}

}  // namespace

void add_indexing(Table& t) {
  t["aten.embedding.default"] = embedding;
  t["aten.index.Tensor"] = t["aten._unsafe_index.Tensor"] = index;
  t["aten.gather.default"] = gather;
  t["aten.index_select.default"] = index_select;
  t["aten.take.default"] = take;
}

}  // namespace coil::lowering
