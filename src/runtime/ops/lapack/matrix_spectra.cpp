// Orthogonal factors of matrices, singular values and eigenvalues.
#include <cmath>

#include "library_ops/matrices.h"
#include "runtime/device/library.h"
#include "runtime/ops/lapack/matrix_batch.h"

namespace coil::runtime {
namespace {

using Ranks = std::vector<std::size_t>;

template <class T>
int geqrf_work(const Lapack<T>& lapack, int m, int n) {
  const int lda = leading(m), query = -1;
  int info = 0;
  T told = 1;
  lapack.geqrf(&m, &n, nullptr, &lda, nullptr, &told, &query, &info);
  return work_size(told);
}

template <class T>
int orgqr_work(const Lapack<T>& lapack, int m, int n, int k) {
  const int lda = leading(m), query = -1;
  int info = 0;
  T told = 1;
  lapack.orgqr(&m, &n, &k, nullptr, &lda, nullptr, &told, &query, &info);
  return work_size(told);
}

template <class T>
class Qr : public MatrixBatch<T> {
 public:
  explicit Qr(const Attributes& a)
      : MatrixBatch<T>("qr", {2}, read(a, library_ops::matrices::kROnly) ? Ranks{2} : Ranks{2, 2}),
        r_only_(read(a, library_ops::matrices::kROnly)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    m_ = this->in(0).rows(), n_ = this->in(0).columns();
    k_ = std::min(m_, n_);
    q_ = r_only_ ? 0 : this->out(0).columns();
    lwork_ = k_ ? geqrf_work(lapack_, m_, n_) : 1;
    if (q_ && k_) lwork_ = std::max(lwork_, orgqr_work(lapack_, m_, q_, k_));
    a_ = this->slot(std::int64_t{m_} * std::max(n_, q_));
    tau_ = this->slot(k_);
    work_ = this->slot(lwork_);
  }
  int one(const typename Base::Item& x) override {
    T *a = x.load(0, x.scratch(a_)), *tau = x.scratch(tau_), *work = x.scratch(work_);
    int info = 0;
    const int lda = leading(m_);
    const std::ptrdiff_t m = m_;
    if (k_) lapack_.geqrf(&m_, &n_, a, &lda, tau, work, &lwork_, &info);
    x.fill(r_only_ ? 0 : 1, [&](int i, int j) { return i > j ? T(0) : a[j * m + i]; });
    if (r_only_ || info) return info;
    if (k_) lapack_.orgqr(&m_, &q_, &k_, a, &lda, tau, work, &lwork_, &info);
    x.fill(0, [&](int i, int j) { return k_ ? a[j * m + i] : T(i == j); });
    return info;
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool r_only_;
  int m_ = 0, n_ = 0, k_ = 0, q_ = 0, lwork_ = 1;
  typename Base::Slot a_{}, tau_{}, work_{};
};

template <class T>
class Geqrf : public MatrixBatch<T> {
 public:
  explicit Geqrf(const Attributes&) : MatrixBatch<T>("geqrf", {2}, {2, 1}) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    m_ = this->in(0).rows(), n_ = this->in(0).columns();
    lwork_ = m_ && n_ ? geqrf_work(lapack_, m_, n_) : 1;
    a_ = this->slot(std::int64_t{m_} * n_);
    tau_ = this->slot(std::min(m_, n_));
    work_ = this->slot(lwork_);
  }
  int one(const typename Base::Item& x) override {
    T *a = x.load(0, x.scratch(a_)), *tau = x.scratch(tau_);
    int info = 0;
    const int lda = leading(m_);
    if (m_ && n_) lapack_.geqrf(&m_, &n_, a, &lda, tau, x.scratch(work_), &lwork_, &info);
    x.store(0, a, m_);
    x.fill(1, [&](int i, int) { return tau[i]; });
    return info;
  }
  const Lapack<T>& lapack_ = lapack<T>();
  int m_ = 0, n_ = 0, lwork_ = 1;
  typename Base::Slot a_{}, tau_{}, work_{};
};

template <class T>
class HouseholderProduct : public MatrixBatch<T> {
 public:
  explicit HouseholderProduct(const Attributes&) : MatrixBatch<T>("householder_product", {2, 1}, {2}) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    m_ = this->in(0).rows(), n_ = this->in(0).columns(), k_ = this->in(1).rows();
    if (m_ < n_ || n_ < k_) this->refuse("sizes do not fit");
    lwork_ = n_ ? orgqr_work(lapack_, m_, n_, k_) : 1;
    a_ = this->slot(std::int64_t{m_} * n_);
    tau_ = this->slot(k_);
    work_ = this->slot(lwork_);
  }
  int one(const typename Base::Item& x) override {
    T *a = x.load(0, x.scratch(a_)), *tau = x.load(1, x.scratch(tau_));
    int info = 0;
    const int lda = leading(m_);
    if (n_) lapack_.orgqr(&m_, &n_, &k_, a, &lda, tau, x.scratch(work_), &lwork_, &info);
    x.store(0, a, m_);
    return info;
  }
  const Lapack<T>& lapack_ = lapack<T>();
  int m_ = 0, n_ = 0, k_ = 0, lwork_ = 1;
  typename Base::Slot a_{}, tau_{}, work_{};
};

template <class T>
class Ormqr : public MatrixBatch<T> {
 public:
  explicit Ormqr(const Attributes& a)
      : MatrixBatch<T>("ormqr", {2, 1, 2}, {2}),
        left_(read(a, library_ops::matrices::kLeft)),
        transpose_(read(a, library_ops::matrices::kTranspose)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    p_ = this->in(0).rows(), k_ = this->in(1).rows(), m_ = this->in(2).rows(), n_ = this->in(2).columns();
    if ((left_ ? m_ : n_) != p_ || this->in(0).columns() < k_ || p_ < k_) this->refuse("sizes do not fit");
    if (m_ && n_) call(nullptr, nullptr, nullptr, &told_, -1);
    lwork_ = work_size(told_);
    a_ = this->slot(std::int64_t{p_} * this->in(0).columns());
    tau_ = this->slot(k_);
    c_ = this->slot(std::int64_t{m_} * n_);
    work_ = this->slot(lwork_);
  }
  int call(const T* a, const T* tau, T* c, T* work, int lwork) {
    int info = 0;
    const int lda = leading(p_), ldc = leading(m_);
    lapack_.ormqr(left_ ? "L" : "R", transpose_ ? (kIsComplex<T> ? "C" : "T") : "N", &m_, &n_, &k_, a, &lda, tau, c,
                  &ldc, work, &lwork, &info, 1, 1);
    return info;
  }
  int one(const typename Base::Item& x) override {
    T* c = x.load(2, x.scratch(c_));
    const int info =
        m_ && n_ ? call(x.load(0, x.scratch(a_)), x.load(1, x.scratch(tau_)), c, x.scratch(work_), lwork_) : 0;
    x.store(0, c, m_);
    return info;
  }
  const Lapack<T>& lapack_ = lapack<T>();
  bool left_, transpose_;
  int p_ = 0, k_ = 0, m_ = 0, n_ = 0, lwork_ = 1;
  T told_ = 1;
  typename Base::Slot a_{}, tau_{}, c_{}, work_{};
};

constexpr const char* kNotConverged =
    "the algorithm did not converge: the matrix holds what is not finite, or has too many repeated values";

/// Numbers of the work array of reals that a complex matrix's values take, and its vectors.
std::int64_t svd_reals(std::int64_t m, std::int64_t n, bool values_only) {
  const std::int64_t least = std::min(m, n), most = std::max(m, n);
  return values_only ? 7 * least : std::max(5 * least * least + 7 * least, 2 * (most + least) * least + least);
}

template <class T>
class Svd : public MatrixBatch<T> {
 public:
  explicit Svd(const Attributes& a)
      : MatrixBatch<T>("svd", {2}, read(a, library_ops::matrices::kValuesOnly) ? Ranks{1} : Ranks{2, 1, 2}),
        values_only_(read(a, library_ops::matrices::kValuesOnly)) {}

