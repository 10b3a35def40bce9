// What is made of factorizations of matrices: solutions, inverses, determinants, ranks, pseudo-inverses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/composites/factors.h"
#include "ops/shapes/strides.h"

namespace coil::ops::composites {

namespace {

Value transposed(Steps& s, const Value& x) { return s.call("aten.transpose.int", {x, -2, -1}); }

/// The transpose of a matrix; of a complex one conjugated as well.
Value adjoint(Steps& s, const Value& x) { return transposed(s, is_complex(s.dtype(x)) ? s.unary("conj", x) : x); }

/// A copy that lies column by column.
Value by_columns(Steps& s, const Value& x) { return transposed(s, s.contiguous(transposed(s, x))); }

Exprs batch_of(Steps& s, const Value& x) { return {s.sizes(x).begin(), s.sizes(x).end() - 2}; }

void require_matrix(Steps& s, const Value& x, bool square = true) {
  if (s.rank(x) < 2) s.refuse("takes tensors of at least two dimensions");
  if (square && !s.env.statically_known_equal(s.size(x, -2), s.size(x, -1)) && s.size(x, -2).constant() &&
      s.size(x, -1).constant())
    s.refuse("takes batches of square matrices");
}

/// The run fails where a factorization of `matrix` told of an error.
void check(Steps& s, const Value& info, const Value& matrix, const char* api) {
  s.call("aten._linalg_check_errors.default", {info, api}, {{"is_matrix", s.rank(matrix) == 2}});
}

struct Lu {
  Value factors, pivots, info;
};

Lu factor(Steps& s, const Value& a) {
  Value made = s.call("aten.linalg_lu_factor_ex.default", {a});
  return {s.item(made, 0), s.item(made, 1), s.item(made, 2)};
}

/// Factors a matrix as eager's determinants do, which return the factors and are differentiated with them: of a real
/// matrix that lies row by row, the transposed one, which LAPACK takes without a copy.
Lu factor_as_it_lies(Steps& s, const Value& a) {
  const bool by_rows = !is_complex(s.dtype(a)) && shapes::is_contiguous(s.env, s.meta(a));
  return factor(s, by_rows ? transposed(s, a) : a);
}

Value identity(Steps& s, const Expr& n, DType type) { return s.call("aten.eye.default", {n}, {{"dtype", type}}); }

// Solutions and inverses.

struct Solution {
  Value x;
  Lu lu;
};

Solution solve(Steps& s, const Value& a, Value b, bool left) {
  require_matrix(s, a);
  // One vector, or a batch of them: as many as matrices.
  const Exprs vectors(s.sizes(a).begin(), s.sizes(a).end() - 1);
  const bool vector =
      s.rank(b) == 1 || (s.rank(b) + 1 == s.rank(a) &&
                         std::equal(vectors.begin(), vectors.end(), s.sizes(b).begin(),
                                    [&](const Expr& x, const Expr& y) { return s.env.statically_known_equal(x, y); }));
  if (vector && !left) s.refuse("takes matrices on the right-hand side when left is False");
  if (vector) b = s.unsqueeze(b, -1);
  const Lu lu = factor(s, a);
  Value x = s.call("aten.linalg_lu_solve.default", {lu.factors, lu.pivots, b}, {{"left", left}});
  return {vector ? s.call("aten.squeeze.dim", {x, -1}) : x, lu};
}

/// With its own check where the call asks for it.
Solution solve_ex(Steps& s) {
  Solution made = solve(s, s["A"], s["B"], s.flag("left"));
  if (s.flag("check_errors")) check(s, made.lu.info, s["A"], "linalg.solve");
  return made;
}

Value solve_with_factors(Steps& s) {
  Solution made = solve_ex(s);
  return Values{made.x, made.lu.factors, made.lu.pivots, made.lu.info};
}

Value solve_with_info(Steps& s) {
  Solution made = solve_ex(s);
  return Values{made.x, made.lu.info};
}

Value linalg_solve(Steps& s) {
  Solution made = solve(s, s["A"], s["B"], s.flag("left"));
  check(s, made.lu.info, s["A"], "linalg.solve");
  return made.x;
}

Lu inverse(Steps& s, const Value& a) {
  require_matrix(s, a);
  const Lu lu = factor(s, a);
  return {s.call("aten.linalg_lu_solve.default", {lu.factors, lu.pivots, identity(s, s.size(a, -1), s.dtype(a))}),
          lu.pivots, lu.info};
}

Value inv_ex(Steps& s) {
  const Lu made = inverse(s, s["A"]);
  if (s.flag("check_errors")) check(s, made.info, s["A"], "linalg.inv");
  return Values{made.factors, made.info};
}

Value inv(Steps& s) { return checked_inverse(s, s[s.op.schema.parameters[0].name]); }

Value lu_solve(Steps& s) { return s.call("aten.linalg_lu_solve.default", {s["LU_data"], s["LU_pivots"], s["self"]}); }

Value tensorinv(Steps& s) {
  const Value& x = s["self"];
  const auto at = static_cast<std::size_t>(s.number("ind"));
  const Exprs& sizes = s.sizes(x);
  if (at < 1 || at > sizes.size()) s.refuse("takes a split into dimensions before and after");
  Exprs before(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(at)),
      after(sizes.begin() + static_cast<std::ptrdiff_t>(at), sizes.end());
  const Expr m = s.env.simplify(sym::product(before)), n = s.env.simplify(sym::product(after));
  Value made = checked_inverse(s, s.reshape(x, {m, n}));
  after.insert(after.end(), before.begin(), before.end());
  return s.reshape(made, after);
}

Value tensorsolve(Steps& s) {
  Value a = s["self"];
  const Value& b = s["other"];
  if (s.has("dims")) {
    std::vector<std::int64_t> moved = s.numbers("dims"), order;
    for (std::int64_t& d : moved) d = s.wrapped(d, s.rank(a));
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(s.rank(a)); ++d)
      if (std::find(moved.begin(), moved.end(), d) == moved.end()) order.push_back(d);
    order.insert(order.end(), moved.begin(), moved.end());
    a = s.permute(a, order);
  }
  if (s.rank(a) < s.rank(b)) s.refuse("takes a tensor of at least as many dimensions as the right-hand side has");
  const Exprs left(s.sizes(a).begin() + static_cast<std::ptrdiff_t>(s.rank(b)), s.sizes(a).end());
  const Expr rows = s.env.simplify(sym::product(s.sizes(b))), columns = s.env.simplify(sym::product(left));
  Solution made = solve(s, s.reshape(a, {rows, columns}), s.reshape(b, {rows}), true);
  check(s, made.lu.info, b, "linalg.solve");
  return s.reshape(made.x, left);
}

/// Without the copy of the matrix that the second result is.
Value solve_with_triangle(Steps& s, Value a, const Value& b, bool upper, bool transpose, bool unit) {
  if (transpose) a = transposed(s, a);
  return s.call("aten.linalg_solve_triangular.default", {a, b},
                {{"upper", upper != transpose}, {"unitriangular", unit}});
}

Value triangular_solve(Steps& s) {
  Value x = solve_with_triangle(s, s["A"], s["self"], s.flag("upper"), s.flag("transpose"), s.flag("unitriangular"));
  Exprs sizes = batch_of(s, x);
  sizes.insert(sizes.end(), {s.size(s["A"], -2), s.size(s["A"], -1)});
  return Values{x, by_columns(s, s.call("aten.expand.default", {s["A"], sizes}))};
}

// Cholesky's factors.

Value checked_cholesky(Steps& s) {
  Value both = s.call("aten.linalg_cholesky_ex.default", {s["self"]}, {{"upper", s.flag("upper")}});
  check(s, s.item(both, 1), s["self"], "linalg.cholesky");
  return s.item(both, 0);
}

Value with_cholesky(Steps& s, const Value& factor, const Value& b, bool upper) {
  const Value other = adjoint(s, factor);
  const Value between = solve_with_triangle(s, upper ? other : factor, b, false, false, false);
  return solve_with_triangle(s, upper ? factor : other, between, true, false, false);
}

Value cholesky_solve(Steps& s) {
  return with_cholesky(s, s[s.op.schema.parameters[1].name], s["self"], s.flag("upper"));
}

Value cholesky_inverse(Steps& s) {
  const Value& factor = s["self"];
  require_matrix(s, factor);
  Value one = s.call("aten.expand.default", {identity(s, s.size(factor, -1), s.dtype(factor)), s.sizes(factor)});
  return with_cholesky(s, factor, one, s.flag("upper"));
}

// L U and L D L.

Value lu_factor(Steps& s) {
  if (!s.flag("pivot")) s.refuse("takes pivot=True alone: LAPACK always pivots");
  const Lu lu = factor(s, s["A"]);
  check(s, lu.info, s["A"], "linalg.lu_factor");
  return Values{lu.factors, lu.pivots};
}

Value lu_with_info(Steps& s) {
  if (!s.flag("pivot")) s.refuse("takes pivot=True alone: LAPACK always pivots");
  const Lu lu = factor(s, s["self"]);
  if (s.flag("check_errors")) check(s, lu.info, s["self"], "linalg.lu_factor");
  return Values{lu.factors, lu.pivots, lu.info};
}

Value unpacked(Steps& s, const Value& lu, const Value& pivots, bool data, bool permutation) {
  const Expr m = s.size(lu, -2), n = s.size(lu, -1), k = s.env.simplify(sym::min(m, n));
  const DType type = s.dtype(lu);
  auto none = [&] { return s.full({0}, 0, type); };
  Value p, lower, upper;
  if (permutation) {
    Value rows = s.call("coil.lu_permutation.default", {pivots, m});
    p = s.to(s.call("aten.eq.Tensor", {s.unsqueeze(rows, -2), s.unsqueeze(s.iota(m), -1)}), type);
  } else {
    p = none();
  }
  if (data) {
    lower = s.call("aten.tril.default", {s.slice(lu, -1, 0, k), -1});
    lower = s.add(lower, s.call("aten.eye.m", {m, k}, {{"dtype", type}}));
    upper = s.call("aten.triu.default", {s.slice(lu, -2, 0, k)});
  } else {
    lower = none(), upper = none();
  }
  return Values{p, lower, upper};
}

Value lu(Steps& s) {
  if (!s.flag("pivot")) s.refuse("takes pivot=True alone: LAPACK always pivots");
  const Lu made = factor(s, s["A"]);
  return unpacked(s, s.contiguous(made.factors), made.pivots, true, true);
}

Value lu_unpack(Steps& s) {
  return unpacked(s, s.contiguous(s["LU_data"]), s["LU_pivots"], s.flag("unpack_data"), s.flag("unpack_pivots"));
}

Value ldl_factor(Steps& s) {
  Value all = s.call("aten.linalg_ldl_factor_ex.default", {s["self"]}, {{"hermitian", s.flag("hermitian")}});
  check(s, s.item(all, 2), s["self"], "linalg.ldl_factor");
  return Values{s.item(all, 0), s.item(all, 1)};
}

// Determinants.

/// -1 for each row that was exchanged with another.
Value parity(Steps& s, const Lu& lu, const Value& a) {
  Value here = s.call("aten.add.Scalar", {s.iota(s.size(a, -1), DType::I32), 1});
  Value odd = s.call("aten.remainder.Scalar", {s.sum(s.call("aten.ne.Tensor", {lu.pivots, here}), {-1}), 2});
  return s.to(s.call("aten.add.Scalar", {s.call("aten.mul.Scalar", {odd, -2}), 1}), s.dtype(a));
}

Value diagonal(Steps& s, const Value& x) { return s.call("aten.diagonal.default", {x, 0, -2, -1}); }

struct Determinant {
  Value sign, log;
  Lu lu;
};

Determinant sign_and_log(Steps& s, const Value& a) {
  require_matrix(s, a);
  const Lu lu = factor_as_it_lies(s, a);
  Value d = diagonal(s, lu.factors);
  Value sign = s.mul(s.call("aten.prod.dim_int", {s.unary("sgn", d), -1}), parity(s, lu, a));
  return {sign, s.sum(s.unary("log", s.unary("abs", d)), {-1}), lu};
}

Determinant determinant(Steps& s, const Value& a) {
  require_matrix(s, a);
  const Lu lu = factor_as_it_lies(s, a);
  return {s.mul(s.call("aten.prod.dim_int", {diagonal(s, lu.factors), -1}), parity(s, lu, a)), {}, lu};
}

Value det(Steps& s) { return determinant(s, s[s.op.schema.parameters[0].name]).sign; }

Value det_with_factors(Steps& s) {
  Determinant made = determinant(s, s["A"]);
  return Values{made.sign, made.lu.factors, made.lu.pivots};
}

Value slogdet(Steps& s) {
  Determinant made = sign_and_log(s, s[s.op.schema.parameters[0].name]);
  return Values{made.sign, made.log};
}

Value slogdet_with_factors(Steps& s) {
  Determinant made = sign_and_log(s, s["A"]);
  return Values{made.sign, made.log, made.lu.factors, made.lu.pivots};
}

Value logdet(Steps& s) {
  Determinant made = sign_and_log(s, s["self"]);
  if (is_complex(s.dtype(made.sign))) return s.add(s.unary("log", made.sign), made.log);
  return s.where(s.call("aten.eq.Scalar", {made.sign, -1}), s.full({}, std::nan(""), s.dtype(made.log)), made.log);
}

// Orthogonal factors, singular values, eigenvalues.

Value qr(Steps& s) {
  Value both = s.call("aten.linalg_qr.default", {s["self"], s.flag("some") ? "reduced" : "complete"});
  return Values{s.item(both, 0), s.item(both, 1)};
}

Value orgqr(Steps& s) { return s.call("aten.linalg_householder_product.default", {s["self"], s["input2"]}); }

Value linalg_svd(Steps& s) {
  Value all = s.call("aten._linalg_svd.default", {s["A"], s.flag("full_matrices"), true});
  return Values{s.item(all, 0), s.item(all, 1), s.item(all, 2)};
}

Value svdvals(Steps& s) { return singular_values(s, s["A"]); }

/// The older form: V, not its transpose; zeros where vectors are not asked for.
Value svd(Steps& s) {
  const Value& a = s["self"];
  if (s.flag("compute_uv")) {
    Value all = s.call("aten._linalg_svd.default", {a, !s.flag("some"), true});
    return Values{s.item(all, 0), s.item(all, 1), adjoint(s, s.item(all, 2))};
  }
  auto zeros = [&](const Expr& n) {
    Exprs sizes = batch_of(s, a);
    sizes.insert(sizes.end(), {n, n});
    return s.full(sizes, 0, s.dtype(a));
  };
  return Values{zeros(s.size(a, -2)), singular_values(s, a), transposed(s, zeros(s.size(a, -1)))};
}

Value linalg_eigh(Steps& s) {
  Value both = s.call("aten._linalg_eigh.default", {s["self"], s["UPLO"], true});
  return Values{s.item(both, 0), s.item(both, 1)};
}

Value eigenvalues_of_symmetric(Steps& s, const Value& a, const Value& triangle) {
  return s.item(s.call("aten._linalg_eigh.default", {a, triangle, false}), 0);
}

Value eigvalsh(Steps& s) { return eigenvalues_of_symmetric(s, s["self"], s["UPLO"]); }

// Thresholds on singular values.

double epsilon(DType type) {
  return type == DType::F64 ? std::numeric_limits<double>::epsilon()
                            : static_cast<double>(std::numeric_limits<float>::epsilon());
}

/// What is not above is taken for zero: max(atol, rtol * largest), with torch's defaults. Numbers or tensors; none
/// where not given.
Value threshold(Steps& s, const Value& a, const Value& atol, const Value& rtol, const Value& largest) {
  const Expr longest = s.env.simplify(sym::max(s.size(a, -2), s.size(a, -1)));
  const DType type = real_type(s.dtype(a));
  auto tensor = [&](const Value& v) { return s.is_tensor(v) ? v : s.full({}, v, type); };
  // A dimension more: thresholds are one for each matrix.
  auto beside = [&](const Value& v) { return s.rank(v) == 0 ? v : s.unsqueeze(v, -1); };
  Value relative = rtol.is_none() ? Value() : beside(tensor(rtol));
  if (relative.is_none()) {
    relative = s.call("aten.mul.Scalar", {s.full({}, longest, type), epsilon(type)});
    if (!atol.is_none()) {
      Value above = s.call("aten.gt.Scalar", {beside(tensor(atol)), 0});
      relative = s.where(above, s.full({}, 0, type), relative);
    }
  }
  Value scaled = s.mul(relative, largest);
  return atol.is_none() ? scaled : s.call("aten.maximum.default", {scaled, s.to(beside(tensor(atol)), type)});
}

struct Tolerances {
  Value absolute, relative;
};

Tolerances tolerances(Steps& s) {
  if (s.takes("rcond")) return {{}, s["rcond"]};
  if (s.takes("tol")) return {s["tol"], 0.0};
  return {s["atol"], s["rtol"]};
}

Value matrix_rank(Steps& s) {
  const Value& a = s[s.op.schema.parameters[0].name];
  Value values = s.flag("hermitian") ? s.unary("abs", eigenvalues_of_symmetric(s, a, "L")) : singular_values(s, a);
  if (s.size(values, -1).is_constant(0)) return s.full(batch_of(s, a), 0, DType::I64);
  const Tolerances t = tolerances(s);
  Value largest = s.call("aten.amax.default", {values, Steps::list({-1}), true});
  return s.sum(s.call("aten.gt.Tensor", {values, threshold(s, a, t.absolute, t.relative, largest)}), {-1});
}

Value pseudo_inverse(Steps& s) {
  const Value& a = s["self"];
  const bool hermitian = s.takes("hermitian") && s.flag("hermitian");
  require_matrix(s, a, hermitian);
  const Expr m = s.size(a, -2), n = s.size(a, -1);
  if (m.is_constant(0) || n.is_constant(0)) {
    Exprs sizes = batch_of(s, a);
    sizes.insert(sizes.end(), {n, m});
    return s.full(sizes, 0, s.dtype(a));
  }
  const Tolerances t = tolerances(s);
  Value left, values, right;
  if (hermitian) {
    Value both = s.call("aten._linalg_eigh.default", {a, "L", true});
    values = s.item(both, 0), left = s.item(both, 1), right = adjoint(s, left);
  } else {
    Value all = s.call("aten._linalg_svd.default", {a, false, true});
    values = s.item(all, 1), left = adjoint(s, s.item(all, 2)), right = adjoint(s, s.item(all, 0));
  }
  Value size = s.unary("abs", values), largest = s.call("aten.amax.default", {size, Steps::list({-1}), true});
  Value kept = s.call("aten.gt.Tensor", {size, threshold(s, a, t.absolute, t.relative, largest)});
  Value inverted = s.where(kept, s.unary("reciprocal", values), s.full({}, 0, s.dtype(values)));
  return s.call("aten.matmul.default", {s.mul(left, s.unsqueeze(inverted, -2)), right});
}

Value first_over_last(Steps& s, const Value& a, bool inverse) {
  Value values = singular_values(s, a), first = s.call("aten.select.int", {values, -1, 0}),
        last = s.call("aten.select.int", {values, -1, -1});
  return inverse ? s.div(last, first) : s.div(first, last);
}

Value condition_number(Steps& s) {
  const Value &a = s["self"], &p = s["p"];
  require_matrix(s, a, false);
  if (p.is_none() || (!p.is<std::string>() && std::fabs(p.as_double()) == 2))
    return first_over_last(s, a, !p.is_none() && p.as_double() < 0);
  require_matrix(s, a);
  const Lu made = inverse(s, a);
  Value singular = s.unsqueeze(s.unsqueeze(s.call("aten.gt.Scalar", {made.info, 0}), -1), -1);
  Value inverted = s.call("aten.masked_fill.Scalar", {made.factors, singular, std::numeric_limits<double>::infinity()});
  auto norm = [&](const Value& x) {
    return s.call(p.is<std::string>() ? "aten.linalg_matrix_norm.str_ord" : "aten.linalg_matrix_norm.default", {x, p});
  };
  const double infinity = std::numeric_limits<double>::infinity();
  return s.call("aten.nan_to_num.default", {s.mul(norm(a), norm(inverted)), infinity, infinity, -infinity});
}

Value matrix_exp(Steps& s) { return s.call("aten.linalg_matrix_exp.default", {s["self"]}); }

constexpr Composite kFactors[] = {
    {"aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", inv_ex},
    {"aten::linalg_inv(Tensor A) -> Tensor", inv},
    {"aten::inverse(Tensor self) -> Tensor", inv},
    {"aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", linalg_solve},
    {"aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "info)",
     solve_with_info},
    {"aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
     "LU, Tensor pivots, Tensor info)",
     solve_with_factors},
    {"aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", lu_solve},
    {"aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", tensorinv},
    {"aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", tensorsolve},
    {"aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) "
     "-> (Tensor solution, Tensor cloned_coefficient)",
     triangular_solve},
    {"aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", checked_cholesky},
    {"aten::cholesky(Tensor self, bool upper=False) -> Tensor", checked_cholesky},
    {"aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", cholesky_solve},
    {"aten::_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", cholesky_solve},
    {"aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", cholesky_inverse},
    {"aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", lu_factor},
    {"aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor "
     "info)",
     lu_with_info},
    {"aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", lu},
    {"aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, "
     "Tensor L, Tensor U)",
     lu_unpack},
    {"aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", ldl_factor},
    {"aten::linalg_det(Tensor A) -> Tensor", det},
    {"aten::det(Tensor self) -> Tensor", det},
    {"aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", det_with_factors},
    {"aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet},
    {"aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", slogdet},
    {"aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
     slogdet_with_factors},
    {"aten::logdet(Tensor self) -> Tensor", logdet},
    {"aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", qr},
    {"aten::orgqr(Tensor self, Tensor input2) -> Tensor", orgqr},
    {"aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
     linalg_svd},
    {"aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", svdvals},
    {"aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", svd},
    {"aten::linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)", linalg_eigh},
    {"aten::linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor", eigvalsh},
    {"aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", pseudo_inverse},
    {"aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor", pseudo_inverse},
    {"aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor", pseudo_inverse},
    {"aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> "
     "Tensor",
     pseudo_inverse},
    {"aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) "
     "-> Tensor",
     pseudo_inverse},
    {"aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor", matrix_rank},
    {"aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor", matrix_rank},
    {"aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
     "hermitian=False) -> Tensor",
     matrix_rank},
    {"aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool "
     "hermitian=False) -> Tensor",
     matrix_rank},
    {"aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", condition_number},
    {"aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", condition_number},
    {"aten::matrix_exp(Tensor self) -> Tensor", matrix_exp},
};

}  // namespace

Value singular_values(Steps& s, const Value& a) {
  return s.item(s.call("aten._linalg_svd.default", {a, false, false}), 1);
}

Value checked_inverse(Steps& s, const Value& a) {
  const Lu made = inverse(s, a);
  check(s, made.info, a, "linalg.inv");
  return made.factors;
}

std::span<const Composite> factors() { return kFactors; }

}  // namespace coil::ops::composites
