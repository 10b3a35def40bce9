// LAPACK, opened when a program first needs it: the routines that matrix operations call, by element type, with
// Fortran's conventions (every argument a pointer, matrices column by column, lengths of strings last). OpenBLAS of
// Debian is meant, in the build that runs on OpenMP's threads as the kernels do; any LAPACK with 32-bit integers will
// do.
#pragma once
#include <complex>
#include <cstddef>

namespace coil::runtime {

/// A character argument; its length, 1, follows at the end of the call.
using Letter = const char*;
using Length = std::size_t;

/// What has one form for real and complex matrices; of complex ones `orgqr` and `ormqr` are `ungqr` and `unmqr`.
template <class T>
struct LapackFactors {
  using Int = const int*;
  void (*getrf)(Int m, Int n, T* a, Int lda, int* pivots, int* info) = nullptr;
  void (*getrs)(Letter trans, Int n, Int columns, const T* a, Int lda, Int pivots, T* b, Int ldb, int* info,
                Length) = nullptr;
  void (*potrf)(Letter uplo, Int n, T* a, Int lda, int* info, Length) = nullptr;
  void (*trsm)(Letter side, Letter uplo, Letter trans, Letter diag, Int m, Int n, const T* alpha, const T* a, Int lda,
               T* b, Int ldb, Length, Length, Length, Length) = nullptr;
  void (*sytrf)(Letter uplo, Int n, T* a, Int lda, int* pivots, T* work, Int lwork, int* info, Length) = nullptr;
  void (*sytrs)(Letter uplo, Int n, Int columns, const T* a, Int lda, Int pivots, T* b, Int ldb, int* info,
                Length) = nullptr;
  void (*geqrf)(Int m, Int n, T* a, Int lda, T* tau, T* work, Int lwork, int* info) = nullptr;
  void (*orgqr)(Int m, Int n, Int k, T* a, Int lda, const T* tau, T* work, Int lwork, int* info) = nullptr;
  void (*ormqr)(Letter side, Letter trans, Int m, Int n, Int k, const T* a, Int lda, const T* tau, T* c, Int ldc,
                T* work, Int lwork, int* info, Length, Length) = nullptr;
  void (*gemm)(Letter ta, Letter tb, Int m, Int n, Int k, const T* alpha, const T* a, Int lda, const T* b, Int ldb,
               const T* beta, T* c, Int ldc, Length, Length) = nullptr;
};

template <class T>
struct Lapack : LapackFactors<T> {
  using Int = const int*;
  void (*gesdd)(Letter job, Int m, Int n, T* a, Int lda, T* s, T* u, Int ldu, T* vt, Int ldvt, T* work, Int lwork,
                int* iwork, int* info, Length) = nullptr;
  void (*syevd)(Letter job, Letter uplo, Int n, T* a, Int lda, T* w, T* work, Int lwork, int* iwork, Int liwork,
                int* info, Length, Length) = nullptr;
  void (*geev)(Letter left, Letter right, Int n, T* a, Int lda, T* re, T* im, T* vl, Int ldvl, T* vr, Int ldvr, T* work,
               Int lwork, int* info, Length, Length) = nullptr;
};

template <class R>
struct Lapack<std::complex<R>> : LapackFactors<std::complex<R>> {
  using Int = const int*;
  using T = std::complex<R>;
  void (*hetrf)(Letter uplo, Int n, T* a, Int lda, int* pivots, T* work, Int lwork, int* info, Length) = nullptr;
  void (*hetrs)(Letter uplo, Int n, Int columns, const T* a, Int lda, Int pivots, T* b, Int ldb, int* info,
                Length) = nullptr;
  void (*gesdd)(Letter job, Int m, Int n, T* a, Int lda, R* s, T* u, Int ldu, T* vt, Int ldvt, T* work, Int lwork,
                R* rwork, int* iwork, int* info, Length) = nullptr;
  void (*heevd)(Letter job, Letter uplo, Int n, T* a, Int lda, R* w, T* work, Int lwork, R* rwork, Int lrwork,
                int* iwork, Int liwork, int* info, Length, Length) = nullptr;
  void (*geev)(Letter left, Letter right, Int n, T* a, Int lda, T* w, T* vl, Int ldvl, T* vr, Int ldvr, T* work,
               Int lwork, R* rwork, int* info, Length, Length) = nullptr;
};

/// Throws Error saying what to install when there is none on this machine.
template <class T>
const Lapack<T>& lapack();
template <>
const Lapack<float>& lapack<float>();
template <>
const Lapack<double>& lapack<double>();
template <>
const Lapack<std::complex<float>>& lapack<std::complex<float>>();
template <>
const Lapack<std::complex<double>>& lapack<std::complex<double>>();

}  // namespace coil::runtime
