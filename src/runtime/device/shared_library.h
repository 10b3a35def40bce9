// Libraries that are opened when they are first needed: a build without them is whole, and only what needs one fails on
// a machine that has none.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace coil::runtime {

class SharedLibrary {
 public:
  /// Opens the first of the names that opens, in each of the folders (`""` is the loader's own path). Throws Error
  /// naming the library (`what`: `LAPACK`) and the way out (`advice`).
  SharedLibrary(std::string_view what, std::span<const char* const> names, std::span<const char* const> folders,
                std::string_view advice);

  /// Throws Error when the library has no such function.
  template <class F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;
  std::string what_;
  void* handle_ = nullptr;  // never closed: these libraries keep threads and contexts of their own
};

}  // namespace coil::runtime
