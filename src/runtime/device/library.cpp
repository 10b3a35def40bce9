#include "runtime/device/library.h"

#include <map>
#include <mutex>

#include "library_ops/check.h"
#include "library_ops/table.h"
#include "runtime/device/device.h"
#include "runtime/device/host_call_site.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// The operations of this process. Those that the runtime itself brings are defined when the process starts, by the
/// files that hold their tables; callers may define others.
struct Registry {
  std::mutex mutex;
  std::map<std::string, LibraryFactory, std::less<>> on_host;
  std::map<std::pair<DeviceType, std::string>, QueueLibraryFactory> on_device;  ///< those of the host as well
};

Registry& registry() {
  static Registry r;
  return r;
}

/// An operation that nobody has described takes anything.
void describe(std::string_view op) {
  if (!library_ops::find(op)) library_ops::define({.name = std::string(op), .sentence = {}, .open = true});
}

}  // namespace

std::unique_ptr<LibraryOp> make_library_op(std::string_view op, const Attributes& attributes) {
  LibraryFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    if (auto found = r.on_host.find(op); found != r.on_host.end()) make = found->second;
  }
  if (!make) fail("this runtime has no library operation '{}'", op);
  library_ops::check_attributes(library_ops::get(op), attributes);
  return make(attributes);
}

std::unique_ptr<LibraryOp> make_library_op(Queue& queue, std::string_view op, const Attributes& attributes) {
  QueueLibraryFactory make;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    if (auto found = r.on_device.find({queue.device().type, std::string(op)}); found != r.on_device.end())
      make = found->second;
  }
  if (make) {
    library_ops::check_attributes(library_ops::get(op), attributes);
    return make(attributes, queue);
  }
  if (carries_out(op, queue.device().type)) return make_host_call_site(queue, op, attributes);
  fail("this runtime has no library operation '{}' on {}", op, to_string(queue.device()));
}

bool carries_out(std::string_view op, DeviceType device) {
  return has_library_op(op, device) || (has_library_op(op) && library_ops::works_on_copies(op));
}

bool has_library_op(std::string_view op, DeviceType device) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.on_device.contains({device, std::string(op)});
}

void define_library_op(library_ops::Descriptor description, LibraryFactory make) {
  const std::string op = description.name;
  library_ops::define(std::move(description));
  define_library_op(op, std::move(make));
}

void define_library_op(std::string_view op, LibraryFactory make) {
  describe(op);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.on_device.insert_or_assign({Device{}.type, std::string(op)},
                               [make](const Attributes& attributes, Queue&) { return make(attributes); });
  r.on_host.insert_or_assign(std::string(op), std::move(make));
}

DefineLibraryOps::DefineLibraryOps(std::initializer_list<std::pair<std::string_view, LibraryFactory>> ops) {
  for (const auto& [op, make] : ops) define_library_op(op, make);
}

DefineLibraryOps::DefineLibraryOps(DeviceType device,
                                   std::initializer_list<std::pair<std::string_view, QueueLibraryFactory>> ops) {
  for (const auto& [op, make] : ops) define_library_op(device, op, make);
}

void define_library_op(DeviceType device, std::string_view op, QueueLibraryFactory make) {
  describe(op);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.on_device.insert_or_assign({device, std::string(op)}, std::move(make));
}

}  // namespace coil::runtime
