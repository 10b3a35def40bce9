// Products in terms of mm, bmm, sum and mul. Kept for lowering: linear, addmm, mm, bmm, baddbmm of something,
// scaled_dot_product_attention.
#include <algorithm>

#include "fx/infer.h"
#include "ops/shapes/einsum.h"
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

Value mm(Rewriter& r, const Value& a, const Value& b) { return r.call("aten.mm.default", {a, b}); }

Value matrix_vector(Rewriter& r, const Value& a, const Value& x) {
  return r.call("aten.squeeze.dims", {mm(r, a, r.unsqueeze(x, 1)), dims_value({1})});
}

Value inner_product(Rewriter& r, const Value& a, const Value& b) { return r.to(r.sum(r.mul(a, b), {0}), r.dtype(a)); }

Value swap_last(Rewriter& r, const Value& x) {
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < r.rank(x); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return r.permute(x, order);
}

/// One operand has batches, the other is a matrix or a vector: its batches are folded into rows.
Value folded(Rewriter& r, const Value& batched, const Value& other) {
  Exprs sizes = r.meta(batched).sizes;
  Expr inner = sizes.back();
  sizes.pop_back();
  Value rows = r.reshape(batched, {r.module.env->simplify(sym::product(sizes)), inner});
  Value product = r.rank(other) == 1 ? matrix_vector(r, rows, other) : mm(r, rows, other);
  if (r.rank(other) == 2) sizes.push_back(r.meta(other).sizes[1]);
  return r.reshape(product, sizes);
}

/// A product where both have batches, or one is a vector or matrix that every batch of the other shares.
Value batched(Rewriter& r, Value a, Value b) {
  bool left_vector = r.rank(a) == 1, right_vector = r.rank(b) == 1;
  if (left_vector) a = r.unsqueeze(a, 0);
  if (right_vector) b = r.unsqueeze(b, 1);
  Exprs batches = r.result().sizes;
  batches.resize(batches.size() - (left_vector || right_vector ? 1 : 2));
  Expr count = r.module.env->simplify(sym::product(batches));
  auto spread = [&](const Value& x) {
    const Exprs& own = r.meta(x).sizes;
    Exprs wide = batches, three = {count, own[own.size() - 2], own.back()};
    wide.push_back(three[1]), wide.push_back(three[2]);
    return r.reshape(r.expand(x, wide), three);
  };
  return r.reshape(r.call("aten.bmm.default", {spread(a), spread(b)}), r.result().sizes);
}

/// The cases of torch.matmul (ATen/native/LinearAlgebra.cpp).
Value matmul(Rewriter& r) {
  const Value &a = r["self"], &b = r["other"];
  std::size_t n = r.rank(a), m = r.rank(b);
  if (n == 1 && m == 1) return inner_product(r, a, b);
  if (n == 2 && m == 1) return matrix_vector(r, a, b);
  if (n == 1 && m == 2) return r.call("aten.squeeze.dims", {mm(r, r.unsqueeze(a, 0), b), dims_value({0})});
  if (n == 2 && m == 2) return mm(r, a, b);
  if (n >= 3 && m <= 2) return folded(r, a, b);
  if (n == 1 && m >= 3) return folded(r, swap_last(r, b), a);
  return batched(r, a, b);
}

Value einsum(Rewriter& r) {
  ops::shapes::Steps steps;
  steps.call = [&](std::string_view target, Values args) -> Value { return r.call(target, std::move(args)); };
  steps.meta = [&](const Value& tensor) -> const TensorMeta& { return r.meta(tensor); };
  return ops::shapes::einsum(r["equation"].as_string(), r["tensors"].as_list(), steps);
}

/// A product in a wider type than its operands have.
Decomposition wider(std::string_view target) {
  return [target](Rewriter& r) -> Value {
    return r.call(target, {r.to(r["self"], r.result().dtype), r.to(r["mat2"], r.result().dtype)});
  };
}

Value mv(Rewriter& r) { return matrix_vector(r, r["self"], r["vec"]); }
Value dot(Rewriter& r) { return inner_product(r, r.node->args[0], r.node->args[1]); }

Value outer(Rewriter& r) { return r.mul(r.unsqueeze(r["self"], 1), r["vec2"]); }

/// beta * self + alpha * product, the factors without fractions where the product is of integers; a beta of 0 takes
/// nothing of `self`, NaN included.
Value added(Rewriter& r, Value product) {
  auto factor = [&](std::string_view name) -> Value {
    const auto* real = r[name].get_if<double>();
    return real && !is_fractional(r.dtype(product)) ? Value(static_cast<std::int64_t>(*real)) : r[name];
  };
  const Value alpha = factor("alpha"), beta = factor("beta");
  if (alpha != Value(1)) product = r.mul(product, alpha);
  if (beta == Value(0) || beta == Value(0.0)) return r.to(product, r.result().dtype);
  Value self = beta == Value(1) ? r["self"] : Value(r.mul(r["self"], beta));
  return r.to(r.add(self, product), r.result().dtype);
}

/// A sum over no elements, with what is added to it. Others stay products.
Value added_product(Rewriter& r) {
  const Value& left = r.node->args[1];
  if (!r.meta(left).sizes.back().is_constant(0)) return None{};
  return r.expand(added(r, r.full(r.result().sizes, 0, r.result().dtype)), r.result().sizes);
}

Value addmv(Rewriter& r) { return added(r, matrix_vector(r, r["mat"], r["vec"])); }
Value addr(Rewriter& r) { return added(r, r.mul(r.unsqueeze(r["vec1"], 1), r["vec2"])); }
Value addbmm(Rewriter& r) { return added(r, r.sum(r.call("aten.bmm.default", {r["batch1"], r["batch2"]}), {0})); }

/// Distances of rows, for p = 2 by differences (as eager does for few rows, exactly).
Value distances(Rewriter& r) {
  const Value &a = r["x1"], &b = r["x2"];
  Value gap = r.call("aten.abs.default", {r.sub(r.unsqueeze(a, -2), r.unsqueeze(b, -3))});
  return r.call("aten.linalg_vector_norm.default", {gap, r["p"], dims_value({-1})});
}

}  // namespace

void decompose_linalg(DecompositionTable& t) {
  t["aten.matmul.default"] = matmul;
  t["aten.linalg_matmul.default"] = matmul;
  t["aten.einsum.default"] = einsum;
  t["aten.mm.dtype"] = wider("aten.mm.default");
  t["aten.bmm.dtype"] = wider("aten.bmm.default");
  t["aten.addmm.default"] = t["aten.baddbmm.default"] = added_product;
  t["aten.mv.default"] = mv;
  t["aten.dot.default"] = dot;
  t["aten.vdot.default"] = dot;
  t["aten.outer.default"] = outer;
  t["aten.ger.default"] = outer;
  t["aten.addmv.default"] = addmv;
  t["aten.addr.default"] = addr;
  t["aten.addbmm.default"] = addbmm;
  t["aten.cdist.default"] = distances;
  t["aten._cdist_forward.default"] = distances;
}

}  // namespace coil::passes
