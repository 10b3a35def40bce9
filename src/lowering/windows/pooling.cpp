// Pooling: reductions over windows, with elements outside of the input left out by masks.
#include <cmath>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Ints = std::vector<std::int64_t>;

/// One window for each output element over the last dimensions.
struct Window {
  Exprs sizes, reduced, index;
  Element inside;            ///< whether an element of the window lies in the input
  std::vector<Expr> starts;  ///< of the window in each pooled dimension, before clipping
};

/// Windows of `kernel` elements, `dilation` apart, every `stride` elements from -padding on. `spatial` pooled
/// dimensions.
Window fixed_window(Context& ctx, const TensorBox& box, const Exprs& sizes, const Ints& kernel, const Ints& stride,
                    const Ints& padding, const Ints& dilation) {
  const std::size_t spatial = kernel.size(), lead = box.rank() - spatial;
  Window w{sizes, Exprs(kernel.begin(), kernel.end()), ctx.graph.ivars(lead), condition(ctx, 1), {}};
  const auto loops = loop_vars(ctx.graph, sizes, w.reduced);
  for (std::size_t d = 0; d < spatial; ++d) {
    w.starts.push_back(ctx.graph.ivar(lead + d) * stride[d] - padding[d]);
    const Expr at = w.starts[d] + ctx.graph.rvar(d) * dilation[d];
    w.index.push_back(at);
    auto require = [&](Expr bound) { w.inside = w.inside & condition(ctx, ctx.graph.env().simplify(bound, loops)); };
    require(sym::ge(at, 0));
    require(sym::lt(at, box.sizes[lead + d]));
  }
  return w;
}

/// The window's element, or `otherwise` outside of the input.
Element windowed(Context& ctx, const TensorBox& box, const Window& w, DType t, double otherwise) {
  Element x = element_at(ctx, box, w.index, w.sizes, w.reduced, w.inside).cast(t);
  return where(w.inside, x,
               is_floating(t) || otherwise == 0 ? x.number(otherwise)
                                                : Element{x.pool, ir::neutral(*x.pool, ReductionKind::Max, t)});
}

/// max_pool(self, kernel, stride, padding, dilation, ceil_mode) over `spatial` dimensions.
TensorBox max_values(Context& ctx, const TensorBox& box, const Window& w, const sym::TensorMeta& meta) {
  const DType t = register_type(meta.dtype);
  return reduction(ctx, meta.dtype, w.sizes, w.reduced, ReductionKind::Max, windowed(ctx, box, w, t, -INFINITY),
                   meta.strides);
}

Window max_window(Context& ctx, const TensorBox& box, const Values& args, std::size_t spatial, const Exprs& sizes) {
  const Ints kernel = spread(constants(ctx, args[1]), spatial);
  Ints stride = args.size() > 2 ? constants(ctx, args[2]) : Ints{};
  if (stride.empty()) stride = kernel;
  const Ints padding = args.size() > 3 ? constants(ctx, args[3]) : Ints{0},
             dilation = args.size() > 4 ? constants(ctx, args[4]) : Ints{1};
  return fixed_window(ctx, box, sizes, kernel, spread(stride, spatial), spread(padding, spatial),
                      spread(dilation, spatial));
}

LoweringFunction max_pool(std::size_t spatial) {
  return [spatial](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    box.realize();
    const sym::TensorMeta& meta = ctx.result();
    return max_values(ctx, box, max_window(ctx, box, args, spatial, meta.sizes), meta);
  };
}

/// The place of a window's maximum along a dimension. Where all is minus infinity, as the padding is, the first place
/// would lie in the padding; the first one of the picture counts, as in eager.
Element in_picture(Element place, double dilation) {
  return where(lt(place, 0.0), dilation == 1 ? place.number(0) : remainder(place, place.number(dilation)), place);
}

LoweringFunction max_pool_with_indices(std::size_t spatial) {
  return [spatial](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    box.realize();
    const sym::TensorMeta& meta = ctx.result(0);
    const Window w = max_window(ctx, box, args, spatial, meta.sizes);
    std::vector<TensorBox> results{max_values(ctx, box, w, meta), {}};
    bool indices_used = false;
    for (const fx::Node* user : ctx.node->users())
      indices_used |= !user->is_call("_operator.getitem") || !user->args[1].as_int().is_constant(0);
    if (!indices_used) {
      results.pop_back();
      return results;
    }
    // The position in the window of the first extreme, turned into a position in the input's plane.
    const TensorBox position = reduction(ctx, DType::I64, w.sizes, w.reduced, ReductionKind::ArgMax,
                                         windowed(ctx, box, w, register_type(meta.dtype), -INFINITY));
    Element flat = element(ctx, position, w.sizes), index = number(ctx, DType::I64, 0);
    const std::size_t lead = box.rank() - spatial;
    const Ints dilation = spread(args.size() > 4 ? constants(ctx, args[4]) : Ints{1}, spatial);
    Expr below = sym::product(w.reduced);
    for (std::size_t d = 0; d < spatial; ++d) {
      below = sym::floor_div(below, w.reduced[d]);
      Element step = remainder(floor_div(flat, index_value(ctx, below)), index_value(ctx, w.reduced[d]));
      const double apart = static_cast<double>(dilation[d]);
      index = index * index_value(ctx, box.sizes[lead + d]) +
              in_picture(index_value(ctx, w.starts[d]) + step * apart, apart);
    }
    results[1] = result(ctx, index, ctx.result(1));
    return results;
  };
}

