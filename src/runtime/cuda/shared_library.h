// NVIDIA's libraries, opened when they are first needed, so that a build without CUDA is whole.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace coil::runtime::cuda {

class SharedLibrary {
 public:
  /// The first of the names that opens, in the loader's path and in CUDA's usual folder. Throws Error naming the library (`what`: `cuBLASLt`) and how to make it found.
  SharedLibrary(std::string_view what, std::span<const char* const> names);

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

}  // namespace coil::runtime::cuda
