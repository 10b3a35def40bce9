// The C functions that libtorch keeps stable for compiled models, found at run time: nothing of torch is linked.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string>

namespace coil::python {

/// A library that this process has loaded already.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const char* name) : library_(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}
  ~LoadedLibrary() {
    if (library_) dlclose(library_);
  }
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  template <class F>
  bool find(const std::string& name, F& function) const {
    function = library_ ? reinterpret_cast<F>(dlsym(library_, name.c_str())) : nullptr;
    return function != nullptr;
  }
  std::optional<std::int32_t> number(const std::string& name) const {
    std::int32_t (*function)() = nullptr;
    if (!find(name, function)) return {};
    return function();
  }

 private:
  void* library_;
};

}  // namespace coil::python
