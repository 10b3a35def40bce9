#include "runtime/ops/lapack/lapack.h"

#include <string>

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

template <class T>
Lapack<T> all(char letter) {
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
  find(t.orgqr, "orgqr");
  find(t.ormqr, "ormqr");
  find(t.gesdd, "gesdd");
  find(t.syevd, "syevd");
  find(t.geev, "geev");
  find(t.gemm, "gemm");
  return t;
}

}  // namespace

template <>
const Lapack<float>& lapack<float>() {
  static const Lapack<float> t = all<float>('s');
  return t;
}

template <>
const Lapack<double>& lapack<double>() {
  static const Lapack<double> t = all<double>('d');
  return t;
}

}  // namespace coil::runtime