 private:
  using Base = MatrixBatch<T>;
  using Real = RealOf<T>;
  void setup() override {
    m_ = this->in(0).rows(), n_ = this->in(0).columns();
    k_ = std::min(m_, n_);
    const int columns = values_only_ ? 0 : this->out(0).columns();
    rows_ = values_only_ ? 0 : this->out(2).rows();
    if (!values_only_ && !(columns == k_ && rows_ == k_) && !(columns == m_ && rows_ == n_))
      this->refuse("sizes do not fit");
    job_ = values_only_ ? "N" : columns == k_ && rows_ == k_ ? "S" : "A";
    if (k_) call(nullptr, nullptr, nullptr, nullptr, &told_, -1, nullptr, nullptr);
    lwork_ = work_size(told_);
    a_ = this->slot(std::int64_t{m_} * n_);
    s_ = this->template slot<Real>(k_);
    u_ = this->slot(std::int64_t{m_} * columns);
    vh_ = this->slot(std::int64_t{rows_} * n_);
    work_ = this->slot(lwork_);
    rwork_ = this->template slot<Real>(kIsComplex<T> ? svd_reals(m_, n_, values_only_) : 0);
    iwork_ = this->template slot<int>(std::int64_t{8} * k_);
  }
  int call(T* a, Real* s, T* u, T* vh, T* work, int lwork, [[maybe_unused]] Real* rwork, int* iwork) {
    int info = 0;
    const int lda = leading(m_), ldv = leading(rows_);
    if constexpr (kIsComplex<T>)
      lapack_.gesdd(job_, &m_, &n_, a, &lda, s, u, &lda, vh, &ldv, work, &lwork, rwork, iwork, &info, 1);
    else
      lapack_.gesdd(job_, &m_, &n_, a, &lda, s, u, &lda, vh, &ldv, work, &lwork, iwork, &info, 1);
    return info;
  }
  int one(const typename Base::Item& x) override {
    Real* s = x.template scratch<Real>(s_);
    T *u = x.scratch(u_), *vh = x.scratch(vh_);
    if (k_) {
      T* a = x.load(0, x.scratch(a_));
      for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{m_} * n_; ++i)
        if (!is_finite(a[i])) return 1;  // versions of LAPACK differ in what they do then
      if (int info = call(a, s, u, vh, x.scratch(work_), lwork_, x.template scratch<Real>(rwork_),
                          x.template scratch<int>(iwork_)))
        return info;
    }
    x.template fill<Real>(values_only_ ? 0 : 1, [&](int i, int) { return s[i]; });
    if (values_only_) return 0;
    const std::ptrdiff_t m = m_, rows = rows_;
    x.fill(0, [&](int i, int j) { return k_ ? u[j * m + i] : T(i == j); });
    x.fill(2, [&](int i, int j) { return k_ ? vh[j * rows + i] : T(i == j); });
    return 0;
  }
  std::string failure(int) const override { return fmt::format("linalg.svd: {}", kNotConverged); }
  const Lapack<T>& lapack_ = lapack<T>();
  bool values_only_;
  const char* job_ = "N";
  int m_ = 0, n_ = 0, k_ = 0, rows_ = 0, lwork_ = 1;
  T told_ = 1;
  typename Base::Slot a_{}, s_{}, u_{}, vh_{}, work_{}, rwork_{}, iwork_{};
};

