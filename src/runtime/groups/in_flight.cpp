#include "runtime/groups/in_flight.h"

#include <map>

namespace coil::runtime::groups {
namespace {

std::map<const void*, Started>& in_flight() {
  static thread_local std::map<const void*, Started> all;
  return all;
}

}  // namespace

void started(const void* result, Started work) { in_flight().insert_or_assign(result, std::move(work)); }

void wait_for(const void* result) {
  auto found = in_flight().extract(result);
  if (found) found.mapped()->wait();
}

void wait_for(const void* result, void* stream, bool recorded) {
  auto found = in_flight().extract(result);
  if (found) found.mapped()->wait_on(stream, recorded);
}

void settle() noexcept {
  for (const auto& [result, work] : in_flight()) {
    try {
      work->wait();
    } catch (const std::exception&) {
      // Whoever waits for it is told.
    }
  }
}

}  // namespace coil::runtime::groups
