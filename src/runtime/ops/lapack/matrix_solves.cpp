// Factors of square matrices, and solving with them.
#include <numeric>

#include "library_ops/matrices.h"
#include "runtime/device/library.h"
#include "runtime/ops/lapack/matrix_batch.h"

namespace coil::runtime {
namespace {

template <class T>
class LuFactor : public MatrixBatch<T> {
 public:
  explicit LuFactor(const Attributes&) : MatrixBatch<T>("lu_factor", {2}, {2, 1, 0}) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    m_ = this->in(0).rows(), n_ = this->in(0).columns();
    a_ = this->slot(std::int64_t{m_} * n_);
    pivots_ = this->template slot<int>(std::min(m_, n_));
  }
  int one(const typename Base::Item& x) override {
    T* a = x.load(0, x.scratch(a_));
    int* pivots = x.template scratch<int>(pivots_);
    int info = 0;
    const int lda = leading(m_);
    if (m_ && n_) lapack_.getrf(&m_, &n_, a, &lda, pivots, &info);
    x.store(0, a, m_);
    x.template fill<int>(1, [&](int i, int) { return pivots[i]; });
    x.number(2, info);
    return std::min(info, 0);
  }
  const Lapack<T>& lapack_ = lapack<T>();
  int m_ = 0, n_ = 0;
  typename Base::Slot a_{}, pivots_{};
};

/// What `lu_solve` and `ldl_solve` share: a factored matrix, its pivots, right-hand sides.
template <class T>
class Solve : public MatrixBatch<T> {
 public:
  Solve(const char* name, bool left) : MatrixBatch<T>(name, {2, 1, 2}, {2}), left_(left) {}

 protected:
  using Base = MatrixBatch<T>;
  virtual void solve(const T* a, const int* pivots, int columns, T* b, int ldb, int* info) = 0;
  int n_ = 0;

 private:
  void setup() override {
    n_ = this->in(0).rows();
    const BatchOperand& b = this->in(2);
    columns_ = left_ ? b.columns() : b.rows();
    if (this->in(0).columns() != n_ || this->in(1).rows() != n_ || (left_ ? b.rows() : b.columns()) != n_)
      this->refuse("sizes do not fit");
    a_ = this->slot(std::int64_t{n_} * n_);
    b_ = this->slot(std::int64_t{n_} * columns_);
    pivots_ = this->template slot<int>(n_);
  }
  int one(const typename Base::Item& x) override {
    int info = 0;
    T* b = x.load(2, x.scratch(b_), !left_);
    if (n_ && columns_)
      solve(x.load(0, x.scratch(a_)), x.load(1, x.template scratch<int>(pivots_)), columns_, b, leading(n_), &info);
    const std::ptrdiff_t n = n_;
    x.fill(0, [&](int i, int j) { return left_ ? b[j * n + i] : b[i * n + j]; });
    return info;
  }
  bool left_;
  int columns_ = 0;
  typename Base::Slot a_{}, b_{}, pivots_{};
};

template <class T>
class LuSolve : public Solve<T> {
 public:
  // X A = B is A' X' = B', and X A* = B is A conj(X') = conj(B').
  explicit LuSolve(const Attributes& a)
      : Solve<T>("lu_solve", read(a, library_ops::matrices::kLeft)),
        left_(read(a, library_ops::matrices::kLeft)),
        adjoint_(read(a, library_ops::matrices::kAdjoint)) {}

 private:
  void solve(const T* a, const int* pivots, int columns, T* b, int ldb, int* info) override {
    const char* how = adjoint_ == left_ ? (adjoint_ ? "C" : "T") : "N";
    conjugate_where_turned(b, columns);
    lapack_.getrs(how, &this->n_, &columns, a, &ldb, pivots, b, &ldb, info, 1);
    conjugate_where_turned(b, columns);
  }
  void conjugate_where_turned(T* b, int columns) const {
    if constexpr (kIsComplex<T>)
      if (adjoint_ && !left_)
        std::transform(b, b + std::ptrdiff_t{this->n_} * columns, b, [](T x) { return std::conj(x); });
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool left_, adjoint_;
};

/// Factors a symmetric matrix, or a Hermitian one.
template <class T>
void factor_symmetric(const Lapack<T>& lapack, bool hermitian, int n, T* a, int* pivots, T* work, int lwork,
                      int* info) {
  const int lda = leading(n);
  if constexpr (kIsComplex<T>)
    if (hermitian) return lapack.hetrf("L", &n, a, &lda, pivots, work, &lwork, info, 1);
  lapack.sytrf("L", &n, a, &lda, pivots, work, &lwork, info, 1);
}

template <class T>
class LdlFactor : public MatrixBatch<T> {
 public:
  explicit LdlFactor(const Attributes& a)
      : MatrixBatch<T>("ldl_factor", {2}, {2, 1, 0}), hermitian_(read(a, library_ops::matrices::kHermitian)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    n_ = this->in(0).rows();
    int info = 0;
    T told = 1;
    factor_symmetric<T>(lapack_, hermitian_, n_, nullptr, nullptr, &told, -1, &info);
    lwork_ = work_size(told);
    a_ = this->slot(std::int64_t{n_} * n_);
    pivots_ = this->template slot<int>(n_);
    work_ = this->slot(lwork_);
  }
  int one(const typename Base::Item& x) override {
    T* a = x.load(0, x.scratch(a_));
    int* pivots = x.template scratch<int>(pivots_);
    int info = 0;
    if (n_) factor_symmetric<T>(lapack_, hermitian_, n_, a, pivots, x.scratch(work_), lwork_, &info);
    const std::ptrdiff_t n = n_;
    x.fill(0, [&](int i, int j) { return i < j ? T(0) : a[j * n + i]; });
    x.template fill<int>(1, [&](int i, int) { return pivots[i]; });
    x.number(2, info);
    return std::min(info, 0);
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool hermitian_;
  int n_ = 0, lwork_ = 1;
  typename Base::Slot a_{}, pivots_{}, work_{};
};

template <class T>
class LdlSolve : public Solve<T> {
 public:
  explicit LdlSolve(const Attributes& a)
      : Solve<T>("ldl_solve", true), hermitian_(read(a, library_ops::matrices::kHermitian)) {}