/// avg_pool(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override); the last is absent in one
/// dimension.
LoweringFunction average_pool(std::size_t spatial) {
  return [spatial](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    box.realize();
    const sym::TensorMeta& meta = ctx.result();
    const DType t = register_type(meta.dtype);
    const Ints kernel = spread(constants(ctx, args[1]), spatial);
    Ints stride = args.size() > 2 ? constants(ctx, args[2]) : Ints{};
    if (stride.empty()) stride = kernel;
    stride = spread(stride, spatial);
    const Ints padding = spread(args.size() > 3 ? constants(ctx, args[3]) : Ints{0}, spatial);
    const bool include_padding = args.size() <= 5 || args[5].as_bool();
    const Window w = fixed_window(ctx, box, meta.sizes, kernel, stride, padding, Ints(spatial, 1));
    const TensorBox sum = reduction(ctx, t, w.sizes, w.reduced, ReductionKind::Sum, windowed(ctx, box, w, t, 0));
    Expr count = 1;
    for (std::size_t d = 0; d < spatial; ++d) {
      const Expr size = box.sizes[box.rank() - spatial + d], start = w.starts[d];
      const Expr end = sym::min(start + kernel[d], size + padding[d]);
      count *= include_padding ? end - start : sym::min(end, size) - sym::max(start, 0);
    }
    if (args.size() > 6 && !args[6].is_none()) count = ctx.integer(args[6]);
    Element divisor = index_value(ctx, ctx.graph.env().simplify(count, loop_vars(ctx.graph, meta.sizes))).cast(t);
    return result(ctx, element(ctx, sum, meta.sizes) / divisor);
  };
}

/// Windows from floor(i*in/out) to ceil((i+1)*in/out): of one size when out divides in, else masked to theirs. Where
/// there are none they are those of one, which no loop comes to.
Window adaptive_window(Context& ctx, const TensorBox& box, const Exprs& sizes, std::size_t spatial,
                       std::vector<Expr>& lengths) {
  const std::size_t lead = box.rank() - spatial;
  Window w{sizes, {}, ctx.graph.ivars(lead), condition(ctx, 1), {}};
  for (std::size_t d = 0; d < spatial; ++d) {
    const Expr in = box.sizes[lead + d], out = sizes[lead + d].is_constant(0) ? Expr(1) : sizes[lead + d],
               i = ctx.graph.ivar(lead + d), r = ctx.graph.rvar(d);
    if (ctx.graph.env().statically_known_multiple_of(in, out)) {
      const Expr length = ctx.graph.env().simplify(sym::floor_div(in, out));
      w.starts.push_back(i * length);
      w.reduced.push_back(length);
      lengths.push_back(length);
    } else {
      const Expr start = sym::floor_div(i * in, out), length = sym::ceil_div((i + 1) * in, out) - start;
      w.starts.push_back(start);
      w.reduced.push_back(sym::ceil_div(in, out) + 1);
      lengths.push_back(length);
      w.inside = w.inside & condition(ctx, sym::lt(r, length));
    }
    w.index.push_back(w.starts[d] + r);
  }
  return w;
}

LoweringFunction adaptive_average(std::size_t spatial) {
  return [spatial](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    box.realize();
    const sym::TensorMeta& meta = ctx.result();
    const DType t = register_type(meta.dtype);
    std::vector<Expr> lengths;
    const Window w = adaptive_window(ctx, box, meta.sizes, spatial, lengths);
    const TensorBox sum = reduction(ctx, t, w.sizes, w.reduced, ReductionKind::Sum, windowed(ctx, box, w, t, 0));
    Element y = element(ctx, sum, meta.sizes);
    return result(ctx, y / index_value(ctx, sym::product(lengths)).cast(t));
  };
}

LoweringFunction adaptive_max(std::size_t spatial) {
  return [spatial](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    box.realize();
    const sym::TensorMeta& meta = ctx.result(0);
    std::vector<Expr> lengths;
    const Window w = adaptive_window(ctx, box, meta.sizes, spatial, lengths);
    std::vector<TensorBox> results{max_values(ctx, box, w, meta)};
    const TensorBox position = reduction(ctx, DType::I64, w.sizes, w.reduced, ReductionKind::ArgMax,
                                         windowed(ctx, box, w, register_type(meta.dtype), -INFINITY));
    Element flat = element(ctx, position, w.sizes), index = number(ctx, DType::I64, 0);
    Expr below = sym::product(w.reduced);
    for (std::size_t d = 0; d < spatial; ++d) {
      below = sym::floor_div(below, w.reduced[d]);
      Element step = remainder(floor_div(flat, index_value(ctx, below)), index_value(ctx, w.reduced[d]));
      index = index * index_value(ctx, box.sizes[box.rank() - spatial + d]) + index_value(ctx, w.starts[d]) + step;
    }
    results.push_back(result(ctx, index, ctx.result(1)));
    return results;
  };
}

}  // namespace

void add_pooling(Table& t) {
  for (std::size_t n = 1; n <= 3; ++n) {
    t[fmt::format("aten.max_pool{}d.default", n)] = max_pool(n);
    t[fmt::format("aten.max_pool{}d_with_indices.default", n)] = max_pool_with_indices(n);
    t[fmt::format("aten.avg_pool{}d.default", n)] = average_pool(n);
    t[fmt::format("aten._adaptive_avg_pool{}d.default", n)] = t[fmt::format("aten.adaptive_avg_pool{}d.default", n)] =
        adaptive_average(n);
    t[fmt::format("aten.adaptive_max_pool{}d.default", n)] = adaptive_max(n);
  }
}

}  // namespace coil::lowering
