// The C interface to errors, memory, tensors and files of tensors.
#include <algorithm>
#include <atomic>
#include <new>
#include <string>

#include "runtime/c_api/interface.h"
#include "runtime/device/output_pool.h"
#include "runtime/device/threads.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"
#include "tensor/safetensors.h"

namespace coil::runtime {
namespace {

thread_local std::string last_error;

/// In front of each block that coil_alloc hands out.
struct alignas(64) Header {
  Storage storage;
  Storage kept;  ///< memory that `own` was given
  std::atomic<int> owners = 1;
};

Header* header_of(void* block) { return static_cast<Header*>(block) - 1; }

const std::shared_ptr<OutputPool>& pool() {
  static const std::shared_ptr<OutputPool> pool = OutputPool::make();
  return pool;
}

}  // namespace

void keep_error(std::string_view message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
}

coil_dtype to_c(DType d) {
  switch (d) {
#define X(e, short_name, torch, bytes, number, ...) \
  case DType::e: return static_cast<coil_dtype>(number);
    COIL_DTYPES(X)
#undef X
  }
  fail("unknown dtype {}", static_cast<int>(d));
}

DType from_c(coil_dtype d) {
  auto dtype = dtype_from_export_number(static_cast<int>(d));
  if (!dtype) fail("{} is not the number of a dtype", static_cast<int>(d));
  return *dtype;
}

coil_tensor to_c(const Tensor& t) {
  if (t.rank() > COIL_MAX_RANK)
    fail("a tensor of {} dimensions does not fit the C interface, which has {}", t.rank(), COIL_MAX_RANK);
  coil_tensor out{};
  out.data = t.storage.data ? t.bytes() : nullptr;
  out.dtype = to_c(t.dtype);
  out.rank = static_cast<std::int16_t>(t.rank());
  out.on_device = t.device() != Device{};
  std::copy(t.sizes.begin(), t.sizes.end(), out.sizes);
  std::copy(t.strides.begin(), t.strides.end(), out.strides);
  return out;
}

Tensor borrow(const coil_tensor& t, Device device) {
  if (t.rank < 0 || t.rank > COIL_MAX_RANK) fail("a tensor has {} dimensions", t.rank);
  if (t.on_device != 0 && t.on_device != 1)
    fail("a tensor's on_device is {}; it is 0 for memory of the host and 1 for memory of the program's device",
         t.on_device);
  if (t.on_device && device == Device{})
    fail("a tensor is said to lie on a device (on_device is 1), but only memory of the host is taken here");
  Tensor out;
  if (t.on_device) out.storage.device = device;
  out.dtype = from_c(t.dtype);
  out.sizes.assign(t.sizes, t.sizes + t.rank);
  out.strides.assign(t.strides, t.strides + t.rank);
  out.storage.bytes = static_cast<std::size_t>(layout_span(out.sizes, out.strides)) * size_of(out.dtype);
  if (!t.data && out.storage.bytes > 0) fail("a tensor has no memory");
  out.storage.data = std::shared_ptr<std::byte>(static_cast<std::byte*>(t.data), [](std::byte*) {});
  return out;
}

void require_alike(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) fail("tensors of different dtype or sizes cannot be copied");
}

void* own(Storage memory) {
  void* block = coil_alloc(0);
  if (!block) fail("{}", last_error);
  header_of(block)->kept = std::move(memory);
  return block;
}

}  // namespace coil::runtime

using namespace coil;
using namespace coil::runtime;

struct coil_file {
  std::vector<std::pair<std::string, Tensor>> tensors;
};

extern "C" {

const char* coil_last_error(void) { return last_error.c_str(); }
void coil_set_error(const char* message) { keep_error(message); }
void coil_set_threads(int threads) { set_threads(std::max(0, threads)); }

void* coil_alloc(size_t bytes) {
  return guarded_pointer([&]() -> void* {
    if (bytes > SIZE_MAX - sizeof(Header)) fail("out of memory: cannot allocate {} bytes", bytes);
    Storage storage = pool()->allocate(bytes + sizeof(Header));
    auto* header = new (storage.data.get()) Header;
    header->storage = std::move(storage);
    return header + 1;
  });
}

void* coil_retain(void* block) {
  if (block) header_of(block)->owners.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void coil_free(void* block) {
  if (!block || header_of(block)->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Header* header = header_of(block);
  Storage storage = std::move(header->storage);  // outlives the header that lies in it
  header->~Header();
}

void coil_tensor_release(coil_tensor* t) {
  coil_free(t->owner);
  t->owner = nullptr;
  t->data = nullptr;
}

int coil_tensor_copy(const coil_tensor* to, const coil_tensor* from) {
  return guarded([&] {
    const Tensor a = borrow(*to), b = borrow(*from);
    require_alike(a, b);
    copy_strided(a, b);
  });
}

coil_file* coil_file_open(const char* path) {
  return guarded_pointer([&] {
    auto file = std::make_unique<coil_file>();
    for (auto& [name, tensor] : read_safetensors(path).tensors) file->tensors.emplace_back(name, std::move(tensor));
    return file.release();
  });
}

void coil_file_close(coil_file* file) { delete file; }
size_t coil_file_count(const coil_file* file) { return file->tensors.size(); }
const char* coil_file_name(const coil_file* file, size_t index) {
  return index < file->tensors.size() ? file->tensors[index].first.c_str() : nullptr;
}

int coil_file_find(const coil_file* file, const char* name, coil_tensor* out) {
  return guarded([&] {
    auto found = std::lower_bound(file->tensors.begin(), file->tensors.end(), std::string_view(name),
                                  [](const auto& entry, std::string_view n) { return entry.first < n; });
    if (found == file->tensors.end() || found->first != name) fail("the file has no tensor '{}'", name);
    *out = to_c(found->second);
  });
}

int coil_file_write(const char* path, const char* const* names, const coil_tensor* tensors, size_t count) {
  return guarded([&] {
    std::map<std::string, Tensor> out;
    for (size_t i = 0; i < count; ++i)
      if (!out.emplace(names[i], borrow(tensors[i])).second) fail("two tensors have the name '{}'", names[i]);
    write_safetensors(path, out);
  });
}

}  // extern "C"