template <class T>
class Eigh : public MatrixBatch<T> {
 public:
  explicit Eigh(const Attributes& a)
      : MatrixBatch<T>("eigh", {2}, read(a, library_ops::matrices::kValuesOnly) ? Ranks{1} : Ranks{1, 2}),
        values_only_(read(a, library_ops::matrices::kValuesOnly)),
        upper_(read(a, library_ops::matrices::kUpper)) {}

 private:
  using Base = MatrixBatch<T>;
  using Real = RealOf<T>;
  void setup() override {
    n_ = this->in(0).rows();
    int itold = 1;
    Real rtold = 1;
    if (n_) call(nullptr, nullptr, {&told_, -1, &rtold, -1, &itold, -1});
    lwork_ = work_size(told_), lrwork_ = work_size(rtold), liwork_ = std::max(1, itold);
    a_ = this->slot(std::int64_t{n_} * n_);
    w_ = this->template slot<Real>(n_);
    work_ = this->slot(lwork_);
    rwork_ = this->template slot<Real>(kIsComplex<T> ? lrwork_ : 0);
    iwork_ = this->template slot<int>(liwork_);
  }
  /// Work arrays and their sizes; of real matrices LAPACK takes no `reals`.
  struct Work {
    T* numbers;
    int count;
    Real* reals;
    int real_count;
    int* integers;
    int integer_count;
  };
  int call(T* a, Real* w, const Work& work) {
    int info = 0;
    const int lda = leading(n_);
    const char *job = values_only_ ? "N" : "V", *side = upper_ ? "U" : "L";
    if constexpr (kIsComplex<T>)
      lapack_.heevd(job, side, &n_, a, &lda, w, work.numbers, &work.count, work.reals, &work.real_count, work.integers,
                    &work.integer_count, &info, 1, 1);
    else
      lapack_.syevd(job, side, &n_, a, &lda, w, work.numbers, &work.count, work.integers, &work.integer_count, &info, 1,
                    1);
    return info;
  }
  int one(const typename Base::Item& x) override {
    T* a = x.load(0, x.scratch(a_));
    Real* w = x.template scratch<Real>(w_);
    const Work work{
        x.scratch(work_), lwork_, x.template scratch<Real>(rwork_), lrwork_, x.template scratch<int>(iwork_), liwork_};
    if (n_)
      if (int info = call(a, w, work)) return info;
    x.template fill<Real>(0, [&](int i, int) { return w[i]; });
    if (!values_only_) x.store(1, a, n_);
    return 0;
  }
  std::string failure(int) const override { return fmt::format("linalg.eigh: {}", kNotConverged); }
  const Lapack<T>& lapack_ = lapack<T>();
  bool values_only_, upper_;
  int n_ = 0, lwork_ = 1, lrwork_ = 1, liwork_ = 1;
  T told_ = 1;
  typename Base::Slot a_{}, w_{}, work_{}, rwork_{}, iwork_{};
};

