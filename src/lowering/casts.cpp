// Conversions between dtypes, and copies.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

/// The same values in the recorded dtype and layout. A conversion to a narrow float rounds, also where consumers absorb it: it is there to lose precision.
Lowered copy(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  Value v = element(ctx, box, ctx.result().sizes);
  return result(ctx, box.dtype() == ctx.result().dtype ? v : v.cast(ctx.result().dtype));
}

Lowered view_dtype(Context& ctx, const ops::Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const DType to = ctx.result().dtype;
  if (box.dtype() == to) return box;
  if (size_of(box.dtype()) != size_of(to) || register_type(box.dtype()) != box.dtype() || register_type(to) != to) refuse(ctx, "reads elements of another width");
  return result(ctx, {&ctx.graph.pool(), ctx.graph.pool().bitcast(element(ctx, box, ctx.result().sizes), to)});
}

/// The argument itself: what eager does when there is nothing to do, or where only autograd cares.
Lowered same(Context& ctx, const ops::Values& args) { return ctx.tensor(args[0]); }

}  // namespace

void add_casts(Table& t) {
  for (const char* name : {"aten._to_copy.default", "aten.clone.default", "aten.contiguous.default", "aten.lift_fresh_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device",
                           "aten.to.other", "aten.type_as.default", "prims.convert_element_type.default"})
    t[name] = copy;
  t["aten.view.dtype"] = view_dtype;
  for (const char* name : {"aten.alias.default", "aten.detach.default", "aten.lift.default"}) t[name] = same;
}

}  // namespace coil::lowering
