// Reads at indices that are data: embedding, index, gather and their kind. Indices are checked when the kernel runs.
#include <algorithm>
#include <bit>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// embedding(weight, indices, padding_idx, …): a row of the table for each index.
Lowered embedding(Context& ctx, const Values& args) {
  const TensorBox table = ctx.tensor(args[0]), indices = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  Element at = element_at(ctx, indices, ctx.graph.ivars(indices.rank()), sizes);
  const auto loops = loop_vars(ctx.graph, sizes);
  std::vector<Scalar> indirect;
  const Exprs row{indirect_index(ctx, at, table.sizes[0], loops, indirect), ctx.graph.ivar(sizes.size() - 1)};
  return result(ctx, {&ctx.graph.pool(), table.load(row, loops, nullptr, std::move(indirect))});
}

}  // namespace

std::vector<std::optional<TensorBox>> spread_masks(Context& ctx, const ops::Value& list, std::size_t rank,
                                                   const std::function<Expr(std::size_t at)>& recorded) {
  std::vector<std::optional<TensorBox>> indices;
  std::vector<std::pair<std::size_t, TensorBox>> masks;
  std::optional<std::size_t> first, last;
  bool neighbours = true;
  for (const ops::Value& item : list.as_list()) {
    auto index = ctx.optional_tensor(item);
    const bool mask = index && (index->dtype() == DType::Bool || index->dtype() == DType::U8);
    const std::size_t count = mask ? index->rank() : 1, at = indices.size();
    if (mask && count == 0) refuse(ctx, "a mask of no dimensions gives a size that depends on data");
    if (mask) masks.emplace_back(at, *index);
    for (std::size_t k = 0; k < count; ++k) indices.push_back(index);
    if (!index) continue;
    neighbours = neighbours && (!last || *last + 1 == at);
    if (!first) first = at;
    last = at + count - 1;
  }
  // Numbers for the mask's true elements make one dimension, at the place that index.Tensor gives those of the indices.
  for (auto& [at, mask] : masks) {
    const auto found = coordinates(ctx, mask, recorded(neighbours ? *first : 0));
    for (std::size_t k = 0; k < found.size(); ++k) indices.at(at + k) = found[k];
  }
  if (indices.size() > rank) refuse(ctx, "has more indices than the tensor has dimensions");
  indices.resize(rank);
  return indices;
}

namespace {

/// index.Tensor(self, indices): tensors where a dimension is indexed, None where it is kept. The broadcast dimensions
/// of the indices stand where the first of them stood when they are neighbours, and first otherwise (numpy's rule).
Lowered index(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Exprs& sizes = ctx.result().sizes;
  const std::vector<std::optional<TensorBox>> indices =
      spread_masks(ctx, args[1], box.rank(), [&](std::size_t at) { return sizes.at(at); });
  std::size_t count = 0, first = box.rank(), last = 0, broadcast = 0;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!indices.at(d)) continue;
    broadcast = std::max(broadcast, indices[d]->rank());
    first = std::min(first, d);
    last = d;
    ++count;
  }
  if (count == 0) return result(ctx, element(ctx, box, sizes));
  const bool neighbours = last - first + 1 == count;
  const std::size_t at = neighbours ? first : 0;
  const Exprs shape(sizes.begin() + static_cast<std::ptrdiff_t>(at),
                    sizes.begin() + static_cast<std::ptrdiff_t>(at + broadcast));
  const auto loops = loop_vars(ctx.graph, sizes);
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
      const bool repeated = tensor.sizes[k] != shape[dim] && is_one(ctx, tensor.sizes[k]);
      i.push_back(repeated ? Expr(0) : ctx.graph.ivar(at + dim));
    }
    const Element position = from_either_end(ctx, element_at(ctx, tensor, i, sizes), box.sizes[d], loops);
    where_read.push_back(indirect_index(ctx, position, box.sizes[d], loops, indirect));
  }
  return result(ctx, {&ctx.graph.pool(), box.load(where_read, loops, nullptr, std::move(indirect))});
}

/// gather(self, dim, index): out[i…] = self[i… with dim replaced by index[i…]].
Lowered gather(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[2]);
  const Exprs& sizes = ctx.result().sizes;
  if (box.rank() == 0) return result(ctx, element_at(ctx, box, {}, sizes));
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  Exprs at = ctx.graph.ivars(box.rank());
  if (indices.rank() == 0) at = {0};
  const auto loops = loop_vars(ctx.graph, sizes);
  std::vector<Scalar> indirect;
  at[dim] = indirect_index(ctx, element(ctx, indices, sizes), box.sizes[dim], loops, indirect);
  return result(ctx, {&ctx.graph.pool(), box.load(at, loops, nullptr, std::move(indirect))});
}

/// index_select(self, dim, index): rows of a dimension by a list of positions.
Lowered index_select(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[2]);
  const Exprs& sizes = ctx.result().sizes;
  if (box.rank() == 0) return result(ctx, element(ctx, box, sizes));
  const std::size_t dim = dimension(ctx, args[1], box.rank());
  Exprs at = ctx.graph.ivars(box.rank());
  const Exprs i = indices.rank() ? Exprs{ctx.graph.ivar(dim)} : Exprs{};
  const auto loops = loop_vars(ctx.graph, sizes);
  std::vector<Scalar> indirect;
  at[dim] = indirect_index(ctx, element_at(ctx, indices, i, sizes), box.sizes[dim], loops, indirect);
  return result(ctx, {&ctx.graph.pool(), box.load(at, loops, nullptr, std::move(indirect))});
}

