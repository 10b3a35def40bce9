#include "ops/outside.h"

#include <mutex>
#include <set>
#include <string>

namespace coil::ops {
namespace {

struct OutsideTable {
  std::mutex mutex;
  std::set<std::string, std::less<>> targets;
};

OutsideTable& outside_table() {
  static OutsideTable t;
  return t;
}

}  // namespace

void leave_to_host(std::string_view target) {
  OutsideTable& t = outside_table();
  std::lock_guard lock(t.mutex);
  t.targets.emplace(target);
}

bool is_left_to_host(std::string_view target) {
  OutsideTable& t = outside_table();
  std::lock_guard lock(t.mutex);
  if (target.starts_with(kFunctional)) target.remove_prefix(kFunctional.size());
  return t.targets.contains(target);
}

}  // namespace coil::ops
