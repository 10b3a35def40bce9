#include "runtime/groups/in_flight.h"

#include <map>

namespace coil::runtime::groups {
namespace {

/// Whether the calling thread has started anything ever. Threads that have not make no map: its destructor would keep
/// a library that this is in loaded as long as they live.
thread_local bool has_started = false;

std::map<const void*, Started>& in_flight() {
  static thread_local std::map<const void*, Started> all;
  return all;
}

}  // namespace

void started(const void* result, Started work) {
  has_started = true;
  in_flight().insert_or_assign(result, std::move(work));
}

void wait_for(const void* result) {
  if (!has_started) return;
  auto found = in_flight().extract(result);
  if (found) found.mapped()->wait();
}

void wait_for(const void* result, void* stream, bool recorded) {
  auto found = in_flight().extract(result);
  if (found) found.mapped()->wait_on(stream, recorded);
}

void settle() noexcept {
  if (!has_started) return;
  for (const auto& [result, work] : in_flight()) {
    try {
      work->wait();
    } catch (const std::exception&) {
      // Whoever waits for it is told.
    }
  }
}

}  // namespace coil::runtime::groups
