// Factorizations of matrices: what LAPACK carries out. What is made of them is in ops/composites/factors.cpp.
#include <algorithm>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

/// Refuses what has no two dimensions, and types that LAPACK has not. (Complex matrices are split into real ones, or
/// refused there.)
const TensorMeta& matrix(const Call& call, std::size_t i = 0) {
  const TensorMeta& a = call.tensor(i);
  if (a.rank() < 2) refuse(call, "takes tensors of at least two dimensions, not sizes {}", show(a.sizes));
  if (real_type(a.dtype) != DType::F32 && real_type(a.dtype) != DType::F64)
    refuse(call, "takes float and double, not {}", torch_name(a.dtype));
  return a;
}

const TensorMeta& square(const Call& call, std::size_t i = 0) {
  const TensorMeta& a = matrix(call, i);
  require_equal(call, a.sizes[a.rank() - 2], a.sizes.back(), "rows and columns");
  return a;
}

void require_type(const Call& call, const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype != b.dtype) refuse(call, "types {} and {} differ", torch_name(a.dtype), torch_name(b.dtype));
}

Exprs batch_of(const TensorMeta& a) { return {a.sizes.begin(), a.sizes.end() - 2}; }

Exprs with(Exprs batch, std::initializer_list<Expr> sizes) {
  batch.insert(batch.end(), sizes);
  return batch;
}

/// Column by column within each matrix, as LAPACK leaves them.
TensorMeta by_columns(const Call& call, const TensorMeta& like, const Exprs& sizes) {
  TensorMeta made = dense(call.env, like, sizes);
  std::vector<std::size_t> order(sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  made.strides = permuted_strides(call.env, sizes, order);
  return made;
}

TensorMeta integers(const Call& call, const TensorMeta& like, const Exprs& sizes, DType type = DType::I32) {
  return dense(call.env, type, like.device, sizes);
}

Expr least(const Call& call, const TensorMeta& a) {
  return call.env.simplify(sym::min(a.sizes[a.rank() - 2], a.sizes.back()));
}

Value lu_factor_ex(const Call& call) {
  const TensorMeta& a = matrix(call);
  if (!flag(call, "pivot", true)) refuse(call, "takes pivot=True alone: LAPACK always pivots");
  return Values{by_columns(call, a, a.sizes), integers(call, a, with(batch_of(a), {least(call, a)})),
                integers(call, a, batch_of(a))};
}

/// A solution in the broadcast batches of the matrix and its right-hand sides.
Value solution(const Call& call, const TensorMeta& a, const TensorMeta& b, bool left, bool columns) {
  require_type(call, a, b);
  require_equal(call, a.sizes.back(), b.sizes[left ? b.rank() - 2 : b.rank() - 1],
                "the sizes of the matrix and its right-hand side");
  const Exprs batches[] = {batch_of(b), batch_of(a)};
  const Exprs sizes = with(broadcast(call, batches), {b.sizes[b.rank() - 2], b.sizes.back()});
  return columns ? by_columns(call, b, sizes) : dense(call.env, b, sizes);
}

/// One for each row of each matrix.
void require_pivots(const Call& call, const TensorMeta& a) {
  const TensorMeta& pivots = call.tensor(1);
  if (pivots.rank() + 1 != a.rank())
    refuse(call, "takes pivots of {} dimensions for a matrix of {}", pivots.rank(), a.rank());
  for (std::size_t d = 0; d < pivots.rank(); ++d)
    require_equal(call, pivots.sizes[d], a.sizes[d], "the sizes of the pivots and the matrix");
}

Value lu_solve(const Call& call) {
  const TensorMeta &a = square(call), &b = matrix(call, 2);
  require_pivots(call, a);
  const bool left = flag(call, "left", true);
  return solution(call, a, b, left, left);
}

Value solve_triangular(const Call& call) {
  return solution(call, square(call), matrix(call, 1), flag(call, "left", true), true);
}

Value cholesky_ex(const Call& call) {
  const TensorMeta& a = square(call);
  return Values{by_columns(call, a, a.sizes), integers(call, a, batch_of(a))};
}

Value ldl_factor_ex(const Call& call) {
  const TensorMeta& a = square(call);
  return Values{by_columns(call, a, a.sizes), integers(call, a, with(batch_of(a), {a.sizes.back()})),
                integers(call, a, batch_of(a))};
}

Value ldl_solve(const Call& call) {
  const TensorMeta& a = square(call);
  require_pivots(call, a);
  return solution(call, a, matrix(call, 2), true, true);
}

Value lu_permutation(const Call& call) {
  const TensorMeta& pivots = call.tensor(0);
  Exprs sizes = pivots.sizes;
  sizes.back() = call["rows"].as_int();
  return integers(call, pivots, sizes, DType::I64);
}

Value qr(const Call& call) {
  const TensorMeta& a = matrix(call);
  const std::string& mode = call["mode"].as_string();
  if (mode != "reduced" && mode != "complete" && mode != "r")
    refuse(call, "knows the modes `reduced`, `complete` and `r`, not `{}`", mode);
  const Expr m = a.sizes[a.rank() - 2], n = a.sizes.back(), k = mode == "complete" ? m : least(call, a);
  const TensorMeta r = by_columns(call, a, with(batch_of(a), {k, n}));
  return Values{mode == "r" ? dense(call.env, a, {0}) : by_columns(call, a, with(batch_of(a), {m, k})), r};
}

Value geqrf(const Call& call) {
  const TensorMeta& a = matrix(call);
  return Values{by_columns(call, a, a.sizes), dense(call.env, a, with(batch_of(a), {least(call, a)}))};
}

Value householder_product(const Call& call) {
  const TensorMeta &a = matrix(call), &tau = call.tensor(1);
  require_type(call, a, tau);
  if (tau.rank() + 1 != a.rank())
    refuse(call, "takes as many factors as matrices, not sizes {} and {}", show(tau.sizes), show(a.sizes));
  const Expr rows = a.sizes[a.rank() - 2], columns = a.sizes.back();
  if (call.env.statically_known_lt(rows, columns) || call.env.statically_known_lt(columns, tau.sizes.back()))
    refuse(call, "takes no matrix of more columns than rows, and no more factors than columns, not sizes {} and {}",
           show(a.sizes), show(tau.sizes));
  return by_columns(call, a, a.sizes);
}

Value ormqr(const Call& call) {
  const TensorMeta &a = matrix(call), &c = matrix(call, 2);
  require_type(call, a, c);
  if (a.rank() != c.rank() || call.tensor(1).rank() + 1 != a.rank())
    refuse(call, "takes batches of the same dimensions, not {} and {}", show(a.sizes), show(c.sizes));
  return by_columns(call, c, c.sizes);
}

/// Values of complex matrices that are real.
TensorMeta real_of(TensorMeta values) {
  values.dtype = real_type(values.dtype);
  return values;
}

Value svd(const Call& call) {
  const TensorMeta& a = matrix(call);
  const Expr m = a.sizes[a.rank() - 2], n = a.sizes.back(), k = least(call, a);
  const TensorMeta s = real_of(dense(call.env, a, with(batch_of(a), {k}))), empty = dense(call.env, a, {0});
  if (!flag(call, "compute_uv", true)) return Values{empty, s, empty};
  const bool full = flag(call, "full_matrices");
  return Values{by_columns(call, a, with(batch_of(a), {m, full ? m : k})), s,
                by_columns(call, a, with(batch_of(a), {full ? n : k, n}))};
}

Value eigh(const Call& call) {
  const TensorMeta& a = square(call);
  const std::string& triangle = call["UPLO"].as_string();
  if (triangle.size() != 1 || std::string("ULul").find(triangle) == std::string::npos)
    refuse(call, "takes the triangle 'L' or 'U', not '{}'", triangle);
  return Values{real_of(dense(call.env, a, {a.sizes.begin(), a.sizes.end() - 1})),
                flag(call, "compute_v", true) ? by_columns(call, a, a.sizes) : dense(call.env, a, {0})};
}

Value eig_parts(const Call& call) {
  const TensorMeta& a = square(call);
  const TensorMeta values = dense(call.env, a, {a.sizes.begin(), a.sizes.end() - 1}),
                   vectors = by_columns(call, a, a.sizes);
  return call["vectors"].as_bool() ? Values{values, values, vectors, vectors} : Values{values, values};
}

/// Complex ones, which split-complex takes apart.
TensorMeta complex_of(TensorMeta real) {
  if (!is_complex(real.dtype)) real.dtype = complex_type(real.dtype);
  return real;
}

TensorMeta eigenvalues(const Call& call) {
  const TensorMeta& a = call.tensor(0);
  if (a.rank() < 2) refuse(call, "takes tensors of at least two dimensions, not sizes {}", show(a.sizes));
  require_equal(call, a.sizes[a.rank() - 2], a.sizes.back(), "rows and columns");
  return complex_of(dense(call.env, a, {a.sizes.begin(), a.sizes.end() - 1}));
}

Value eig(const Call& call) {
  TensorMeta values = eigenvalues(call);
  return Values{values, complex_of(by_columns(call, call.tensor(0), call.tensor(0).sizes))};
}

Value matrix_exp(const Call& call) {
  const TensorMeta& a = call.tensor(0);
  if (a.rank() < 2) refuse(call, "takes tensors of at least two dimensions, not sizes {}", show(a.sizes));
  return dense(call.env, a, a.sizes);
}

}  // namespace

