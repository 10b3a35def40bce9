#include "runtime/library.h"

#include <map>
#include <mutex>

#include "runtime/library_builtin.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// The operations of this process: the built-in ones, then what callers define.
struct Registry {
  std::mutex mutex;
  std::map<std::string, LibraryFactory, std::less<>> factories;

  Registry() {
    for (const BuiltinOp& op : builtin_ops()) factories.emplace(op.name, op.make);
  }
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
    if (auto found = r.factories.find(op); found != r.factories.end()) make = found->second;
  }
  if (!make) fail("this runtime has no library operation '{}'", op);
  return make(attributes);
}

bool has_library_op(std::string_view op) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.factories.find(op) != r.factories.end();
}

void define_library_op(std::string_view op, LibraryFactory make) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.factories.insert_or_assign(std::string(op), std::move(make));
}

}  // namespace coil::runtime
