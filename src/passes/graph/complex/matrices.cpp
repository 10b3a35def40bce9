// Inverses, solutions, exponentials and factors of complex matrices: each element x + iy is taken as the block
// [[x, -y], [y, x]] of a real matrix, in which sums, products and inverses are those of the complex ones, a transposed
// matrix is the adjoint one, and a triangle with a real diagonal stays a triangle. Eigenvalues of real matrices.
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

Parts transposed(ComplexRewriter& r, const Parts& z) {
  return {r.call("aten.mT.default", {z.re}), r.call("aten.mT.default", {z.im})};
}
Parts adjoint(ComplexRewriter& r, const Parts& z) { return transposed(r, r.conjugate(z)); }

Parts matrix(ComplexRewriter& r, const Value& argument) {
  if (r.rank(argument) < 2) r.refuse("takes tensors of at least two dimensions");
  return r.whole(argument);
}

/// [.., M, N] -> [.., 2M, 2N]
Value as_real_matrix(ComplexRewriter& r, const Parts& z) {
  auto stacked = [&](const Value& a, const Value& b, int dim) {
    return Value(r.call("aten.stack.default", {Values{a, b}, dim}));
  };
  const Value above = stacked(z.re, r.negated(z.im), -1), below = stacked(z.im, z.re, -1);
  Exprs sizes = r.meta(z.re).sizes;
  for (std::size_t d = sizes.size() - 2; d < sizes.size(); ++d) sizes[d] = r.module.env->simplify(sizes[d] * 2);
  return r.reshape(stacked(above, below, -3), sizes);
}

/// The columns of a matrix, which is all that a product with a real one needs: [.., M, N] -> [.., 2M, N].
Value as_real_columns(ComplexRewriter& r, const Parts& z) {
  Exprs sizes = r.meta(z.re).sizes;
  Expr& rows = sizes[sizes.size() - 2];
  rows = r.module.env->simplify(rows * 2);
  return r.reshape(r.call("aten.stack.default", {Values{z.re, z.im}, -2}), sizes);
}

/// Of pairs along a dimension, counted from the end, the first or the second of each.
Value of_each_pair(ComplexRewriter& r, const Value& x, std::int64_t dim, std::int64_t which) {
  Exprs sizes = r.meta(x).sizes;
  const auto at = sizes.end() + dim;
  *at = r.module.env->simplify(sym::floor_div(*at, 2));
  sizes.insert(at + 1, Expr(2));
  return r.call("aten.select.int", {r.reshape(x, sizes), dim, which});
}

Parts parts_of_columns(ComplexRewriter& r, const Value& real) {
  return {of_each_pair(r, real, -2, 0), of_each_pair(r, real, -2, 1)};
}
Parts parts_of_matrix(ComplexRewriter& r, const Value& real) {
  return parts_of_columns(r, of_each_pair(r, real, -1, 0));
}

/// Where a factorization of the real matrix failed, as the row of the complex one.
Value info_of(ComplexRewriter& r, const Value& info) {
  return r.call("aten.bitwise_right_shift.Tensor_Scalar", {r.call("aten.add.Scalar", {info, 1}), 1});
}

Made inverse(ComplexRewriter& r) {
  return parts_of_matrix(r, r.call("aten.linalg_inv.default", {as_real_matrix(r, matrix(r, r.node->args[0]))}));
}

Made inverse_with_info(ComplexRewriter& r) {
  fx::Node* both = r.call("aten.linalg_inv_ex.default", {as_real_matrix(r, matrix(r, r["A"]))},
                          {{"check_errors", r.flag("check_errors")}});
  return std::vector<Parts>{parts_of_matrix(r, r.item(both, 0)), {info_of(r, r.item(both, 1)), None{}}};
}

Made exponential(ComplexRewriter& r) {
  return parts_of_matrix(r, r.call("aten.linalg_matrix_exp.default", {as_real_matrix(r, matrix(r, r.node->args[0]))}));
}

// Solutions.

struct Solution {
  Parts x;
  Value info;
};

/// X of A X = B. Nothing fails where A is singular.
Solution solution(ComplexRewriter& r, const Parts& a, const Parts& b) {
  fx::Node* both = r.call("aten.linalg_solve_ex.default", {as_real_matrix(r, a), as_real_columns(r, b)});
  return {parts_of_columns(r, r.item(both, 0)), r.item(both, 1)};
}

/// As `linalg.solve` takes its arguments: as many vectors as there are matrices are not a matrix.
Solution solve_arguments(ComplexRewriter& r) {
  const Value &a = r["A"], &b = r["B"];
  const bool left = r.flag("left"), vector = r.rank(b) == 1 || r.rank(b) + 1 == r.rank(a);
  if (vector && !left) r.refuse("takes matrices on the right-hand side when left is False");
  Parts matrices = matrix(r, a), sides = r.whole(b);
  if (vector) sides = {r.unsqueeze(sides.re, -1), r.unsqueeze(sides.im, -1)};
  if (!left) matrices = transposed(r, matrices), sides = transposed(r, sides);
  Solution made = solution(r, matrices, sides);
  if (!left) made.x = transposed(r, made.x);
  if (vector) made.x = {r.call("aten.squeeze.dim", {made.x.re, -1}), r.call("aten.squeeze.dim", {made.x.im, -1})};
  return made;
}

void check(ComplexRewriter& r, const Value& info, const char* api) {
  r.call("aten._linalg_check_errors.default", {info, api}, {{"is_matrix", r.rank(info) == 0}});
}

Made solve(ComplexRewriter& r) {
  Solution made = solve_arguments(r);
  check(r, made.info, "linalg.solve");
  return made.x;
}