void register_factorizations() {
  define(
      "aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
      "Tensor info)",
      lu_factor_ex);
  define("aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
         lu_solve);
  define(
      "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) "
      "-> Tensor",
      solve_triangular);
  define(
      "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
      cholesky_ex);
  define(
      "aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor "
      "pivots, Tensor info)",
      ldl_factor_ex);
  define("aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", ldl_solve);
  define("aten::linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", qr);
  define("aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)", geqrf);
  define("aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor", householder_product);
  define("aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
         ormqr);
  define(
      "aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, "
      "Tensor S, Tensor Vh)",
      svd);
  define("aten::_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
         eigh);
  define("aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", eig);
  define_each(R"(
aten::linalg_eigvals(Tensor self) -> Tensor
aten::_linalg_eigvals(Tensor self) -> Tensor
)",
              [](const Call& call) -> Value { return eigenvalues(call); });
  define("aten::linalg_matrix_exp(Tensor self) -> Tensor", matrix_exp);
  define(
      "aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
      [](const Call&) -> Value { return None{}; }, false, true);
  // Coil's own: exchanges of rows as one permutation of `rows` rows; eigenvalues and eigenvectors as real and imaginary
  // parts.
  define("coil::lu_permutation(Tensor pivots, SymInt rows) -> Tensor", lu_permutation);
  define("coil::eig_values(Tensor self, bool vectors) -> (Tensor, Tensor)", eig_parts);
  define("coil::eig(Tensor self, bool vectors) -> (Tensor, Tensor, Tensor, Tensor)", eig_parts);
}

}  // namespace coil::ops::shapes
