// Compiles kernel text in a test and hands out its functions.
#pragma once
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "codegen/cpp/toolchain.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::test {

using Kernel = void (*)(void* const* buffers, const long* scalars, long begin, long end);

/// A shared object, loaded for as long as this lives.
class KernelLibrary {
 public:
  KernelLibrary(const codegen::Toolchain& toolchain, const std::string& source) {
    std::vector<std::byte> object = codegen::compile_shared(toolchain, std::vector{source})[0];
    int fd = ::memfd_create("kernels", 0);
    COIL_CHECK(fd >= 0 && ::write(fd, object.data(), object.size()) == static_cast<ssize_t>(object.size()));
    handle_ = ::dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = handle_ ? "" : ::dlerror();
    ::close(fd);
    COIL_CHECK(handle_, "{}", error);
  }
  ~KernelLibrary() { ::dlclose(handle_); }
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  Kernel operator[](const std::string& name) const {
    auto kernel = reinterpret_cast<Kernel>(::dlsym(handle_, name.c_str()));
    COIL_CHECK(kernel, "no kernel {}", name);
    return kernel;
  }

 private:
  void* handle_;
};

/// The instruction sets that this machine can run, as `find_toolchain` takes them.
inline std::vector<std::string> runnable_isas() {
  std::vector<std::string> out{"baseline"};
  for (const char* isa : {"avx2", "avx512"}) {
    if (machine_runs(isa)) out.emplace_back(isa);
  }
  return out;
}

}  // namespace coil::test
