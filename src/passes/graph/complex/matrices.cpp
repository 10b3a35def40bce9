// Inverses, solutions and exponentials of complex matrices: X + iY is taken as the real matrix [[X, -Y], [Y, X]], in
// which sums, products and inverses are those of the complex ones. Eigenvalues of real matrices.
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

/// [.., M, N] -> [.., 2M, 2N]
Value as_real_matrix(ComplexRewriter& r, const Value& matrix) {
  if (r.rank(matrix) < 2) r.refuse("takes tensors of at least two dimensions");
  const Parts z = r.whole(matrix);
  auto beside = [&](const Value& a, const Value& b, int dim) {
    return Value(r.call("aten.cat.default", {Values{a, b}, dim}));
  };
  return beside(beside(z.re, r.negated(z.im), -1), beside(z.im, z.re, -1), -2);
}

/// The first columns of the real matrix hold both parts, one above the other.
Parts parts_of(ComplexRewriter& r, const Value& real, bool halve_columns) {
  const Exprs& sizes = r.meta(real).sizes;
  const Expr rows = r.module.env->simplify(sym::floor_div(sizes[sizes.size() - 2], 2)), columns = sizes.back();
  Value x = halve_columns ? r.slice(real, -1, 0, r.module.env->simplify(sym::floor_div(columns, 2))) : real;
  return {r.slice(x, -2, 0, rows), r.slice(x, -2, rows, sizes[sizes.size() - 2])};
}

Made inverse(ComplexRewriter& r) {
  return parts_of(r, r.call("aten.linalg_inv.default", {as_real_matrix(r, r.node->args[0])}), true);
}
Made exponential(ComplexRewriter& r) {
  return parts_of(r, r.call("aten.linalg_matrix_exp.default", {as_real_matrix(r, r.node->args[0])}), true);
}

Made solve(ComplexRewriter& r) {
  const Value &a = r["A"], &b = r["B"];
  if (!r["left"].as_bool()) r.refuse("with left=False is not compiled for complex tensors");
  // As many vectors as matrices are not matrices.
  const bool vector = r.rank(b) == 1 || r.rank(b) + 1 == r.rank(a);
  Parts z = r.whole(b);
  if (vector) z = {r.unsqueeze(z.re, -1), r.unsqueeze(z.im, -1)};
  Parts made = parts_of(r,
                        r.call("aten.linalg_solve.default",
                               {as_real_matrix(r, a), Value(r.call("aten.cat.default", {Values{z.re, z.im}, -2}))}),
                        false);
  if (vector) made = {r.call("aten.squeeze.dim", {made.re, -1}), r.call("aten.squeeze.dim", {made.im, -1})};
  return made;
}

Made eigenvectors(ComplexRewriter& r) {
  const Value& a = r.node->args[0];
  if (r.is_complex_node(a)) r.refuse("is compiled for real matrices, not for complex ones");
  fx::Node* all = r.call("coil.eig.default", {a, true});
  return std::vector<Parts>{{r.item(all, 0), r.item(all, 1)}, {r.item(all, 2), r.item(all, 3)}};
}

Made eigenvalues(ComplexRewriter& r) {
  const Value& a = r.node->args[0];
  if (r.is_complex_node(a)) r.refuse("is compiled for real matrices, not for complex ones");
  fx::Node* both = r.call("coil.eig_values.default", {a, false});
  return Parts{r.item(both, 0), r.item(both, 1)};
}

}  // namespace

void add_complex_matrices(ComplexRules& t) {
  t["aten.linalg_inv.default"] = t["aten.inverse.default"] = inverse;
  t["aten.linalg_matrix_exp.default"] = t["aten.matrix_exp.default"] = exponential;
  t["aten.linalg_solve.default"] = solve;
  t["aten.linalg_eig.default"] = eigenvectors;
  t["aten.linalg_eigvals.default"] = t["aten._linalg_eigvals.default"] = eigenvalues;
}

}  // namespace coil::passes
