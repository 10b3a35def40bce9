#include "runtime/device/library.h"

#include <map>
#include <mutex>

#include "runtime/device/device.h"
#include "runtime/device/host_detour.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// The operations of this process. Those that the runtime itself brings are defined when the process starts, by the
/// files that hold their tables; callers may define others.
struct Registry {
  std::mutex mutex;
  std::map<std::string, LibraryFactory, std::less<>> on_cpu;
  std::map<std::pair<DeviceType, std::string>, QueueLibraryFactory> elsewhere;
};

Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

std::unique_ptr<LibraryOp> make_library_op(std::string_view op, const Attributes& attributes) {
  LibraryFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    if (auto found = r.on_cpu.find(op); found != r.on_cpu.end()) make = found->second;
  }
  if (!make) fail("this runtime has no library operation '{}'", op);
  return make(attributes);
}

std::unique_ptr<LibraryOp> make_library_op(Queue& queue, std::string_view op, const Attributes& attributes) {
  QueueLibraryFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    if (auto found = r.elsewhere.find({queue.device().type, std::string(op)}); found != r.elsewhere.end())
      make = found->second;
  }
  if (make) return make(attributes, queue);
  if (leaves_to_host(op, queue.device().type)) return make_host_detour(queue, op, attributes);
  fail("this runtime has no library operation '{}' on {}", op, to_string(queue.device()));
}

bool leaves_to_host(std::string_view op, DeviceType device) {
  return device != DeviceType::CPU && takes_detour(op) && !has_library_op(op, device) && has_library_op(op);
}

bool carries_out(std::string_view op, DeviceType device) {
  return has_library_op(op, device) || leaves_to_host(op, device);
}

bool has_library_op(std::string_view op, DeviceType device) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return device == DeviceType::CPU ? r.on_cpu.contains(op) : r.elsewhere.contains({device, std::string(op)});
}

void define_library_op(std::string_view op, LibraryFactory make) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.on_cpu.insert_or_assign(std::string(op), std::move(make));
}

void define_library_op(DeviceType device, std::string_view op, QueueLibraryFactory make) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.elsewhere.insert_or_assign({device, std::string(op)}, std::move(make));
}

}  // namespace coil::runtime
