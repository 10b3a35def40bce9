// Running sums, products and extremes; sorting.
#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using ir::ScanKind;

}  // namespace

TensorBox running_scan(Context& ctx, DType dtype, const Exprs& sizes, std::size_t dim, ScanKind kind, Value body, const Exprs& strides) {
  auto [box, window] = library_result(ctx, dtype, sizes, strides);
  ctx.graph.add_operation({.node = ir::Scan{sizes, dim, kind, body}, .outs = {window.buffer}, .origins = ctx.graph.provenance.of(body), .where = ctx.graph.provenance.where});
  return box;
}

std::vector<TensorBox> ordered(Context& ctx, const TensorBox& box, std::string op, std::map<std::string, ir::ExternAttribute> attributes, const Exprs& sizes) {
  auto [values, values_window] = library_result(ctx, box.dtype(), sizes);
  auto [positions, positions_window] = library_result(ctx, DType::I64, sizes);
  add_library_call(ctx, std::move(op), std::move(attributes), {library_operand(box)}, {values_window, positions_window});
  return {values, positions};
}

namespace {

LoweringFunction running(ScanKind kind) {
  return [kind](Context& ctx, const Values& args) -> Lowered {
    const sym::TensorMeta& meta = ctx.result();
    Value x = operand(ctx, args[0], meta.sizes, register_type(meta.dtype));
    if (meta.rank() == 0) return result(ctx, x);
    return running_scan(ctx, meta.dtype, meta.sizes, dimension(ctx, args[1], meta.rank()), kind, x, meta.strides);
  };
}

/// Running extreme, and where it was last reached: the running maximum of the positions that reach it (a later equal value wins, as in eager).
LoweringFunction running_extreme(ScanKind kind) {
  return [kind](Context& ctx, const Values& args) -> Lowered {
    const sym::TensorMeta &meta = ctx.result(0), &positions = ctx.result(1);
    const TensorBox box = ctx.tensor(args[0]);
    ir::realize_by_policy(box, 2);
    if (meta.rank() == 0) return std::vector<TensorBox>{result(ctx, element(ctx, box, {}), meta), result(ctx, number(ctx, DType::I64, 0), positions)};
    const std::size_t dim = dimension(ctx, args[1], meta.rank());
    Value x = element(ctx, box, meta.sizes);
    const TensorBox values = running_scan(ctx, meta.dtype, meta.sizes, dim, kind, x, meta.strides);
    Value reached = eq(x, element(ctx, values, meta.sizes));
    if (is_floating(x.dtype())) reached = reached | isnan(x);
    Value at = where(reached, index_value(ctx, ctx.graph.ivar(dim)), number(ctx, DType::I64, 0));
    return std::vector<TensorBox>{values, running_scan(ctx, DType::I64, positions.sizes, dim, ScanKind::Max, at, positions.strides)};
  };
}

std::int64_t flag(const ops::Value& v) { return !v.is_none() && v.as_bool(); }

Lowered sort(Context& ctx, const Values&) {
  const TensorBox box = ctx.tensor(ctx.node->args[0]);
  const auto dim = static_cast<std::int64_t>(dimension(ctx, ctx.node->arg("dim"), box.rank()));
  // Stable always: eager is at liberty to order equal values as it likes, and does it stably.
  auto both = ordered(ctx, box, "sort", {{"dim", dim}, {"descending", flag(ctx.node->arg("descending"))}, {"stable", std::int64_t{1}}}, box.sizes);
  if (ctx.node->is_tensor()) return both[1];
  return both;
}

Lowered topk(Context& ctx, const Values&) {
  const TensorBox box = ctx.tensor(ctx.node->args[0]);
  const auto dim = static_cast<std::int64_t>(dimension(ctx, ctx.node->arg("dim"), box.rank()));
  return ordered(ctx, box, "topk", {{"dim", dim}, {"largest", flag(ctx.node->arg("largest"))}, {"sorted", flag(ctx.node->arg("sorted"))}}, ctx.result(0).sizes);
}

}  // namespace

void add_scans(Table& t) {
  t["aten.cumsum.default"] = running(ScanKind::Sum);
  t["aten.cumprod.default"] = running(ScanKind::Prod);
  t["aten.logcumsumexp.default"] = t["aten._logcumsumexp.default"] = running(ScanKind::LogSumExp);
  t["aten.cummax.default"] = running_extreme(ScanKind::Max);
  t["aten.cummin.default"] = running_extreme(ScanKind::Min);
  for (const char* name : {"aten.sort.default", "aten.sort.stable", "aten.argsort.default", "aten.argsort.stable"}) t[name] = sort;
  t["aten.topk.default"] = topk;
}

}  // namespace coil::lowering
