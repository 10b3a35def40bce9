// Memory of a program for a GPU, and the queue that it runs in.
#pragma once
#include "head.h"

// @piece primitives_gpu
namespace {

// ---- A GPU: what the program does on it, in order ----

/// Where memory lies: `on_host` and `on_device` also say it of tensors. `page_locked`: of the host, where the device
/// copies to it while the host goes on.
constexpr int16_t on_host = 0, on_device = 1, page_locked = 2;

class Queue;
thread_local Queue* current = nullptr;  // of the program that the thread runs

/// An argument of a kernel that is not Coil's own; it begins at a multiple of its bytes.
struct Argument {
  Size value;
  size_t bytes = 8;
  const uint64_t* map = nullptr;  ///< of a descriptor of a tensor, which is 128 bytes
};
struct TensorMap {
  uint64_t words[16] = {};
  Argument argument() const { return {0, 0, words}; }
};
inline Argument pointer(void* base, Size bytes) {
  return {Size(reinterpret_cast<int64_t>(static_cast<char*>(base) + bytes.value)), 8};
}

class Queue {
 public:
  /// `early`: kernels wait themselves for the one before them. `of_rank`: on the device that this process is to use.
  Queue(const char* device, const char* isa, const std::vector<std::string_view>& binaries, bool early, bool of_rank)
      : early_(early) {
    std::vector<const void*> data;
    std::vector<size_t> bytes;
    for (std::string_view b : binaries) data.push_back(b.data()), bytes.push_back(b.size());
    handle =
        (of_rank ? coil_queue_open_for_rank : coil_queue_open)(device, isa, data.data(), bytes.data(), data.size());
    if (!handle) fail(coil_last_error());
    current = this;
  }
  Queue(const Queue&) = delete;
  ~Queue() {
    if (current == this) current = nullptr;
    coil_queue_close(handle);
  }
  const void* kernel(const char* name) {
    const void* found = coil_queue_kernel(handle, name);
    if (!found) fail(coil_last_error());
    return found;
  }
  /// Words are pointers, then numbers, then the status, then descriptors, as the kernel's parameters lie.
  void launch(const void* kernel, std::initializer_list<void*> buffers, Sizes scalars, Sizes grid, Size block,
              Size shared_bytes, void* status = nullptr, std::initializer_list<TensorMap> maps = {}) {
    words_.assign(buffers);
    for (Size s : scalars) words_.push_back(reinterpret_cast<void*>(s.value));
    words_.push_back(status);
    for (const TensorMap& m : maps) add(m.words);
    int64_t blocks[3] = {1, 1, 1};
    int d = 0;
    for (Size s : grid) blocks[d++] = s.value;
    check(coil_queue_launch(handle, kernel, words_.data(), words_.size(), blocks, block.value, shared_bytes.value,
                            early_));
  }
  /// The descriptor of a tensor, the outermost dimension first; strides in bytes.
  TensorMap tensor_map(Argument base, int32_t element, int32_t swizzle, Sizes box, Sizes sizes, Sizes strides) {
    std::vector<int64_t> all[3];
    for (Size s : box) all[0].push_back(s.value);
    for (Size s : sizes) all[1].push_back(s.value);
    for (Size s : strides) all[2].push_back(s.value);
    TensorMap made;
    check(coil_queue_tensor_map(handle, element, swizzle, all[0].size(), all[0].data(), all[1].data(), all[2].data(),
                                reinterpret_cast<void*>(base.value.value), made.words));
    return made;
  }
  /// Of a kernel that is not Coil's own: arguments in its own order and widths.
  void launch(const void* kernel, std::initializer_list<Argument> arguments, Sizes grid, int64_t block,
              int64_t shared_bytes) {
    words_.clear();
    size_t used = 8;  // bytes of the last word
    for (const Argument& a : arguments) {
      if (a.map) {
        add(a.map);
        used = 8;
        continue;
      }
      used = (used + a.bytes - 1) / a.bytes * a.bytes;
      if (used >= 8) words_.push_back(nullptr), used = 0;
      uint64_t bits = static_cast<uint64_t>(a.value.value);
      if (a.bytes < 8) bits &= (uint64_t{1} << 8 * a.bytes) - 1;
      words_.back() = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(words_.back()) | bits << 8 * used);
      used += a.bytes;
    }
    int64_t blocks[3] = {1, 1, 1};
    int d = 0;
    for (Size s : grid) blocks[d++] = s.value;
    check(coil_queue_launch(handle, kernel, words_.data(), words_.size(), blocks, block, shared_bytes, false));
  }
  void wait() { check(coil_queue_wait(handle)); }
  void stay(void* stream) {
    check(coil_queue_set_stream(handle, stream));
    stays = true;
  }

  coil_queue* handle;
  bool stays = false;       ///< outputs are left on the device, and runs return when they are queued
  bool reads_host = false;  ///< this run has queued copies of the caller's memory

 private:
  /// A descriptor, where it is aligned.
  void add(const uint64_t* map) {
    words_.resize((words_.size() + 7) / 8 * 8);
    for (int k = 0; k < 16; ++k) words_.push_back(reinterpret_cast<void*>(map[k]));
  }

  bool early_;
  std::vector<void*> words_;
};

char* allocate(size_t bytes, void*& owner, int16_t where) {
  if (where == on_host) return static_cast<char*>(owner = coil_alloc(bytes));
  return static_cast<char*>(
      (where == page_locked ? coil_queue_alloc_on_host : coil_queue_alloc)(current->handle, bytes, &owner));
}
int copy_tensor(const coil_tensor* to, const coil_tensor* from) {
  if (!to->on_device && !from->on_device) return coil_tensor_copy(to, from);
  current->reads_host = current->reads_host || !from->on_device;
  return coil_queue_copy(current->handle, to, from);
}
coil_tensor bytes_at(const void* data, size_t bytes, int16_t where) {
  coil_tensor t{};
  t.data = const_cast<void*>(data);
  t.dtype = COIL_U8;
  t.rank = 1;
  t.on_device = where;
  t.sizes[0] = static_cast<int64_t>(bytes);
  t.strides[0] = 1;
  return t;
}
/// Between memory of the program and a value of the host's; `get` waits.
void get(void* to, const void* from, size_t bytes, int16_t where = on_device) {
  if (where == on_host) {
    std::memcpy(to, from, bytes);
    return;
  }
  const coil_tensor a = bytes_at(to, bytes, 0), b = bytes_at(from, bytes, where);
  check(coil_queue_copy(current->handle, &a, &b));
}
void put(void* to, const void* from, size_t bytes) {
  const coil_tensor a = bytes_at(to, bytes, on_device), b = bytes_at(from, bytes, 0);
  check(coil_queue_copy(current->handle, &a, &b));
}
/// Whether kernels can read it where it lies; those of the device read 16 bytes at a time.
bool is_readable(const coil_tensor& t, int16_t where) {
  return t.on_device == where && (where == on_host || reinterpret_cast<uintptr_t>(t.data) % 16 == 0);
}
coil_op* create_op(const char* name) { return coil_op_create_on(current->handle, name); }
inline coil_comm* open_comm(const char* group, size_t bytes, const char* plan) {
  return coil_comm_open_on(current->handle, group, bytes, plan);
}
inline int require_group(const char* name, int64_t ranks) {
  return coil_group_require_on(current->handle, name, ranks);
}

}  // namespace
