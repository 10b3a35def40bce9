#include "codegen/backends.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "support/error.h"

namespace coil::codegen {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DeviceType, std::string>, BackendKind> kinds;

  std::string names() const {
    std::vector<std::string> names;
    for (const auto& [key, kind] : kinds)
      if (kind.emulates.empty()) names.push_back(kind.device.name());
    return fmt::format("{}", fmt::join(names, ", "));
  }
};

Registry& registry() {
  static Registry r;
  return r;
}

/// The device whose kernels the host is to run in place of its own; empty for its own.
std::string emulated(const Settings& settings) {
  if (settings.emulated_gpu && settings.emulated_metal) fail("cuda.emulate and metal.emulate are both set");
  return settings.emulated_gpu ? "cuda" : settings.emulated_metal ? "metal" : "";
}

}  // namespace

void register_backend(BackendKind kind) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const DeviceType device = kind.device;
  if (!r.kinds.emplace(std::pair(device, kind.emulates), std::move(kind)).second)
    fail("there is a backend for '{}' already", device.name());
}

std::unique_ptr<Backend> make_backend(BackendRequest request) {
  BackendFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    const auto found = r.kinds.find({request.device.type, request.device.is_host() ? emulated(request.settings) : ""});
    if (found == r.kinds.end()) fail("programs compile for {}, not for {}", r.names(), to_string(request.device));
    make = found->second.make;
  }
  return make(std::move(request));
}

bool emits(DeviceType device, std::string_view language) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto found = r.kinds.find({device, ""});
  return found != r.kinds.end() && std::ranges::count(found->second.emits, language) > 0;
}

}  // namespace coil::codegen
