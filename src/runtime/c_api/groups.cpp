// The C interface to process groups.
#include "runtime/groups/groups.h"
#include "runtime/c_api/interface.h"
#include "runtime/groups/in_flight.h"
#include "support/error.h"

using namespace coil;
using namespace coil::runtime;

extern "C" {

int coil_groups_open(int32_t rank, int32_t size, const char* store, double timeout) {
  return guarded([&] {
    if (!store) fail("no store was given");
    if (!(timeout > 0)) fail("a timeout of {} seconds", timeout);
    constexpr double kMilliseconds = 1000, kLongest = 1e9;
    groups::World world;
    world.rank = rank;
    world.size = size;
    world.store = store;
    world.timeout = groups::Milliseconds(static_cast<std::int64_t>(std::min(timeout * kMilliseconds, kLongest)) + 1);
    groups::set_world(std::move(world));
  });
}

int coil_group_define(const char* name, const int32_t* ranks, size_t count) {
  return guarded([&] {
    if (!name || (!ranks && count > 0)) fail("a process group needs a name and ranks");
    groups::define_group(name, {ranks, ranks + count});
  });
}

int coil_group_require(const char* name, int64_t ranks) {
  return guarded([&] { groups::require_group(name ? name : "", ranks); });
}

void coil_groups_settle(void) { groups::settle(); }

}  // extern "C"
