// Tensors made from sizes and numbers.
#include <algorithm>

#include "lowering/common.h"

namespace coil::lowering {

namespace {

/// Every element the same number: argument `value`, or a constant.
LoweringFunction filled(std::size_t argument) {
  return [argument](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, {&ctx.graph.pool(), ctx.number(args[argument], register_type(ctx.result().dtype))});
  };
}

LoweringFunction filled_with(double value) {
  return [value](Context& ctx, const ops::Values&) -> Lowered {
    return result(ctx, number(ctx, register_type(ctx.result().dtype), value));
  };
}

/// Whether it is an integer, be it written as a float.
bool is_whole(const ops::Value& v) {
  constexpr double kMost = 1 << 30;
  return v.is<double>() ? std::abs(v.as_double()) <= kMost && std::trunc(v.as_double()) == v.as_double() : v.is<Expr>();
}

/// start + i*step, in integers where the result is; floats in the accumulation type of eager (double), rounded at the
/// end. Where kernels have no doubles, whole numbers are as exact in integers; others are computed in f32.
Element ramp(Context& ctx, const ops::Value& start, const ops::Value& step) {
  const DType dtype = ctx.result().dtype;
  const bool narrow = dtype != DType::F64 && ctx.target().has(target::Feature::NarrowFloats);
  const bool whole = !is_floating(dtype) || (narrow && is_whole(start) && is_whole(step));
  const DType t = narrow ? DType::F32 : DType::F64;
  if (whole) {
    auto integer = [&](const ops::Value& v) {
      return v.is<double>() ? Expr(static_cast<std::int64_t>(v.as_double())) : ctx.integer(v);
    };
    return index_value(ctx, integer(start) + ctx.graph.ivar(0) * integer(step));
  }
  Element i = index_value(ctx, ctx.graph.ivar(0)).cast(t);
  Element scaled = is_number(step, 1) ? i : i * Element{&ctx.graph.pool(), ctx.number(step, t)};
  if (is_number(start, 0)) return scaled;
  return Element{&ctx.graph.pool(), ctx.number(start, t)} + scaled;
}

Lowered arange(Context& ctx, const ops::Values& args) {
  if (ctx.node->target == "aten.arange.default") return result(ctx, ramp(ctx, 0, 1));
  if (ctx.node->target == "aten.arange.start") return result(ctx, ramp(ctx, args[0], 1));
  return result(ctx, ramp(ctx, args[0], args[2].is_none() ? ops::Value(1) : args[2]));
}

/// prims.iota(length, *, start, step, …)
Lowered iota(Context& ctx, const ops::Values& args) { return result(ctx, ramp(ctx, args[1], args[2])); }

/// Counted from both ends to the middle, as eager does, so that the last element is `end`.
Lowered linspace(Context& ctx, const ops::Values& args) {
  const DType dtype = ctx.result().dtype, t = is_floating(dtype) ? register_type(dtype) : DType::F64;
  Element start{&ctx.graph.pool(), ctx.number(args[0], t)}, end{&ctx.graph.pool(), ctx.number(args[1], t)};
  if (!is_fractional(dtype))  // eager begins and ends at integers
    for (Element* e : {&start, &end}) *e = e->cast(DType::I64).cast(t);
  const Expr steps = ctx.result().sizes[0], i = ctx.graph.ivar(0);
  if (steps.is_constant(1)) return result(ctx, start);
  Element step = (end - start) / index_value(ctx, steps - 1).cast(t);
  Element from_start = start + step * index_value(ctx, i).cast(t),
          from_end = end - step * index_value(ctx, steps - 1 - i).cast(t);
  return result(ctx, where(condition(ctx, sym::lt(i, sym::floor_div(steps, 2))), from_start, from_end));
}

Lowered eye(Context& ctx, const ops::Values&) {
  return result(ctx, condition(ctx, sym::eq(ctx.graph.ivar(0), ctx.graph.ivar(1))));
}

/// Elements on one side of a diagonal; zero elsewhere.
LoweringFunction triangle(bool lower) {
  return [lower](Context& ctx, const ops::Values& args) -> Lowered {
    const Exprs& sizes = ctx.result().sizes;
    const Expr row = ctx.graph.ivar(sizes.size() - 2), column = ctx.graph.ivar(sizes.size() - 1);
    Expr diagonal = args.size() > 1 ? ctx.integer(args[1]) : Expr(0);
    constexpr std::int64_t kBeyond = std::int64_t{1} << 61;  // any matrix; distances from it fit in 64 bits
    if (const auto known = diagonal.constant()) diagonal = std::clamp(*known, -kBeyond, kBeyond);
    Element keep = condition(ctx, lower ? sym::le(column - row, diagonal) : sym::ge(column - row, diagonal));
    Element x = element(ctx, ctx.tensor(args[0]), sizes);
    return result(ctx, where(keep, x, x.number(0)));
  };
}

}  // namespace

void add_creation(Table& t) {
  t["aten.full.default"] = filled(1);
  t["aten.full_like.default"] = filled(1);
  t["aten.new_full.default"] = filled(2);
  t["aten.scalar_tensor.default"] = filled(0);
  for (const char* name :
       {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.zero.default"})
    t[name] = filled_with(0);
  for (const char* name : {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"})
    t[name] = filled_with(1);
  // Memory without defined content; zero is as good as any.
  for (const char* name :
       {"aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default",
        "aten.new_empty_strided.default", "aten.empty_permuted.default"})
    t[name] = filled_with(0);
  t["aten.arange.default"] = t["aten.arange.start"] = t["aten.arange.start_step"] = arange;
  t["prims.iota.default"] = iota;
  t["aten.linspace.default"] = linspace;
  t["aten.eye.default"] = t["aten.eye.m"] = eye;
  t["aten.tril.default"] = triangle(true);
  t["aten.triu.default"] = triangle(false);
}

}  // namespace coil::lowering