template <class T>
class Eig : public MatrixBatch<T> {
 public:
  explicit Eig(const Attributes& a)
      : MatrixBatch<T>("eig", {2}, read(a, library_ops::matrices::kValuesOnly) ? Ranks{1, 1} : Ranks{1, 1, 2, 2}),
        values_only_(read(a, library_ops::matrices::kValuesOnly)) {}

 private:
  using Base = MatrixBatch<T>;
  void setup() override {
    n_ = this->in(0).rows();
    if (n_) call(nullptr, nullptr, nullptr, nullptr, &told_, -1);
    lwork_ = work_size(told_);
    a_ = this->slot(std::int64_t{n_} * n_);
    w_ = this->slot(std::int64_t{2} * n_);
    v_ = this->slot(values_only_ ? 0 : std::int64_t{n_} * n_);
    work_ = this->slot(lwork_);
  }
  int call(T* a, T* re, T* im, T* v, T* work, int lwork) {
    int info = 0;
    const int ld = leading(n_);
    lapack_.geev("N", values_only_ ? "N" : "V", &n_, a, &ld, re, im, nullptr, &ld, v, &ld, work, &lwork, &info, 1, 1);
    return info;
  }
  int one(const typename Base::Item& x) override {
    T *a = x.load(0, x.scratch(a_)), *re = x.scratch(w_), *im = re + n_, *v = x.scratch(v_);
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{n_} * n_; ++i)
      if (!std::isfinite(a[i])) return 1;
    if (n_)
      if (int info = call(a, re, im, v, x.scratch(work_), lwork_)) return info;
    x.fill(0, [&](int i, int) { return re[i]; });
    x.fill(1, [&](int i, int) { return im[i]; });
    if (values_only_) return 0;
    // Conjugate pairs stand side by side: the first column holds the real parts of both vectors, the second the
    // imaginary ones.
    const std::ptrdiff_t n = n_;
    x.fill(2, [&](int i, int j) { return v[(im[j] < 0 ? j - 1 : j) * n + i]; });
    x.fill(3, [&](int i, int j) { return im[j] > 0 ? v[(j + 1) * n + i] : im[j] < 0 ? -v[j * n + i] : T(0); });
    return 0;
  }
  std::string failure(int) const override { return fmt::format("linalg.eig: {}", kNotConverged); }
  const Lapack<T>& lapack_ = lapack<T>();
  bool values_only_;
  int n_ = 0, lwork_ = 1;
  T told_ = 1;
  typename Base::Slot a_{}, w_{}, v_{}, work_{};
};

