#include "runtime/groups/process_group.h"

#include <map>
#include <mutex>

#include "support/error.h"

namespace coil::runtime::groups {
namespace {

struct Backends {
  std::mutex mutex;
  std::map<std::string, std::pair<CheckBackend, JoinBackend>> by_name;
  std::map<DeviceType, std::string> of_device;
};

Backends& backends() {
  static Backends b;
  return b;
}

std::pair<CheckBackend, JoinBackend> backend(const std::string& name) {
  Backends& b = backends();
  const std::lock_guard lock(b.mutex);
  if (const auto found = b.by_name.find(name); found != b.by_name.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, made] : b.by_name) names.push_back(known);
  fail("there is no backend '{}' for process groups; there are: {}", name, fmt::join(names, ", "));
}

}  // namespace

void define_backend(std::string name, CheckBackend check, JoinBackend join) {
  Backends& b = backends();
  const std::lock_guard lock(b.mutex);
  b.by_name.insert_or_assign(std::move(name), std::pair(std::move(check), std::move(join)));
}

std::string backend_of(DeviceType device) {
  Backends& b = backends();
  const std::lock_guard lock(b.mutex);
  const auto found = b.of_device.find(device);
  if (found == b.of_device.end()) fail("this runtime exchanges no values on {}", device.name());
  return found->second;
}

void define_backend_of(DeviceType device, std::string name) {
  Backends& b = backends();
  const std::lock_guard lock(b.mutex);
  b.of_device.insert_or_assign(device, std::move(name));
}

void check_backend(const std::string& name) { backend(name).first(); }

std::shared_ptr<ProcessGroup> join(const GroupOptions& options) { return backend(options.backend).second(options); }

}  // namespace coil::runtime::groups
