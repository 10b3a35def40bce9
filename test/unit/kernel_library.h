// Compiles kernel text in a test and hands out its functions.
#pragma once
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
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
    // The descriptor stays open: dlopen takes a path that it knows for the library that it loaded from there.
    fd_ = ::memfd_create("kernels", 0);
    COIL_CHECK(fd_ >= 0 && ::write(fd_, object.data(), object.size()) == static_cast<ssize_t>(object.size()));
    handle_ = ::dlopen(("/proc/self/fd/" + std::to_string(fd_)).c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = handle_ ? "" : ::dlerror();
    COIL_CHECK(handle_, "{}", error);
  }
  ~KernelLibrary() {
    ::dlclose(handle_);
    ::close(fd_);
  }
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  Kernel operator[](const std::string& name) const {
    auto kernel = reinterpret_cast<Kernel>(::dlsym(handle_, name.c_str()));
    COIL_CHECK(kernel, "no kernel {}", name);
    return kernel;
  }

 private:
  int fd_;
  void* handle_;
};

/// The instruction sets that kernel tests run on, as `find_toolchain` takes them: this machine's own; with
/// COIL_TEST_ISAS=all in the environment also the lesser ones, which take as long again each.
inline std::vector<std::string> tested_isas() {
  std::vector<std::string> out{"native"};
  const char* wish = std::getenv("COIL_TEST_ISAS");
  if (!wish || std::string(wish) != "all") return out;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (machine_runs(isa)) out.emplace_back(isa);
  }
  return out;
}

}  // namespace coil::test
