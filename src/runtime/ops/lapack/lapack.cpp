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

/// Finds the routine of a name for matrices of the type that the letter says.
class Finder {
 public:
  explicit Finder(char letter) : letter_(letter) {}
  template <class F>
  void operator()(F& function, const char* name) const {
    library().find(function, (letter_ + std::string(name) + "_").c_str());
  }

 private:
  char letter_;
};

template <class T>
void find_factors(const Finder& find, LapackFactors<T>& t, const char* orthogonal) {
  find(t.getrf, "getrf");
  find(t.getrs, "getrs");
  find(t.potrf, "potrf");
  find(t.trsm, "trsm");
  find(t.sytrf, "sytrf");
  find(t.sytrs, "sytrs");
  find(t.geqrf, "geqrf");
  find(t.orgqr, (orthogonal + std::string("gqr")).c_str());
  find(t.ormqr, (orthogonal + std::string("mqr")).c_str());
  find(t.gemm, "gemm");
}

template <class T>
Lapack<T> of_real(char letter) {
  Lapack<T> t;
  const Finder find(letter);
  find_factors(find, t, "or");
  find(t.gesdd, "gesdd");
  find(t.syevd, "syevd");
  find(t.geev, "geev");
  return t;
}

template <class T>
Lapack<T> of_complex(char letter) {
  Lapack<T> t;
  const Finder find(letter);
  find_factors(find, t, "un");
  find(t.hetrf, "hetrf");
  find(t.hetrs, "hetrs");
  find(t.gesdd, "gesdd");
  find(t.heevd, "heevd");
  find(t.geev, "geev");
  return t;
}

}  // namespace

template <>
const Lapack<float>& lapack<float>() {
  static const auto t = of_real<float>('s');
  return t;
}

template <>
const Lapack<double>& lapack<double>() {
  static const auto t = of_real<double>('d');
  return t;
}

template <>
const Lapack<std::complex<float>>& lapack<std::complex<float>>() {
  static const auto t = of_complex<std::complex<float>>('c');
  return t;
}

template <>
const Lapack<std::complex<double>>& lapack<std::complex<double>>() {
  static const auto t = of_complex<std::complex<double>>('z');
  return t;
}

}  // namespace coil::runtime
