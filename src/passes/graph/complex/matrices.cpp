// Exponentials and factors of complex matrices. LAPACK factors complex numbers in memory. For the exponential each
// element x + iy is taken as the block [[x, -y], [y, x]] of a real matrix, in which sums, products and inverses are
// those of the complex ones. Eigenvalues of real matrices.
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

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

/// The first or the second of each pair along a dimension, which is counted from the end.
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

Made exponential(ComplexRewriter& r) {
  return parts_of_matrix(r, r.call("aten.linalg_matrix_exp.default", {as_real_matrix(r, matrix(r, r.node->args[0]))}));
}

// Factorizations: LAPACK's, of complex numbers in memory.

Value in_memory(ComplexRewriter& r, const Value& argument) {
  const Parts z = r.whole(argument);
  return r.call("aten.view_as_complex.default", {r.call("aten.stack.default", {Values{z.re, z.im}, -1})});
}

/// Parts of what a library call gives.
Parts from_memory(ComplexRewriter& r, const Value& result) {
  if (!is_complex(r.dtype(result))) return {result, None{}};
  return r.apart(r.call("aten.view_as_real.default", {result}));
}

Made by_library(ComplexRewriter& r) {
  Values args = r.node->args;
  for (Value& arg : args)
    if (r.is_complex_node(arg)) arg = in_memory(r, arg);
  fx::Node* made = r.call(r.node->target, std::move(args));
  if (made->is_tensor()) return from_memory(r, made);
  std::vector<Parts> results;
  for (std::size_t k = 0; k < made->meta.value.as_list().size(); ++k)
    results.push_back(from_memory(r, r.item(made, static_cast<std::int64_t>(k))));
  return results;
}

Made eigenvectors(ComplexRewriter& r) {
  const Value& a = r.node->args[0];
  if (r.is_complex_node(a)) return by_library(r);
  fx::Node* all = r.call("coil.eig.default", {a, true});
  return std::vector<Parts>{{r.item(all, 0), r.item(all, 1)}, {r.item(all, 2), r.item(all, 3)}};
}

Made eigenvalues(ComplexRewriter& r) {
  const Value& a = r.node->args[0];
  if (r.is_complex_node(a)) return by_library(r);
  fx::Node* both = r.call("coil.eig_values.default", {a, false});
  return Parts{r.item(both, 0), r.item(both, 1)};
}

}  // namespace

void add_complex_matrices(ComplexRules& t) {
  t["aten.linalg_matrix_exp.default"] = t["aten.matrix_exp.default"] = exponential;
  for (const char* target :
       {"aten.linalg_lu_factor_ex.default", "aten.linalg_lu_solve.default", "aten.linalg_solve_triangular.default",
        "aten.linalg_cholesky_ex.default", "aten.linalg_ldl_factor_ex.default", "aten.linalg_ldl_solve.default",
        "aten.linalg_qr.default", "aten.geqrf.default", "aten.linalg_householder_product.default", "aten.ormqr.default",
        "aten._linalg_svd.default", "aten._linalg_eigh.default"})
    t[target] = by_library;
  t["aten.linalg_eig.default"] = eigenvectors;
  t["aten.linalg_eigvals.default"] = t["aten._linalg_eigvals.default"] = eigenvalues;
}

}  // namespace coil::passes
