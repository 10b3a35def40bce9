#include "library_ops/matrices.h"

#include "library_ops/table.h"

namespace coil::library_ops {
namespace {

Operand unless(const Flag& key, std::string name, std::string sizes) {
  return {.name = std::move(name), .sizes = std::move(sizes), .when = When(key, false)};
}

Descriptor by_lapack(std::string name, std::string sentence, std::vector<Operand> operands,
                     std::vector<Operand> results, std::vector<AttributeInfo> attributes = {}) {
  return {.name = std::move(name),
          .sentence = std::move(sentence),
          .operands = std::move(operands),
          .results = std::move(results),
          .attributes = std::move(attributes)};
}

std::vector<Descriptor> solves() {
  using namespace matrices;
  const Operand square{"a", "[B.., N, N]"}, pivots{"pivots", "[B.., K]", "i32, from 1"}, right{"b", "[B.., N, R]"},
      solution{"x", "like b"};
  return {
      by_lapack(
          "lu_factor", "P A = L U; a singular matrix is told by info.", {{"a", "[B.., M, N]"}},
          {{"lu", "[B.., M, N]"}, pivots, {"info", "[B..]", "i32: which diagonal element is zero, from 1; else 0"}}),
      by_lapack("lu_solve", "Solves A X = B, or X A = B, with the factors of lu_factor.",
                {{"lu", "[B.., N, N]"}, pivots, right}, {solution}, {kLeft, kAdjoint}),
      by_lapack("lu_permutation", "Which row of the matrix each row of L U is.", {pivots},
                {{"rows", "[B.., M]", "i64"}}),
      by_lapack(
          "cholesky", "A = L Lᵀ, or Uᵀ U; the other triangle is 0.", {square},
          {{"l", "[B.., N, N]"}, {"info", "[B..]", "i32: the order of a leading minor that is not positive; else 0"}},
          {kUpper}),
      by_lapack("solve_triangular", "Solves A X = B, or X A = B, where A is a triangle.", {square, right}, {solution},
                {kUpper, kLeft, kUnit}),
      by_lapack("ldl_factor", "A = L D Lᵀ of a symmetric matrix, with pivots.", {square},
                {{"ld", "[B.., N, N]"}, pivots, {"info", "[B..]", "i32"}}, {kHermitian}),
      by_lapack("ldl_solve", "Solves A X = B with the factors of ldl_factor.", {{"ld", "[B.., N, N]"}, pivots, right},
                {solution}, {kHermitian}),
  };
}

std::vector<Descriptor> spectra() {
  using namespace matrices;
  const Operand square{"a", "[B.., N, N]"}, matrix{"a", "[B.., M, N]"},
      reflectors{"a", "[B.., M, K]", "as geqrf gives them"}, tau{"tau", "[B.., K]"};
  return {
      by_lapack("qr", "A = Q R; K is min(M, N), or M where the results say so.", {matrix},
                {unless(kROnly, "q", "[B.., M, K]"), {"r", "[B.., K, N]"}}, {kROnly}),
      by_lapack("geqrf", "A = Q R with R above and Householder's vectors below the diagonal.", {matrix},
                {{"a", "[B.., M, N]"}, tau}),
      by_lapack("householder_product", "The first columns of Q of Householder's vectors.", {reflectors, tau},
                {{"q", "like a"}}),
      by_lapack("ormqr", "Q C, or C Q, of Householder's vectors.", {reflectors, tau, {"c", "[B.., M, N]"}},
                {{"y", "like c"}}, {kLeft, kTranspose}),
      by_lapack("svd", "A = U diag(s) Vᴴ; one that does not converge fails the call.", {matrix},
                {unless(kValuesOnly, "u", "[B.., M, .]"), {"s", "[B.., K]"}, unless(kValuesOnly, "vh", "[B.., ., N]")},
                {kValuesOnly}),
      by_lapack("eigh", "Eigenvalues and vectors of a symmetric matrix.", {square},
                {{"w", "[B.., N]"}, unless(kValuesOnly, "v", "[B.., N, N]")}, {kValuesOnly, kUpper}),
      by_lapack("eig", "Eigenvalues and vectors of any square matrix.", {square},
                {{"re", "[B.., N]"},
                 {"im", "[B.., N]"},
                 unless(kValuesOnly, "vectors_re", "[B.., N, N]"),
                 unless(kValuesOnly, "vectors_im", "[B.., N, N]")},
                {kValuesOnly}),
      by_lapack("eig_complex", "Eigenvalues and vectors of any square complex matrix.", {square},
                {{"w", "[B.., N]"}, unless(kValuesOnly, "v", "[B.., N, N]")}, {kValuesOnly}),
      by_lapack("matrix_exp", "The exponential, by scaling, a Padé approximant and squaring, computed in double.",
                {square}, {{"y", "like a"}}),
  };
}

}  // namespace

std::vector<Descriptor> matrix_ops() {
  std::vector<Descriptor> all = solves();
  for (Descriptor& d : spectra()) all.push_back(std::move(d));
  return all;
}

}  // namespace coil::library_ops