template <class T>
class EigComplex : public MatrixBatch<T> {
 public:
  explicit EigComplex(const Attributes& a)
      : MatrixBatch<T>("eig_complex", {2}, read(a, library_ops::matrices::kValuesOnly) ? Ranks{1} : Ranks{1, 2}),
        values_only_(read(a, library_ops::matrices::kValuesOnly)) {}

 private:
  using Base = MatrixBatch<T>;
  using Real = RealOf<T>;
  void setup() override {
    n_ = this->in(0).rows();
    Real rtold = 1;
    if (n_) call(nullptr, nullptr, nullptr, &told_, -1, &rtold);
    lwork_ = work_size(told_);
    a_ = this->slot(std::int64_t{n_} * n_);
    w_ = this->slot(n_);
    v_ = this->slot(values_only_ ? 0 : std::int64_t{n_} * n_);
    work_ = this->slot(lwork_);
    rwork_ = this->template slot<Real>(std::int64_t{2} * n_);
  }
  int call(T* a, T* w, T* v, T* work, int lwork, Real* rwork) {
    int info = 0;
    const int ld = leading(n_);
    lapack_.geev("N", values_only_ ? "N" : "V", &n_, a, &ld, w, nullptr, &ld, v, &ld, work, &lwork, rwork, &info, 1, 1);
    return info;
  }
  int one(const typename Base::Item& x) override {
    T *a = x.load(0, x.scratch(a_)), *w = x.scratch(w_), *v = x.scratch(v_);
    if (!std::all_of(a, a + std::ptrdiff_t{n_} * n_, is_finite<T>)) return 1;
    if (n_)
      if (int info = call(a, w, v, x.scratch(work_), lwork_, x.template scratch<Real>(rwork_))) return info;
    x.fill(0, [&](int i, int) { return w[i]; });
    if (!values_only_) x.store(1, v, n_);
    return 0;
  }
  std::string failure(int) const override { return fmt::format("linalg.eig: {}", kNotConverged); }
  const Lapack<T>& lapack_ = lapack<T>();
  bool values_only_;
  int n_ = 0, lwork_ = 1;
  T told_ = 1;
  typename Base::Slot a_{}, w_{}, v_{}, work_{}, rwork_{};
};

/// exp(A) = (r(A / 2^s))^(2^s) with the [13/13] Padé approximant r (Higham, "The Scaling and Squaring Method for the
/// Matrix Exponential Revisited", 2005).
template <class T>
class MatrixExp : public MatrixBatch<T> {
 public:
  explicit MatrixExp(const Attributes&) : MatrixBatch<T>("matrix_exp", {2}, {2}) {}

 private:
  using Base = MatrixBatch<T>;
  static constexpr int kMatrices = 7;
  static constexpr double kTheta = 5.371920351148152;
  static constexpr double kPade[] = {64764752532480000,
                                     32382376266240000,
                                     7771770303897600,
                                     1187353796428800,
                                     129060195264000,
                                     10559470521600,
                                     670442572800,
                                     33522128640,
                                     1323241920,
                                     40840800,
                                     960960,
                                     16380,
                                     182,
                                     1};

