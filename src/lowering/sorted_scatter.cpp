// Scatters whose results depend on the order of writes, in program order on machines whose threads run in any: the
// places are sorted, and one thread carries out all writes to a place.
#include <algorithm>
#include <bit>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

bool mentions(Scalar value, Expr variable) {
  const std::vector<Scalar> below = ir::topological({&value, 1});
  return std::any_of(below.begin(), below.end(), [&](Scalar n) {
    return std::any_of(n->index.begin(), n->index.end(), [&](Expr e) { return sym::contains(e, variable); });
  });
}

/// Whether the writes to a place give another result in another order.
bool depends_on_order(const Element& body, ir::StoreMode mode, DType stored) {
  if (mode == ir::StoreMode::Assign) return body.scalar->op != ScalarOp::Constant;
  return (mode == ir::StoreMode::Add || mode == ir::StoreMode::Prod) && is_floating(stored);
}

/// What the loops of a scatter do. Iterations that differ in a loop that is a dimension's place never meet: such loops
/// stay as they are (`free`), or each of their points sorts by itself (`batch`) where the data that say the other
/// places depend on them. The other loops' iterations are `sorted`, flattened to one.
struct Loops {
  std::vector<std::size_t> batch, sorted, free;
};

}  // namespace

bool scatter_in_order(Context& ctx, const TensorBox& out, const Exprs& sizes, Element body, const Exprs& index,
                      const std::vector<Scalar>& indirect, ir::StoreMode mode) {
  if (!depends_on_order(body, mode, out.dtype()) && !lacks_update(ctx, out.dtype(), mode)) return false;
  auto& graph = ctx.graph;
  auto& pool = graph.pool();
  const Exprs old = graph.ivars(sizes.size());
  std::vector<std::size_t> places;  // dimensions whose place is no loop
  for (std::size_t d = 0; d < index.size(); ++d)
    if (std::find(old.begin(), old.end(), index[d]) == old.end()) places.push_back(d);
  Loops loops;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bool apart = std::find(index.begin(), index.end(), old[k]) != index.end();
    bool moves = std::any_of(indirect.begin(), indirect.end(), [&](Scalar x) { return mentions(x, old[k]); });
    for (std::size_t d : places) moves = moves || sym::contains(index[d], old[k]);
    (!apart ? loops.sorted : moves ? loops.batch : loops.free).push_back(k);
  }
  if (loops.sorted.empty()) return false;

  // New loops: batch, the sorted ones as one, free.
  const std::size_t at = loops.batch.size();
  const Expr position = graph.ivar(at);
  Exprs now(sizes.size()), key_sizes, value_sizes, sorted_sizes;
  for (std::size_t k = 0; k < at; ++k) now[loops.batch[k]] = graph.ivar(k), key_sizes.push_back(sizes[loops.batch[k]]);
  Expr length = 1;
  for (std::size_t k = loops.sorted.size(); k-- > 0;) {
    const Expr size = sizes[loops.sorted[k]];
    now[loops.sorted[k]] = k == 0 ? sym::floor_div(position, length) : sym::mod(sym::floor_div(position, length), size);
    length = length * size;
  }
  key_sizes.push_back(graph.env().simplify(length));
  value_sizes = key_sizes;
  for (std::size_t k = 0; k < loops.free.size(); ++k)
    now[loops.free[k]] = graph.ivar(at + 1 + k), value_sizes.push_back(sizes[loops.free[k]]);
  const auto key_loops = loop_vars(graph, key_sizes), value_loops = loop_vars(graph, value_sizes);
  auto moved = [&](Scalar x, const std::vector<sym::LoopVar>& among) {
    return Element{&pool, pool.substitute(x, old, now, [&](Expr e) { return graph.env().simplify(e, among); })};
  };

  // The place of each iteration as one number.
  Element key{&pool, pool.constant_int(DType::I64, 0)};
  for (std::size_t d : places) {
    Element place;
    for (std::size_t j = 0; j < indirect.size(); ++j)
      if (index[d] == pool.indirect(j)) place = moved(indirect[j], key_loops).cast(DType::I64);
    if (!place.scalar) {
      for (std::size_t j = 0; j < indirect.size(); ++j)
        if (sym::contains(index[d], pool.indirect(j)))
          refuse(ctx, "cannot be carried out in a fixed order (deterministic=true)");
      place = index_value(ctx, graph.env().simplify(sym::substitute(index[d], old, now), key_loops));
    }
    key = d == places.front() ? place : key * index_value(ctx, out.sizes[d]) + place;
  }
  // Few places: narrow keys, of which few digits differ.
  Expr count = 1;
  for (std::size_t d : places) count = count * out.sizes[d];
  const DType key_type = graph.env().statically_known_le(count, std::int64_t{1} << 31) ? DType::I32 : DType::I64;
  library_ops::Attributes order{
      {"dim", static_cast<std::int64_t>(at)}, {"descending", std::int64_t{0}}, {"stable", std::int64_t{1}}};
  if (const auto most = graph.env().simplify(count).constant(); most && *most > 1)
    order["bits"] = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(*most - 1)));
  const TensorBox keys = pointwise(ctx, key_type, key_sizes, key.cast(key_type));
  const std::vector<TensorBox> sorted = ordered(ctx, keys, std::move(order), key_sizes);
  const TensorBox values = pointwise(ctx, body.dtype(), value_sizes, moved(body, value_loops));
  values.realize();

  // The writes again, those to one place side by side.
  Exprs here(graph.ivars(at + 1)), from = graph.ivars(value_sizes.size()), stored = index;
  from[at] = pool.indirect(0);
  Element value{&pool, values.load(from, value_loops, nullptr, {element_at(ctx, sorted[1], here, value_sizes)})};
  for (std::size_t d = 0; d < index.size(); ++d) stored[d] = sym::substitute(index[d], old, now);
  Expr step = 1;
  for (std::size_t k = places.size(); k-- > 0;) {
    const Expr whole = sym::floor_div(pool.indirect(0), step);
    stored[places[k]] = k == 0 ? whole : sym::mod(whole, out.sizes[places[k]]);
    step = step * out.sizes[places[k]];
  }
  ir::Operation op;
  op.outs = {*out.storage->buffer};
  op.origins = graph.provenance.of(body);
  op.where = graph.provenance.where;
  op.node = ir::Scatter{value_sizes,
                        value.cast(register_type(out.dtype())),
                        std::move(stored),
                        {element_at(ctx, sorted[0], here, value_sizes).cast(DType::I64)},
                        mode,
                        at};
  graph.add_operation(std::move(op));
  return true;
}

}  // namespace coil::lowering
