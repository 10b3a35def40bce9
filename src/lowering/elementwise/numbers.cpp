// Arithmetic of Python floats that are only known as the program runs: each is a tensor of no dimensions, f64 as in
// Python. Integers need none of it: they are expressions.
#include "lowering/common.h"
#include "support/error.h"
#include "sym/floats.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

Element real(Context& ctx, const ops::Value& arg) { return {&ctx.graph.pool(), ctx.number(arg, DType::F64)}; }

Lowered made(Context& ctx, Element body) {
  TensorBox box = pointwise(ctx, DType::F64, {}, body);
  box.realize();
  return box;
}

using Unary = Element (*)(Element);
using Binary = Element (*)(Element, Element);

LoweringFunction unary(Unary f) {
  return [f](Context& ctx, const Values& args) { return made(ctx, f(real(ctx, args.at(0)))); };
}

LoweringFunction binary(Binary f) {
  return [f](Context& ctx, const Values& args) { return made(ctx, f(real(ctx, args.at(0)), real(ctx, args.at(1)))); };
}

/// round(self, digits): by the host, which has the exact decimals; the kernels are given the bits.
Lowered rounded(Context& ctx, const Values& args) {
  auto* f = ctx.node->meta.value.get_if<ops::SymFloat>();
  if (!f || !f->value)
    refuse(ctx, fmt::format("rounds {}, a float that the program computes, to digits; only floats made of sizes and of "
                            "numbers read by item() can be",
                            ops::to_string(args.at(0))));
  auto& pool = ctx.graph.pool();
  return made(ctx, {&pool, pool.bitcast(pool.index(sym::float_call(FloatFunction::ToBits, *f->value)), DType::F64)});
}

}  // namespace

void add_numbers(Table& t) {
  t["_operator.add"] = binary([](Element a, Element b) { return a + b; });
  t["_operator.sub"] = binary([](Element a, Element b) { return a - b; });
  t["_operator.mul"] = binary([](Element a, Element b) { return a * b; });
  t["_operator.truediv"] = binary([](Element a, Element b) { return a / b; });
  t["_operator.floordiv"] = binary([](Element a, Element b) { return floor(a / b); });
  t["_operator.mod"] = binary([](Element a, Element b) { return remainder(a, b); });
  t["_operator.pow"] = binary([](Element a, Element b) { return pow(a, b); });
  t["torch.sym_max"] = t["builtins.max"] = binary([](Element a, Element b) { return where(lt(a, b), b, a); });
  t["torch.sym_min"] = t["builtins.min"] = binary([](Element a, Element b) { return where(lt(b, a), b, a); });
  t["builtins.round"] = rounded;
  t["_operator.neg"] = unary([](Element a) { return -a; });
  t["_operator.abs"] = t["builtins.abs"] = unary([](Element a) { return abs(a); });
  t["torch.sym_float"] = t["builtins.float"] = unary([](Element a) { return a; });
  t["math.sqrt"] = t["torch.sym_sqrt"] = t["torch._sym_sqrt"] = unary([](Element a) { return sqrt(a); });
  const std::pair<const char*, Unary> kOfOne[] = {{"exp", exp},   {"log", log},   {"log2", log2}, {"sin", sin},
                                                  {"cos", cos},   {"tan", tan},   {"asin", asin}, {"acos", acos},
                                                  {"atan", atan}, {"sinh", sinh}, {"cosh", cosh}, {"tanh", tanh}};
  for (const auto& [name, f] : kOfOne)
    for (const char* module : {"math.", "torch.sym_", "torch._sym_"}) t[fmt::format("{}{}", module, name)] = unary(f);
}

}  // namespace coil::lowering