/// take(self, index): positions in row-major order.
Lowered take(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]), indices = ctx.tensor(args[1]);
  const Expr count = sym::product(box.sizes);
  const TensorBox flat = reshape(ctx, box, {count});
  const Exprs& sizes = ctx.result().sizes;
  const auto loops = loop_vars(ctx.graph, sizes);
  std::vector<Scalar> indirect;
  const Element position = from_either_end(ctx, element(ctx, indices, sizes), count, loops);
  const Exprs at{indirect_index(ctx, position, count, loops, indirect)};
  return result(ctx, {&ctx.graph.pool(), flat.load(at, loops, nullptr, std::move(indirect))});
}

/// Where a value belongs among sorted boundaries: after those that are smaller (or not larger, when `right`). NaN
/// belongs at the end. A few are counted; more are halved again and again, by eager's probes, so that boundaries that
/// are not sorted give what they give there.
Lowered place_among(Context& ctx, const TensorBox& boundaries, const ops::Value& values, bool right) {
  constexpr std::int64_t kFew = 16;
  auto& env = ctx.graph.env();
  auto& pool = ctx.graph.pool();
  const sym::TensorMeta& meta = ctx.result();
  const ops::Value* both[] = {&values, &ctx.node->args[0]};
  const DType t = register_type(is_floating(boundaries.dtype()) ? boundaries.dtype() : promoted(ctx, both));
  const Expr count = boundaries.sizes.back();
  Exprs at;
  if (boundaries.rank() > 1) at = ctx.graph.ivars(boundaries.rank() - 1);
  auto before = [&](Element boundary, Element v) {
    return !(right ? gt(boundary.cast(t), v) : ge(boundary.cast(t), v));
  };
  auto value = [&](const Exprs& reduced) {
    auto box = ctx.optional_tensor(values);
    return box ? element_at(ctx, *box, ctx.graph.ivars(box->rank()), meta.sizes, reduced).cast(box->dtype()).cast(t)
               : Element{&pool, ctx.number(values, t)};
  };
  if (env.statically_known_le(count, kFew)) {
    at.push_back(ctx.graph.rvar(0));
    const Element below = before(element_at(ctx, boundaries, at, meta.sizes, {count}), value({count}));
    const TensorBox sum = reduction(ctx, DType::I64, meta.sizes, {count}, ReductionKind::Sum, below.cast(DType::I64));
    return result(ctx, element(ctx, sum, meta.sizes));
  }
  boundaries.realize();
  at.push_back(pool.indirect(0));
  const auto loops = loop_vars(ctx.graph, meta.sizes);
  const Element v = value({}), one{&pool, pool.constant_int(DType::I64, 1)}, last = index_value(ctx, count - 1);
  Element low{&pool, pool.constant_int(DType::I64, 0)}, high = index_value(ctx, count);
  // No more halvings than memory has places.
  const auto most = static_cast<std::uint64_t>(std::min(env.bounds(count).high, std::int64_t{1} << 47));
  const bool never_empty = env.statically_known_le(1, count);
  for (int halving = 0; halving < static_cast<int>(std::bit_width(most)); ++halving) {
    const Element open = lt(low, high), middle = shift_right(low + high, one), place = minimum(middle, last);
    const Element probe{&pool, boundaries.load(at, loops, never_empty ? nullptr : open.scalar, {place.scalar})};
    const Element after = open & before(probe, v);
    high = where(open & !after, middle, high);
    low = where(after, middle + one, low);
  }
  const TensorBox found = pointwise(ctx, DType::I64, meta.sizes, low);
  found.realize();
  return result(ctx, element(ctx, found, meta.sizes));
}

/// bucketize(self, boundaries, *, out_int32, right)
Lowered bucketize(Context& ctx, const Values& args) {
  return place_among(ctx, ctx.tensor(args[1]), args[0], ctx.node->arg("right").as_bool());
}

/// searchsorted(sorted_sequence, self, *, out_int32, right, side, sorter)
Lowered searchsorted(Context& ctx, const Values& args) {
  if (!ctx.node->arg("sorter").is_none()) refuse(ctx, "takes no sorter");
  const ops::Value& side = ctx.node->arg("side");
  return place_among(ctx, ctx.tensor(args[0]), args[1],
                     ctx.node->arg("right").as_bool() || (side.is<std::string>() && side.as_string() == "right"));
}

}  // namespace

void add_indexing(Table& t) {
  t["aten.embedding.default"] = embedding;
  t["aten.index.Tensor"] = t["aten._unsafe_index.Tensor"] = index;
  t["aten.gather.default"] = gather;
  t["aten.index_select.default"] = index_select;
  t["aten.take.default"] = take;
  t["aten.bucketize.Tensor"] = t["aten.bucketize.Scalar"] = bucketize;
  t["aten.searchsorted.Tensor"] = t["aten.searchsorted.Scalar"] = searchsorted;
}

}  // namespace coil::lowering