 private:
  void solve(const T* a, const int* pivots, int columns, T* b, int ldb, int* info) override {
    if constexpr (kIsComplex<T>)
      if (hermitian_) return lapack_.hetrs("L", &this->n_, &columns, a, &ldb, pivots, b, &ldb, info, 1);
    lapack_.sytrs("L", &this->n_, &columns, a, &ldb, pivots, b, &ldb, info, 1);
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool hermitian_;
};

template <class T>
class Cholesky : public MatrixBatch<T> {
 public:
  explicit Cholesky(const Attributes& a)
      : MatrixBatch<T>("cholesky", {2}, {2, 0}), upper_(read(a, library_ops::matrices::kUpper)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    n_ = this->in(0).rows();
    a_ = this->slot(std::int64_t{n_} * n_);
  }
  int one(const typename Base::Item& x) override {
    T* a = x.load(0, x.scratch(a_));
    int info = 0;
    const int lda = leading(n_);
    if (n_) lapack_.potrf(upper_ ? "U" : "L", &n_, a, &lda, &info, 1);
    const std::ptrdiff_t n = n_;
    // Not every LAPACK sees by itself that a matrix with NaN in it has no factors.
    for (std::ptrdiff_t k = 0; k < n && info == 0; ++k)
      if (a[k * n + k] != a[k * n + k]) info = static_cast<int>(k) + 1;
    x.fill(0, [&](int i, int j) { return (upper_ ? i > j : i < j) ? T(0) : a[j * n + i]; });
    x.number(1, info);
    return std::min(info, 0);
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool upper_;
  int n_ = 0;
  typename Base::Slot a_{};
};

template <class T>
class SolveTriangular : public MatrixBatch<T> {
 public:
  explicit SolveTriangular(const Attributes& a)
      : MatrixBatch<T>("solve_triangular", {2, 2}, {2}),
        upper_(read(a, library_ops::matrices::kUpper)),
        left_(read(a, library_ops::matrices::kLeft)),
        unit_(read(a, library_ops::matrices::kUnit)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    n_ = this->in(0).rows();
    const BatchOperand& b = this->in(1);
    rows_ = b.rows(), columns_ = b.columns();
    if (this->in(0).columns() != n_ || (left_ ? rows_ : columns_) != n_) this->refuse("sizes do not fit");
    a_ = this->slot(std::int64_t{n_} * n_);
    b_ = this->slot(std::int64_t{rows_} * columns_);
  }
  int one(const typename Base::Item& x) override {
    T* b = x.load(1, x.scratch(b_));
    const T alpha = 1;
    const int lda = leading(n_), ldb = leading(rows_);
    if (rows_ && columns_)
      lapack_.trsm(left_ ? "L" : "R", upper_ ? "U" : "L", "N", unit_ ? "U" : "N", &rows_, &columns_, &alpha,
                   x.load(0, x.scratch(a_)), &lda, b, &ldb, 1, 1, 1, 1);
    x.store(0, b, rows_);
    return 0;
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool upper_, left_, unit_;
  int n_ = 0, rows_ = 0, columns_ = 0;
  typename Base::Slot a_{}, b_{};
};

/// Row exchanges, one after the other, as one permutation.
class LuPermutation : public MatrixBatch<int> {
 public:
  explicit LuPermutation(const Attributes&) : MatrixBatch<int>("lu_permutation", {1}, {1}) {}

 private:
  void setup() override {
    if (in(0).rows() > out(0).rows()) refuse("more exchanges than rows");
    rows_ = slot<std::int64_t>(out(0).rows());
  }
  int one(const Item& x) override {
    auto* rows = x.scratch<std::int64_t>(rows_);
    const int m = out(0).rows();
    std::iota(rows, rows + m, 0);
    const int* pivots = x.input<int>(0);
    for (int i = 0; i < in(0).rows(); ++i) {
      const int other = pivots[i * in(0).row_stride()] - 1;
      if (other < 0 || other >= m) return 1;
      std::swap(rows[i], rows[other]);
    }
    x.fill<std::int64_t>(0, [&](int i, int) { return rows[i]; });
    return 0;
  }
  std::string failure(int) const override { return "lu_unpack: a pivot is no row of the matrix"; }
  Slot rows_{};
};

const DefineLibraryOps kMatrixSolves({{"lu_factor", call_site<ByElementType<LuFactor, Numbers::Both>>},
                                      {"lu_solve", call_site<ByElementType<LuSolve, Numbers::Both>>},
                                      {"lu_permutation", call_site<LuPermutation>},
                                      {"cholesky", call_site<ByElementType<Cholesky, Numbers::Both>>},
                                      {"solve_triangular", call_site<ByElementType<SolveTriangular, Numbers::Both>>},
                                      {"ldl_factor", call_site<ByElementType<LdlFactor, Numbers::Both>>},
                                      {"ldl_solve", call_site<ByElementType<LdlSolve, Numbers::Both>>}});

}  // namespace

}  // namespace coil::runtime
