#include "ops/outside.h"

#include <mutex>
#include <set>
#include <string>

namespace coil::ops {
namespace {

struct Table {
  std::mutex mutex;
  std::set<std::string, std::less<>> targets;
};

Table& table() {
  static Table t;
  return t;
}

}  // namespace

void leave_to_host(std::string_view target) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.targets.emplace(target);
}

bool is_left_to_host(std::string_view target) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (target.starts_with(kFunctional)) target.remove_prefix(kFunctional.size());
  return t.targets.contains(target);
}

}  // namespace coil::ops
