#include "wrapper/cpp/device_text.h"

namespace coil::wrapper {
namespace {

constexpr const char* kPrimitivesOnCpu = R"cpp(
  // ---- The CPU, whose memory is the host's ----

  constexpr int16_t on_device = 0;

  char* allocate(size_t bytes, void*& owner) { return static_cast<char*>(owner = coil_alloc(bytes)); }
  int copy_tensor(const coil_tensor* to, const coil_tensor* from) { return coil_tensor_copy(to, from); }
  /// Between memory of the program and a value of the host's.
  void get(void* to, const void* from, size_t bytes, int16_t = 0) { std::memcpy(to, from, bytes); }
  void put(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
  /// Whether kernels can read it where it lies.
  bool is_readable(const coil_tensor&) { return true; }
  coil_op* create_op(const char* name) { return coil_op_create(name); }
)cpp";

constexpr const char* kPrimitivesOnGpu = R"cpp(
  // ---- A GPU: what the program does on it, in order ----

  constexpr int16_t on_device = 1;

  class Queue;
  thread_local Queue* current = nullptr;  // of the program that the thread runs

  class Queue {
   public:
    /// `early`: kernels wait themselves for the one before them.
    Queue(const char* device, const char* isa, const std::vector<std::string_view>& binaries, bool early)
        : early_(early) {
      std::vector<const void*> data;
      std::vector<size_t> bytes;
      for (std::string_view b : binaries) data.push_back(b.data()), bytes.push_back(b.size());
      handle = coil_queue_open(device, isa, data.data(), bytes.data(), data.size());
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
    /// Words are pointers, then numbers, then the status, as the kernel's parameters lie.
    void launch(const void* kernel, std::initializer_list<void*> buffers, Sizes scalars, Sizes grid, Size block,
                Size shared_bytes, void* status = nullptr) {
      words_.assign(buffers);
      for (Size s : scalars) words_.push_back(reinterpret_cast<void*>(s.value));
      words_.push_back(status);
      int64_t blocks[3] = {1, 1, 1};
      int d = 0;
      for (Size s : grid) blocks[d++] = s.value;
      check(coil_queue_launch(handle, kernel, words_.data(), words_.size(), blocks, block.value, shared_bytes.value,
                              early_));
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
    bool early_;
    std::vector<void*> words_;
  };

  char* allocate(size_t bytes, void*& owner) {
    return static_cast<char*>(coil_queue_alloc(current->handle, bytes, &owner));
  }
  int copy_tensor(const coil_tensor* to, const coil_tensor* from) {
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
    const coil_tensor a = bytes_at(to, bytes, 0), b = bytes_at(from, bytes, where);
    check(coil_queue_copy(current->handle, &a, &b));
  }
  void put(void* to, const void* from, size_t bytes) {
    const coil_tensor a = bytes_at(to, bytes, on_device), b = bytes_at(from, bytes, 0);
    check(coil_queue_copy(current->handle, &a, &b));
  }
  /// Whether kernels can read it where it lies: 16 bytes at a time.
  bool is_readable(const coil_tensor& t) { return t.on_device && reinterpret_cast<uintptr_t>(t.data) % 16 == 0; }
  coil_op* create_op(const char* name) { return coil_op_create_on(current->handle, name); }
)cpp";

constexpr const char* kMemoryOnCpu = R"cpp(
  /// Weights are used where the file is mapped.
  struct Placed {
    char* at(const char*, char* data, size_t) { return data; }
  };
)cpp";

constexpr const char* kMemoryOnGpu = R"cpp(
  /// Weights in memory of the device: each tensor of the file once.
  struct Placed {
    std::map<std::string, Memory> pieces;
    char* at(const char* name, char* data, size_t bytes) {
      auto [piece, added] = pieces.try_emplace(name);
      if (added) {
        piece->second = Memory(bytes);
        put(piece->second.data, data, bytes);
      }
      return piece->second.data;
    }
  };

  /// Where kernels tell that they failed: for each call that may, a word that the host sees, and on the device a status
  /// of four words: whether any has failed; where to tell the host; all statuses, and how many there are. A kernel
  /// behind one that has failed leaves at once where it has a status.
  class Failures {
   public:
    Failures(Queue& queue, std::initializer_list<const char*> messages) : queue_(queue), messages_(messages) {
      if (messages_.empty()) return;
      told_ = coil_queue_words(queue.handle, messages_.size());
      if (!told_) fail(coil_last_error());
      statuses_ = Memory(32 * messages_.size());
      for (size_t site = 0; site < messages_.size(); ++site)
        clear_.insert(clear_.end(), {0, reinterpret_cast<int64_t>(told_ + site), reinterpret_cast<int64_t>(status(0)),
                                     static_cast<int64_t>(messages_.size())});
      put(statuses_.data, clear_.data(), 8 * clear_.size());
    }
    void* status(size_t site) const { return statuses_.data + 32 * site; }
    /// What has been told so far; `check` waits first.
    void look() {
      for (size_t site = 0; site < messages_.size(); ++site) {
        if (!*static_cast<volatile int64_t*>(told_ + site)) continue;
        std::fill_n(told_, messages_.size(), 0);
        put(statuses_.data, clear_.data(), 8 * clear_.size());
        fail(messages_[site]);
      }
    }
    void check() {
      queue_.wait();
      look();
    }

   private:
    Queue& queue_;
    std::vector<const char*> messages_;
    int64_t* told_ = nullptr;
    Memory statuses_;
    std::vector<int64_t> clear_;  ///< statuses as they are before a run
  };
)cpp";

constexpr const char* kRunsOnCpu = R"cpp(
  namespace {

  void begin(coil_program&) {}
  void finish(coil_program&, coil_tensor*) {}
  [[noreturn]] void stay(coil_program&, void*) {
    fail(
        "the program runs on the cpu, whose memory is the host's: its outputs have no other place to stay in, and its "
        "runs no stream");
  }
  void wait(coil_program&) {}

  }  // namespace
)cpp";

constexpr const char* kRunsOnGpu = R"cpp(
  namespace {

  void begin(coil_program& p) {
    current = &p.queue;
    p.queue.reads_host = false;
    p.failures.look();
  }
  void finish(coil_program& p, coil_tensor* outputs) {
    if (!p.queue.stays || p.queue.reads_host) p.failures.check();
    if (p.queue.stays) return;
    for (size_t i = 0; i < output_count; ++i) check(coil_queue_bring(p.queue.handle, &outputs[i]));
  }
  void stay(coil_program& p, void* stream) { p.queue.stay(stream); }
  void wait(coil_program& p) {
    current = &p.queue;
    p.failures.check();
  }

  }  // namespace
)cpp";

}  // namespace

std::string cpp_primitives(Device device) {
  return device.type == DeviceType::CPU ? kPrimitivesOnCpu : kPrimitivesOnGpu;
}
std::string cpp_memory(Device device) { return device.type == DeviceType::CPU ? kMemoryOnCpu : kMemoryOnGpu; }
std::string cpp_runs(Device device) { return device.type == DeviceType::CPU ? kRunsOnCpu : kRunsOnGpu; }

}  // namespace coil::wrapper
