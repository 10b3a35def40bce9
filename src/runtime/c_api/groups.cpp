// The C interface to process groups.
#include "runtime/groups/groups.h"
#include "runtime/c_api/interface.h"
#include "runtime/c_api/queue.h"
#include "runtime/groups/in_flight.h"
#include "runtime/groups/symmetric.h"
#include "support/error.h"

using namespace coil;
using namespace coil::runtime;

struct coil_comm {
  std::shared_ptr<groups::SymmetricMemory> memory;
  coil_queue* queue = nullptr;  ///< whose work uses it
};

namespace {

groups::SymmetricPlace place_of(const void* address) {
  const auto place = groups::find_symmetric(address);
  if (!place) fail("the address lies in no memory that ranks of a process group share");
  return *place;
}

}  // namespace

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

int coil_group_require_on(coil_queue* queue, const char* name, int64_t ranks) {
  return guarded([&] {
    if (!queue) fail("no queue was given");
    groups::require_group(name ? name : "", ranks, queue->queue->device());
  });
}

void coil_groups_settle(void) { groups::settle(); }

coil_comm* coil_comm_open(const char* group, size_t bytes, const char* plan) {
  return guarded_pointer([&] {
    if (!group || !plan) fail("shared memory needs a process group and a plan");
    return new coil_comm{groups::allocate_symmetric({group, {}, bytes, plan})};
  });
}

coil_comm* coil_comm_open_on(coil_queue* queue, const char* group, size_t bytes, const char* plan) {
  return guarded_pointer([&] {
    if (!queue || !group || !plan) fail("shared memory needs a queue, a process group and a plan");
    const QueueScope scope(*queue->queue);
    return new coil_comm{groups::allocate_symmetric({group, queue->queue->device(), bytes, plan}), queue};
  });
}

void* coil_comm_data(const coil_comm* comm) { return comm ? comm->memory->data() : nullptr; }
void coil_comm_abandon(coil_comm* comm) {
  if (comm) comm->memory->abandon();
}
void coil_comm_close(coil_comm* comm) {
  if (comm && comm->queue) coil_queue_wait(comm->queue);
  delete comm;
}

int coil_comm_ranks(const void* address, int32_t* rank, int32_t* size) {
  return guarded([&] {
    const groups::SymmetricPlace place = place_of(address);
    if (rank) *rank = place.memory->rank();
    if (size) *size = place.memory->size();
  });
}

void* coil_comm_peer(const void* address, int32_t rank) {
  return guarded_pointer([&]() -> void* {
    const groups::SymmetricPlace place = place_of(address);
    if (rank < 0 || rank >= place.memory->size())
      fail("process group '{}' has no rank {}: it has {}", place.memory->group(), rank, place.memory->size());
    std::byte* base = place.memory->at(rank);
    if (!base) fail("the memory of rank {} of process group '{}' cannot be reached", rank, place.memory->group());
    return base + place.offset;
  });
}

int coil_comm_barrier(const void* address) {
  return guarded([&] {
    const groups::SymmetricPlace place = place_of(address);
    if (place.memory->is_shared())
      place.memory->barrier({"coil_comm_barrier"});
    else
      groups::group(place.memory->group())->barrier()->wait();
  });
}

}  // extern "C"