Made solve_with_info(ComplexRewriter& r) {
  Solution made = solve_arguments(r);
  if (r.flag("check_errors")) check(r, made.info, "linalg.solve");
  return std::vector<Parts>{made.x, {info_of(r, made.info), None{}}};
}

/// What a solution with a triangle reads of the matrix; `unit`: ones stand on its diagonal.
Parts triangle(ComplexRewriter& r, const Parts& z, bool upper, bool unit) {
  auto cut = [&](const Value& x) {
    return Value(upper ? r.call("aten.triu.default", {x, unit ? 1 : 0})
                       : r.call("aten.tril.default", {x, unit ? -1 : 0}));
  };
  Parts made{cut(z.re), cut(z.im)};
  const TensorMeta& meta = r.meta(z.re);
  if (unit) {
    Value ones = r.call("aten.eye.default", {meta.sizes.back()}, {{"dtype", meta.dtype}, {"device", meta.device}});
    made.re = r.add(made.re, ones);
  }
  return made;
}

Made solve_triangular(ComplexRewriter& r) {
  Parts a = triangle(r, matrix(r, r["self"]), r.flag("upper"), r.flag("unitriangular")), b = matrix(r, r["B"]);
  if (r.flag("left")) return solution(r, a, b).x;
  return transposed(r, solution(r, transposed(r, a), transposed(r, b)).x);
}

// Cholesky's factors.

/// One triangle of a Hermitian matrix, whose diagonal is taken as real.
Parts hermitian(ComplexRewriter& r, const Value& argument, bool upper) {
  const Parts z = matrix(r, argument);
  return {z.re, upper ? r.call("aten.triu.default", {z.im, 1}) : r.call("aten.tril.default", {z.im, -1})};
}

Made cholesky(ComplexRewriter& r) {
  const bool upper = r.flag("upper");
  const Value real = as_real_matrix(r, hermitian(r, r["self"], upper));
  return parts_of_matrix(r, r.call("aten.linalg_cholesky.default", {real}, {{"upper", upper}}));
}

Made cholesky_with_info(ComplexRewriter& r) {
  const bool upper = r.flag("upper");
  const Value real = as_real_matrix(r, hermitian(r, r["self"], upper));
  fx::Node* both =
      r.call("aten.linalg_cholesky_ex.default", {real}, {{"upper", upper}, {"check_errors", r.flag("check_errors")}});
  return std::vector<Parts>{parts_of_matrix(r, r.item(both, 0)), {info_of(r, r.item(both, 1)), None{}}};
}

Parts solve_with_cholesky(ComplexRewriter& r, const Value& factor, const Parts& b) {
  const bool upper = r.flag("upper");
  const Parts first = triangle(r, matrix(r, factor), upper, false), second = adjoint(r, first);
  const Parts between = solution(r, upper ? second : first, b).x;
  return solution(r, upper ? first : second, between).x;
}

Made cholesky_solve(ComplexRewriter& r) { return solve_with_cholesky(r, r["input2"], matrix(r, r["self"])); }

Made cholesky_inverse(ComplexRewriter& r) {
  const TensorMeta& meta = r.meta(r["self"]);
  const Value ones =
      r.call("aten.eye.default", {meta.sizes.back()}, {{"dtype", r.part_type()}, {"device", meta.device}});
  const Value one = r.expand(ones, meta.sizes);
  return solve_with_cholesky(r, r["self"], {one, r.zeros_like(one)});
}

// Eigenvalues and singular values: the real matrix has each of them twice.

Made eigenvalues_of_hermitian(ComplexRewriter& r) {
  const std::string& side = r["UPLO"].as_string();
  const Value real = as_real_matrix(r, hermitian(r, r["self"], side == "U" || side == "u"));
  return of_each_pair(r, r.call("aten.linalg_eigvalsh.default", {real, side}), -1, 0);
}

Made singular_values(ComplexRewriter& r) {
  const Value real = as_real_matrix(r, matrix(r, r["A"]));
  return of_each_pair(r, r.call("aten.linalg_svdvals.default", {real}), -1, 0);
}

Made values_of_svd(ComplexRewriter& r) {
  if (r.flag("compute_uv")) r.refuse("is compiled for the values of complex matrices alone, not for their vectors");
  const Parts none{r.full({0}, 0, r.part_type()), None{}};
  return std::vector<Parts>{none, {std::get<Value>(singular_values(r)), None{}}, none};
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
  t["aten.linalg_inv_ex.default"] = inverse_with_info;
  t["aten.linalg_matrix_exp.default"] = t["aten.matrix_exp.default"] = exponential;
  t["aten.linalg_solve.default"] = solve;
  t["aten.linalg_solve_ex.default"] = solve_with_info;
  t["aten.linalg_solve_triangular.default"] = solve_triangular;
  t["aten.linalg_cholesky.default"] = t["aten.cholesky.default"] = cholesky;
  t["aten.linalg_cholesky_ex.default"] = cholesky_with_info;
  t["aten.cholesky_solve.default"] = cholesky_solve;
  t["aten.cholesky_inverse.default"] = cholesky_inverse;
  t["aten.linalg_eigvalsh.default"] = eigenvalues_of_hermitian;
  t["aten.linalg_svdvals.default"] = singular_values;
  t["aten._linalg_svd.default"] = values_of_svd;
  t["aten.linalg_eig.default"] = eigenvectors;
  t["aten.linalg_eigvals.default"] = t["aten._linalg_eigvals.default"] = eigenvalues;
}

}  // namespace coil::passes
