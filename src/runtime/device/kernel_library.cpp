#include "runtime/device/kernel_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "support/cpu.h"
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
  if (!isa.empty() && !machine_runs(isa))
    fail(
        "the kernels need the instruction set '{}', which this machine ({}) lacks; compile with --set cpu.isa= of this "
        "machine",
        isa, machine_isa());
}

}  // namespace coil::runtime
