#include "codegen/backends.h"

#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include "support/error.h"

namespace coil::codegen {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DeviceType, bool>, BackendKind> kinds;

  std::string names() const {
    std::vector<std::string> names;
    for (const auto& [key, kind] : kinds)
      if (!kind.emulated) names.push_back(kind.device.name());
    return fmt::format("{}", fmt::join(names, ", "));
  }
};

Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

void register_backend(BackendKind kind) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const DeviceType device = kind.device;
  if (!r.kinds.emplace(std::pair(device, kind.emulated), std::move(kind)).second)
    fail("there is a backend for '{}' already", device.name());
}

std::unique_ptr<Backend> make_backend(BackendRequest request) {
  BackendFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    const auto found = r.kinds.find({request.device.type, request.device.is_host() && request.settings.emulated_gpu});
    if (found == r.kinds.end()) fail("programs compile for {}, not for {}", r.names(), to_string(request.device));
    make = found->second.make;
  }
  return make(std::move(request));
}

std::string emitted_language(DeviceType device) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto found = r.kinds.find({device, false});
  return found == r.kinds.end() ? std::string() : found->second.language;
}

}  // namespace coil::codegen
