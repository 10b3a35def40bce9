#include "runtime/cuda/driver/driver.h"

#include <dlfcn.h>

#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr int kOldestVersion = 12000;  // the oldest driver that the kernels' launch and graph functions are known from

}  // namespace

std::shared_ptr<const Driver> Driver::open(const std::string& library) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver->library_) {
    const char* reason = dlerror();
    fail("no CUDA driver on this machine: {}; install NVIDIA's driver, or use --device cpu",
         reason ? reason : "it cannot be opened");
  }
#define X(name, symbol, parameters)                                                       \
  driver->name = reinterpret_cast<Result(*) parameters>(dlsym(driver->library_, symbol)); \
  if (!driver->name) fail("the CUDA driver is too old: it has no {}; version 12.0 is the oldest that works", symbol);
  COIL_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, parameters) \
  driver->name = reinterpret_cast<Result(*) parameters>(dlsym(driver->library_, symbol));
  COIL_CUDA_DRIVER_OPTIONAL(X)
#undef X
  const Result started = driver->init(0);
  if (started == kNoDevice) fail("the CUDA driver finds no device on this machine");
  driver->check(started, "start");
  driver->check(driver->driver_version(&driver->version_), "tell its version");
  if (driver->version_ < kOldestVersion)
    fail("the CUDA driver is too old: it supports CUDA {}.{}, and 12.0 is the oldest that works",
         driver->version_ / 1000, driver->version_ % 1000 / 10);
  return driver;
}

Driver::~Driver() {
  // libcuda does not like to be unloaded while its threads live, so it stays.
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  return fmt::format("{}: {}", name ? name : fmt::format("error {}", result), text ? text : "unknown");
}

void Driver::refuse(Result result, const char* what) const { fail("CUDA cannot {}: {}", what, describe(result)); }

}  // namespace coil::runtime::cuda