  void setup() override {
    n_ = this->in(0).rows();
    if (this->in(0).columns() != n_) this->refuse("takes square matrices");
    scratch_ = this->template slot<double>(std::int64_t{kMatrices} * n_ * n_);
    pivots_ = this->template slot<int>(n_);
  }
  void product(const double* a, const double* b, double* c) const {
    const double one = 1, zero = 0;
    lapack_.gemm("N", "N", &n_, &n_, &n_, &one, a, &n_, b, &n_, &zero, c, &n_, 1, 1);
  }
  int one(const typename Base::Item& x) override {
    if (n_ == 0) return 0;
    const std::ptrdiff_t n = n_, count = n * n;
    double* at[kMatrices];
    for (int i = 0; i < kMatrices; ++i) at[i] = x.template scratch<double>(scratch_) + i * count;
    auto& [a, a2, a4, a6, u, v, t] = at;
    const T* from = x.input(0);
    double norm = 0;
    for (int j = 0; j < n_; ++j) {
      double sum = 0;
      for (int i = 0; i < n_; ++i)
        sum += std::fabs(a[j * n + i] =
                             static_cast<double>(from[i * this->in(0).row_stride() + j * this->in(0).column_stride()]));
      norm = norm < sum || std::isnan(sum) ? sum : norm;
    }
    if (!std::isfinite(norm)) {
      x.fill(0, [](int, int) { return std::numeric_limits<T>::quiet_NaN(); });
      return 0;
    }
    const int squarings = norm > kTheta ? std::max(0, static_cast<int>(std::ceil(std::log2(norm / kTheta)))) : 0;
    const double scale = std::ldexp(1.0, -squarings);
    for (std::ptrdiff_t i = 0; i < count; ++i) a[i] *= scale;
    product(a, a, a2);
    product(a2, a2, a4);
    product(a4, a2, a6);
    const auto& b = kPade;
    auto sum_of = [&](double* to, double c6, double c4, double c2, double c0) {
      for (std::ptrdiff_t i = 0; i < count; ++i)
        to[i] = c6 * a6[i] + c4 * a4[i] + c2 * a2[i] + (i % (n + 1) == 0 ? c0 : 0);
    };
    // U = A (A6 (b13 A6 + b11 A4 + b9 A2) + b7 A6 + b5 A4 + b3 A2 + b1), V = A6 (b12 A6 + b10 A4 + b8 A2) + b6 A6 + b4
    // A4 + b2 A2 + b0
    sum_of(t, b[13], b[11], b[9], 0);
    product(a6, t, v);
    sum_of(t, b[7], b[5], b[3], b[1]);
    for (std::ptrdiff_t i = 0; i < count; ++i) t[i] += v[i];
    product(a, t, u);
    sum_of(t, b[12], b[10], b[8], 0);
    product(a6, t, v);
    sum_of(t, b[6], b[4], b[2], b[0]);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      v[i] += t[i];
      t[i] = v[i] - u[i];
      v[i] += u[i];
    }
    int info = 0;
    int* pivots = x.template scratch<int>(pivots_);
    lapack_.getrf(&n_, &n_, t, &n_, pivots, &info);
    if (info) return info;
    lapack_.getrs("N", &n_, &n_, t, &n_, pivots, v, &n_, &info, 1);
    double *result = v, *other = u;
    for (int s = 0; s < squarings; ++s) {
      product(result, result, other);
      std::swap(result, other);
    }
    x.fill(0, [&](int i, int j) { return static_cast<T>(result[j * n + i]); });
    return info;
  }
  const Lapack<double>& lapack_ = lapack<double>();
  int n_ = 0;
  typename Base::Slot scratch_{}, pivots_{};
};

const DefineLibraryOps kMatrixSpectra({{"qr", call_site<ByElementType<Qr, Numbers::Both>>},
                                       {"geqrf", call_site<ByElementType<Geqrf, Numbers::Both>>},
                                       {"householder_product",
                                        call_site<ByElementType<HouseholderProduct, Numbers::Both>>},
                                       {"ormqr", call_site<ByElementType<Ormqr, Numbers::Both>>},
                                       {"svd", call_site<ByElementType<Svd, Numbers::Both>>},
                                       {"eigh", call_site<ByElementType<Eigh, Numbers::Both>>},
                                       {"eig", call_site<ByElementType<Eig>>},
                                       {"eig_complex", call_site<ByElementType<EigComplex, Numbers::Complex>>},
                                       {"matrix_exp", call_site<ByElementType<MatrixExp>>}});

}  // namespace

}  // namespace coil::runtime
