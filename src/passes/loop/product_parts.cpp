#include "passes/loop/product_parts.h"

#include <algorithm>

#include "ir/relayout.h"
#include "library_ops/products.h"
#include "support/ceil_div.h"

namespace coil {
namespace {

using ir::BufferView;
using ir::Scalar;
using sym::Expr;
using sym::Exprs;

constexpr std::int64_t kTileRows = 128, kFewRows = 64, kTileColumns = 128;
constexpr std::int64_t kBlocksOfMultiprocessor = 2;
constexpr std::int64_t kLeastDepth = 256;  // of a part: less is done before its first operands have come
constexpr std::int64_t kPiece = 64;        // elements that a block fetches at once
constexpr std::int64_t kMostParts = 32;    // which are added up one after the other

/// The most parts up to `wanted` that are whole pieces.
std::int64_t whole_parts(std::int64_t depth, std::int64_t wanted) {
  std::int64_t parts = std::max<std::int64_t>(1, std::min({wanted, depth / kLeastDepth, kMostParts}));
  while (parts > 1 && (depth % (parts * kPiece) != 0)) --parts;
  return parts;
}

/// One operand with the dimension that is summed over, `dim`, taken apart: its part comes first.
BufferView in_parts(BufferView view, std::size_t dim, std::int64_t parts) {
  const Expr size = *view.sizes[dim].constant() / parts;
  view.sizes[dim] = size;
  view.strides.insert(view.strides.begin(), view.strides[dim] * size);
  view.sizes.insert(view.sizes.begin(), parts);
  return view;
}

/// A new buffer of f32 that lies as its dimensions are.
BufferView new_sums(ir::Graph& graph, const ir::Buffer& like, const Exprs& sizes) {
  const Exprs strides = sym::contiguous_strides(sizes);
  const ir::Buffer& made =
      graph.add_buffer("", ir::BufferKind::Computed, {DType::F32, like.layout.device, sizes, strides, true});
  return {made.id, DType::F32, sizes, strides, 0};
}

/// The element of a view at the loop's place.
Scalar element(ir::Graph& graph, const BufferView& view) {
  Expr at = view.offset;
  for (std::size_t d = 0; d < view.sizes.size(); ++d)
    if (!view.sizes[d].is_constant(1)) at += view.strides[d] * graph.ivar(d);
  return graph.pool().linear_load(view.buffer, view.dtype, at);
}

}  // namespace

std::vector<std::int64_t> product_parts(const PartFacts& f, const target::Costs& costs) {
  const std::int64_t tall = f.rows <= kFewRows ? kFewRows : kTileRows,
                     tiles = std::max<std::int64_t>(
                         1, ceil_div(f.rows, tall) * ceil_div(f.columns, kTileColumns) * f.matrices);
  if (tiles >= costs.multiprocessors) return {1};
  const std::int64_t most = whole_parts(f.depth, kBlocksOfMultiprocessor * costs.multiprocessors / tiles);
  std::vector<std::int64_t> out;
  for (std::int64_t wanted = most; wanted > 1; wanted /= 2)
    if (const std::int64_t parts = whole_parts(f.depth, wanted);
        parts > 1 && std::ranges::find(out, parts) == out.end())
      out.push_back(parts);
  out.push_back(1);
  return out;
}

std::vector<std::int64_t> product_parts(const ir::Graph& graph, const ir::Extern& own) {
  const BufferView &a = own.inputs[0], &b = own.inputs[1], &y = own.outputs[0];
  const std::size_t rank = a.sizes.size();
  const auto depth = a.sizes[rank - 1].constant();
  const library_ops::BlockedCall<const ir::Extern> call(own);
  const auto post = call.post();
  const bool plain = post.empty() || (post.size() == 1 && post[0].kind == library_ops::PostOp::Kind::Add);
  if (!depth || !plain || call.has_pre() || !ir::is_whole(y, graph.buffer(y.buffer).layout)) return {1};
  const sym::ShapeEnv& env = *graph.env_ptr();
  // As many rows as one run of tiles goes through: those of all matrices of a where there is one b.
  PartFacts facts{.rows = env.hint_or(a.sizes[rank - 2], 1 << 12),
                  .columns = env.hint_or(b.sizes[rank - 1], 1024),
                  .depth = *depth};
  for (std::size_t d = 0; d + 2 < rank; ++d)
    (b.strides[d].is_constant(0) ? facts.rows : facts.matrices) *= env.hint_or(a.sizes[d], 8);
  return product_parts(facts, graph.target().costs);
}

std::vector<ir::Operation> product_in_parts(ir::Graph& graph, const ir::Operation& op, const ir::Extern& own,
                                            std::int64_t parts) {
  const BufferView& y = own.outputs[0];
  const std::size_t rank = y.sizes.size();
  Exprs sizes{parts};
  sizes.insert(sizes.end(), y.sizes.begin(), y.sizes.end());
  const BufferView partial = new_sums(graph, graph.buffer(y.buffer), sizes),
                   sums = new_sums(graph, graph.buffer(y.buffer), y.sizes);
  ir::Extern product{.op = own.op,
                     .attributes = {},
                     .inputs = {in_parts(own.inputs[0], rank - 1, parts), in_parts(own.inputs[1], rank - 2, parts)},
                     .outputs = {partial}};
  Exprs place{graph.rvar(0)};
  for (Expr i : graph.ivars(rank)) place.push_back(i);
  const Scalar part = graph.pool().load(partial.buffer, DType::F32, place);
  Scalar value = graph.pool().load(sums.buffer, DType::F32, graph.ivars(rank));
  for (std::size_t k = 2; k < own.inputs.size(); ++k)
    value = graph.pool().op(ir::ScalarOp::Add, value, element(graph, own.inputs[k]));
  std::vector<ir::Operation> out;
  const auto add = [&](auto node, ir::BufferId result) {
    out.push_back({.node = std::move(node), .outs = {result}, .origins = op.origins, .where = op.where});
  };
  add(std::move(product), partial.buffer);
  add(ir::Reduction{y.sizes, {Expr(parts)}, ir::ReductionKind::Sum, part}, sums.buffer);
  add(ir::Pointwise{y.sizes, value}, y.buffer);
  return out;
}

}  // namespace coil
