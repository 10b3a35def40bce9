// Operations on batches of matrices that LAPACK carries out: x[B.., M, N], float or double, any strides.
//   lu_factor     a[M, N] -> lu[M, N], pivots[min] (I32, from 1), info (I32: a diagonal element that is zero, from 1)
//   lu_solve      lu[N, N], pivots[N], b -> x. Attributes `left` (A X = B, else X A = B), `adjoint`
//   lu_permutation  pivots[K] -> rows[M] (I64): which row of the matrix each row of L U is
//   cholesky      a[N, N] -> l[N, N] (the other triangle is 0), info (I32: the order of a leading minor that is not
//   positive). Attribute `upper` solve_triangular  a[N, N], b -> x. Attributes `upper`, `left`, `unit` ldl_factor a[N,
//   N] -> ld[N, N], pivots[N] (I32), info (I32) ldl_solve     ld[N, N], pivots[N], b -> x qr            a[M, N] -> q[M,
//   K], r[K, N]; with attribute `r_only` r alone. K is what the results say: min(M, N), or M geqrf         a[M, N] ->
//   a[M, N], tau[min]: R above, Householder's vectors below the diagonal householder_product  a[M, N], tau[K] -> q[M,
//   N] ormqr         a[P, K], tau[K], c[M, N] -> Q c or c Q. Attributes `left`, `transpose` svd           a[M, N] ->
//   u[M, .], s[min], vh[., N]; with attribute `values_only` s alone eigh          a[N, N] -> w[N], v[N, N]; with
//   attribute `values_only` w alone. Attribute `upper`: which triangle is read eig           a[N, N] -> re[N], im[N],
//   vectors' re[N, N], im[N, N]; with attribute `values_only` the first two matrix_exp    a[N, N] -> the exponential,
//   by scaling, a Padé approximant and squaring (computed in double)
// An iteration that does not converge fails the call; a singular matrix is told by `info`.
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_lu_factor(const Attributes&);
std::unique_ptr<LibraryOp> make_lu_solve(const Attributes&);
std::unique_ptr<LibraryOp> make_lu_permutation(const Attributes&);
std::unique_ptr<LibraryOp> make_cholesky(const Attributes&);
std::unique_ptr<LibraryOp> make_solve_triangular(const Attributes&);
std::unique_ptr<LibraryOp> make_ldl_factor(const Attributes&);
std::unique_ptr<LibraryOp> make_ldl_solve(const Attributes&);
std::unique_ptr<LibraryOp> make_qr(const Attributes&);
std::unique_ptr<LibraryOp> make_geqrf(const Attributes&);
std::unique_ptr<LibraryOp> make_householder_product(const Attributes&);
std::unique_ptr<LibraryOp> make_ormqr(const Attributes&);
std::unique_ptr<LibraryOp> make_svd(const Attributes&);
std::unique_ptr<LibraryOp> make_eigh(const Attributes&);
std::unique_ptr<LibraryOp> make_eig(const Attributes&);
std::unique_ptr<LibraryOp> make_matrix_exp(const Attributes&);

}  // namespace coil::runtime
