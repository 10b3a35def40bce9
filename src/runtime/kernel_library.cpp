#include "runtime/kernel_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "support/error.h"

namespace coil::runtime {
namespace {

void write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot hold a kernel library in memory: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

struct Feature {
  std::string_view name;
  bool (*present)();
};

#if defined(__x86_64__)
constexpr Feature kFeatures[] = {
    {"baseline", [] { return true; }},
    {"sse4.2", [] { return __builtin_cpu_supports("sse4.2") != 0; }},
    {"avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     }},
    {"avx512bf16", [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
    {"avx512vnni", [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
};
#else
constexpr Feature kFeatures[] = {{"baseline", [] { return true; }}};
#endif

}  // namespace

KernelLibrary::KernelLibrary(std::span<const std::byte> binary) {
  file_ = memfd_create("coil_kernels", MFD_CLOEXEC);
  if (file_ < 0) fail("cannot hold a kernel library in memory: {}", std::strerror(errno));
  try {
    write_all(file_, binary);
    handle_ = dlopen(fmt::format("/proc/self/fd/{}", file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) fail("cannot load a kernel library: {}", dlerror());
  } catch (...) {
    ::close(file_);
    throw;
  }
}

KernelLibrary::~KernelLibrary() {
  if (handle_) dlclose(handle_);
  if (file_ >= 0) ::close(file_);
}

KernelLibrary::KernelLibrary(KernelLibrary&& other) noexcept
    : file_(std::exchange(other.file_, -1)), handle_(std::exchange(other.handle_, nullptr)) {}

void* KernelLibrary::find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

void require_isa(const std::string& isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  for (std::string_view rest = isa; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const Feature* feature = nullptr;
    for (const Feature& f : kFeatures)
      if (f.name == name) feature = &f;
    if (!feature) fail("the kernels need the instruction set '{}', which this runtime does not know", name);
    if (!feature->present())
      fail("the kernels need the instruction set '{}', which this machine lacks; compile with --set cpu.isa= of this machine", name);
  }
}

}  // namespace coil::runtime
