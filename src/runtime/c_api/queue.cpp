// The C interface to a GPU's queue: memory, copies, kernels.
#include "runtime/c_api/queue.h"

#include "runtime/c_api/interface.h"
#include "runtime/groups/groups.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

using namespace coil;
using namespace coil::runtime;

namespace {

/// Calls `f` with the queue, readied.
template <class F>
decltype(auto) on_queue(coil_queue* given, F&& f) {
  if (!given) fail("no queue was given");
  const QueueScope scope(*given->queue);
  return f(*given->queue);
}

/// The address of what `allocate` takes of the queue, whose owner goes to `owner`.
template <class F>
void* owned_memory(coil_queue* queue, void** owner, F&& allocate) {
  return guarded_pointer([&]() -> void* {
    if (!owner) fail("no place for the memory's owner was given");
    Storage memory = on_queue(queue, allocate);
    void* at = memory.data.get();
    *owner = own(std::move(memory));
    return at;
  });
}

std::unique_ptr<coil_queue> open_queue(Device where, const char* isa, std::vector<std::vector<std::byte>> binaries) {
  if (where == Device{}) fail("queues are of GPUs: the cpu has none");
  auto made = std::make_unique<coil_queue>();
  made->device = open_device(where);
  made->kernels = made->device->load(isa ? isa : "", std::move(binaries));
  made->queue = made->device->make_queue();
  return made;
}

std::vector<std::vector<std::byte>> binaries_at(const void* const* binaries, const size_t* bytes, size_t count) {
  std::vector<std::vector<std::byte>> all;
  for (size_t i = 0; i < count; ++i) {
    const auto* from = static_cast<const std::byte*>(binaries[i]);
    all.emplace_back(from, from + bytes[i]);
  }
  return all;
}

}  // namespace

extern "C" {

coil_queue* coil_queue_open(const char* device, const char* isa, const void* const* binaries, const size_t* bytes,
                            size_t count) {
  return guarded_pointer([&] {
    if (!device || (count > 0 && (!binaries || !bytes))) fail("no device or no kernels were given");
    return open_queue(parse_device(device), isa, binaries_at(binaries, bytes, count)).release();
  });
}

coil_queue* coil_queue_open_for_rank(const char* device, const char* isa, const void* const* binaries,
                                     const size_t* bytes, size_t count) {
  return guarded_pointer([&] {
    if (!device || (count > 0 && (!binaries || !bytes))) fail("no device or no kernels were given");
    const Device where = groups::device_of_rank(parse_device(device));
    return open_queue(where, isa, binaries_at(binaries, bytes, count)).release();
  });
}

void coil_queue_close(coil_queue* queue) { delete queue; }

int coil_queue_set_stream(coil_queue* queue, void* stream) {
  return guarded([&] { on_queue(queue, [&](Queue& q) { q.set_stream(stream); }); });
}

int coil_queue_wait(coil_queue* queue) {
  return guarded([&] { on_queue(queue, [](Queue& q) { q.wait(); }); });
}

void* coil_queue_alloc(coil_queue* queue, size_t bytes, void** owner) {
  return owned_memory(queue, owner, [&](Queue& q) { return q.allocate(bytes); });
}

void* coil_queue_alloc_on_host(coil_queue* queue, size_t bytes, void** owner) {
  return owned_memory(queue, owner, [&](Queue& q) { return q.allocate_on_host(bytes); });
}

int coil_queue_copy(coil_queue* queue, const coil_tensor* to, const coil_tensor* from) {
  return guarded([&] {
    on_queue(queue, [&](Queue& q) {
      const Tensor a = borrow(*to, q.device()), b = borrow(*from, q.device());
      require_alike(a, b);
      q.copy(a, b);
    });
  });
}

int coil_queue_bring(coil_queue* queue, coil_tensor* t) {
  return guarded([&] {
    if (!t) fail("no tensor was given");
    if (!t->on_device) return;
    on_queue(queue, [&](Queue& q) {
      const Tensor from = borrow(*t, q.device());
      const auto bytes = static_cast<std::size_t>(from.numel()) * size_of(from.dtype);
      void* block = coil_alloc(bytes);
      if (!block) fail("{}", coil_last_error());
      try {
        const Tensor to{{std::shared_ptr<std::byte>(static_cast<std::byte*>(block), [](std::byte*) {}), bytes},
                        from.dtype,
                        from.sizes,
                        strides_of_copy(from),
                        0};
        q.copy(to, from);
        coil_free(t->owner);
        *t = to_c(to);
        t->owner = block;
      } catch (...) {
        coil_free(block);
        throw;
      }
    });
  });
}

int64_t* coil_queue_words(coil_queue* queue, size_t count) {
  return guarded_pointer([&] { return on_queue(queue, [&](Queue& q) { return q.shared_words(count); }).data(); });
}

const void* coil_queue_kernel(coil_queue* queue, const char* name) {
  return guarded_pointer([&] {
    if (!queue || !name) fail("no queue or no kernel's name was given");
    const void* kernel = queue->kernels->find(name);
    if (!kernel) fail("kernel '{}' is in none of the program's binaries", name);
    queue->names.emplace(kernel, name);
    return kernel;
  });
}

int coil_queue_tensor_map(coil_queue* queue, int32_t element, int32_t swizzle, size_t rank, const int64_t* box,
                          const int64_t* sizes, const int64_t* strides, void* address, void* map) {
  return guarded([&] {
    if (rank < 1 || rank > kTensorMapRank) fail("a descriptor is of a tensor of 1 to {} dimensions", kTensorMapRank);
    TensorMapShape s{.element = static_cast<std::uint32_t>(element),
                     .swizzle = static_cast<std::uint32_t>(swizzle),
                     .rank = static_cast<std::uint32_t>(rank)};
    for (std::size_t d = 0; d < rank; ++d) {
      s.box[d] = static_cast<std::uint32_t>(box[rank - 1 - d]);
      s.sizes[d] = static_cast<std::uint64_t>(sizes[rank - 1 - d]);
      s.strides[d] = static_cast<std::uint64_t>(strides[rank - 1 - d]);
    }
    on_queue(queue, [&](Queue& q) { q.make_tensor_map(s, address, map); });
  });
}

int coil_queue_launch(coil_queue* queue, const void* kernel, void* const* words, size_t count, const int64_t grid[3],
                      int64_t block, int64_t shared_bytes, int32_t early) {
  return guarded([&] {
    on_queue(queue, [&](Queue& q) {
      const auto named = queue->names.find(kernel);
      if (named == queue->names.end()) fail("what is to be launched is no kernel of this queue");
      Launch l;
      l.kernel = kernel;
      l.word_count = static_cast<std::uint32_t>(count);
      l.block = static_cast<std::uint32_t>(block);
      l.shared_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(0, shared_bytes));
      l.early = early != 0;
      for (std::size_t d = 0; d < 3; ++d)
        if (!set_blocks(l, d, grid[d], named->second)) return;
      q.launch(l, words);
    });
  });
}

}  // extern "C"
