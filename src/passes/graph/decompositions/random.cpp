// Random operators in terms of simpler ones, which lowering draws: permutations by sorting, samples by weights.
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

/// The order that random keys sort into. Of 53 bits, hardly two are ever equal.
Value permutation(Rewriter& r) {
  const TensorMeta made = r.result();
  const Value keys = r.call("aten.rand.default", {made.sizes}, {{"dtype", DType::F64}, {"device", made.device}});
  return r.to(r.item(r.call("aten.sort.stable", {keys}, {{"stable", true}, {"dim", 0}, {"descending", false}}), 1),
              made.dtype);
}

/// Without replacement: the first arrivals of exponential clocks that tick by weight (Efraimidis and Spirakis, 2006),
/// as eager. With it: where uniform numbers fall among the sums of weights.
Value multinomial(Rewriter& r) {
  const Value weights = r.widened(r["self"]);
  const TensorMeta from = r.meta(weights), made = r.result();
  if (!r.flag("replacement")) {
    if (!made.sizes.back().is_constant()) return None{};
    const Value scores = r.div(weights, r.call("aten.exponential.default", {weights, 1.0}));
    return r.item(r.call("aten.topk.default", {scores, made.sizes.back(), -1, true, true}), 1);
  }
  const Value sums = r.call("aten.cumsum.default", {weights, -1});
  // A little less than the last sum: what is searched for lies below it however products round.
  const Value total = r.mul(r.slice(sums, -1, from.sizes.back() - 1, from.sizes.back()), 1 - 0x1p-22);
  const Value drawn =
      r.mul(r.call("aten.rand.default", {made.sizes}, {{"dtype", from.dtype}, {"device", from.device}}), total);
  return r.call("aten.clamp_max.default",
                {r.call("aten.searchsorted.Tensor", {sums, drawn}, {{"right", true}}), from.sizes.back() - 1});
}

/// _fused_dropout(self, p to keep) to the output and the mask as bytes.
Value fused_dropout(Rewriter& r) {
  fx::Node* made = r.call("aten.native_dropout.default", {r["self"], 1 - r.real("p"), true});
  return Values{r.item(made, 0), r.to(r.item(made, 1), DType::U8)};
}

/// Numbers of gamma distributions, divided by their sum.
Value dirichlet(Rewriter& r) {
  const TensorMeta made = r.result();
  const Value numbers = r.call("aten._standard_gamma.default", {r.to(r["self"], DType::F64)});
  const Value shares = r.div(numbers, r.call("aten.sum.dim_IntList", {numbers, Values{-1}, true}));
  const double step = made.dtype == DType::F64   ? 0x1p-52
                      : made.dtype == DType::F32 ? 0x1p-23
                      : made.dtype == DType::F16 ? 0x1p-10
                                                 : 0x1p-7;
  const double least = made.dtype == DType::F64 ? 0x1p-1022 : made.dtype == DType::F16 ? 0x1p-14 : 0x1p-126;
  return r.to(r.call("aten.clamp.default", {shares, least, 1 - step / 2}), made.dtype);
}

Value rrelu(Rewriter& r) {
  const Value& x = r["self"];
  if (!r.flag("training")) return r.call("aten.leaky_relu.default", {x, (r.real("lower") + r.real("upper")) / 2});
  return r.where(r.call("aten.le.Scalar", {x, 0}),
                 r.mul(x, r.call("aten.uniform.default", {x, r.real("lower"), r.real("upper")})), x);
}

}  // namespace

void decompose_random(DecompositionTable& t) {
  t["aten.randperm.default"] = t["aten.randperm.generator"] = permutation;
  t["aten.multinomial.default"] = multinomial;
  t["aten._sample_dirichlet.default"] = dirichlet;
  t["aten._fused_dropout.default"] = fused_dropout;
  t["aten.rrelu.default"] = rrelu;
}

}  // namespace coil::passes
