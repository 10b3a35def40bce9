#include "runtime/ops/lapack/lapack.h"

#include <string>
#include <type_traits>

#include "runtime/device/shared_library.h"

namespace coil::runtime {
namespace {

const SharedLibrary& library() {
  static const SharedLibrary opened = [] {
    constexpr const char* kNames[] = {"libopenblas.so.0", "liblapack.so.3", "libopenblas.so"};
    constexpr const char* kFolders[] = {""};
    return SharedLibrary("LAPACK", kNames, kFolders,
                         "matrices are factored by it: install Debian's libopenblas0-openmp, or add the library's "
                         "folder to LD_LIBRARY_PATH");
  }();
  return opened;
}

/// The routines for matrices of the type that the letter says.
template <class T>
Lapack<T> routines(char letter) {
  constexpr bool kComplex = !std::is_floating_point_v<T>;
  Lapack<T> t;
  auto find = [&](auto& function, const char* name) {
    library().find(function, (letter + std::string(name) + "_").c_str());
  };
  find(t.getrf, "getrf");
  find(t.getrs, "getrs");
  find(t.potrf, "potrf");
  find(t.trsm, "trsm");
  find(t.sytrf, "sytrf");
  find(t.sytrs, "sytrs");
  find(t.geqrf, "geqrf");
  find(t.orgqr, kComplex ? "ungqr" : "orgqr");
  find(t.ormqr, kComplex ? "unmqr" : "ormqr");
  find(t.gesdd, "gesdd");
  find(t.geev, "geev");
  find(t.gemm, "gemm");
  if constexpr (kComplex) {
    find(t.hetrf, "hetrf");
    find(t.hetrs, "hetrs");
    find(t.heevd, "heevd");
  } else {
    find(t.syevd, "syevd");
  }
  return t;
}

}  // namespace

template <>
const Lapack<float>& lapack<float>() {
  static const auto t = routines<float>('s');
  return t;
}

template <>
const Lapack<double>& lapack<double>() {
  static const auto t = routines<double>('d');
  return t;
}

template <>
const Lapack<std::complex<float>>& lapack<std::complex<float>>() {
  static const auto t = routines<std::complex<float>>('c');
  return t;
}

template <>
const Lapack<std::complex<double>>& lapack<std::complex<double>>() {
  static const auto t = routines<std::complex<double>>('z');
  return t;
}

}  // namespace coil::runtime
