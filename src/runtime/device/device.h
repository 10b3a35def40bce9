// What the executor asks of a device: memory, kernels, copies and library calls, in order on a queue. The CPU, CUDA and
// Metal are built in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/library.h"
#include "runtime/device/overlap.h"
#include "runtime/plan/plan.h"
#include "support/extension_api.h"

namespace coil::runtime {

/// One launch of a kernel with its sizes bound. `words` is where its arguments begin in the binding's table, 8 bytes
/// each: on the CPU the buffers' pointers, the status word's, the scalars; on other devices buffers, scalars, status
/// word, as such a kernel takes them.
struct Launch {
  const void* kernel = nullptr;  ///< from LoadedKernels::find
  std::uint32_t words = 0, word_count = 0, buffer_count = 0;
  std::uint32_t grid[3] = {0, 0, 0}, block = 0, shared_bytes = 0;
  std::int64_t extent = 0;  ///< CPU
  int chunks = 1;           ///< CPU
  bool early = false;       ///< GPU: the kernel itself waits for the one before it
};

/// What a kernel that may fail finds in place of a status word on a device that runs ahead of the host, in memory of
/// the device: one of as many in a row as the plan has calls that fail (KernelCall in runtime/plan/plan.h). A kernel
/// does nothing where the run has failed; one that fails sets the host's word, and `run_failed` of them all.
struct FailureStatus {
  std::int64_t run_failed;
  std::int64_t* host_word;
  FailureStatus* all;
  std::int64_t count;
};
static_assert(sizeof(FailureStatus) == 32, "generated kernels take four words");

/// What a launch on another device than the CPU hands its kernel.
struct LaunchArguments {
  LaunchArguments(const Launch& l, void* const* table)
      : buffers(table + l.words, l.buffer_count),
        scalars(reinterpret_cast<const std::int64_t*>(buffers.data() + l.buffer_count),
                l.word_count - l.buffer_count - 1),
        status(static_cast<FailureStatus*>(table[l.words + l.word_count - 1])) {}

  std::span<void* const> buffers;
  std::span<const std::int64_t> scalars;
  FailureStatus* status;  ///< null: the kernel has none to look at; only of plans that stop on failure
};

/// Sets how many blocks a GPU's launch has along x, y or z; false where that is none, and there is nothing to launch.
/// Throws Error on more than a GPU takes.
bool set_blocks(Launch&, std::size_t dimension, std::int64_t blocks, const std::string& kernel);

/// The kernels of a program, loaded.
class LoadedKernels {
 public:
  virtual ~LoadedKernels() = default;
  /// What Launch::kernel holds; null when there is no kernel of that name.
  virtual const void* find(const std::string& symbol) const = 0;
};

/// Work recorded once and run again as it was, with the same pointers.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
};

/// A watcher of work on a queue that may never end by itself: exchanges with other processes.
class QueueWatcher {
 public:
  virtual ~QueueWatcher() = default;
  /// What is being recorded ends on this stream, and what it records of its own has to end there as well.
  virtual void end_recording(void* /*stream*/) {}
  /// Recorded work is about to be put on a stream: behind all of its own that is not recorded.
  virtual void before_launch(void* /*stream*/) {}
  /// Recorded work that holds some of its own was put on a stream.
  virtual void launched(void* stream) = 0;
  /// Throws Error where some of the work has failed. Called while the queue's work is waited for, when it has ended,
  /// and before recorded work that holds exchanges is put on a stream again.
  virtual void check() = 0;
};

/// Work in order on one device: what one context needs. One thread at a time, between `begin` and `end` (QueueScope).
class COIL_EXTENSION_API Queue {
 public:
  virtual ~Queue() = default;
  virtual Device device() const = 0;
  /// Readies the calling thread (CUDA: the device's context is current), and puts back what was.
  virtual void begin() {}
  virtual void end() noexcept {}

  /// Memory of the device, at least 64-byte aligned, contents undefined. It may go back while work that uses it is
  /// still queued. Throws Error when memory is out, with `planned_bytes` in the message.
  virtual Storage allocate(std::size_t bytes) = 0;
  /// Whether memory that went back is there for other programs of the process, at little cost: those that take turns
  /// share it then if each takes its memory for a run, in pieces, and keeps none.
  virtual bool lends() const { return false; }
  /// Memory of the host that the device copies to while the host goes on (page-locked, where the device knows such).
  /// It may go back at any time after the copies into it have been waited for.
  virtual Storage allocate_on_host(std::size_t bytes) { return Storage::allocate(bytes); }
  /// Words of memory that kernels and the host both see, zero; they live as long as the queue.
  virtual std::span<std::int64_t> shared_words(std::size_t count);
  /// `to[i] = from[i]` for tensors of the same dtype and sizes that do not overlap, each on this device or on the host,
  /// whatever their strides.
  virtual void copy(const Tensor& to, const Tensor& from) = 0;
  /// Copies to memory of `allocate_on_host`, which holds the values only when the queue has been waited for.
  virtual void copy_ahead(const Tensor& to, const Tensor& from) { copy(to, from); }
  /// `words`: the binding's whole table.
  virtual void launch(const Launch&, void* const* words) = 0;
  /// The descriptor of a tensor at this address, as kernels of the device take it (kTensorMapBytes at `to`).
  virtual void make_tensor_map(const TensorMapShape&, void* address, void* to);
  /// A call site of the device's own form of the operation, or else of the host's.
  virtual std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes&);

  /// Whether launches return before their work is done; status words then tell only after `wait`.
  virtual bool runs_ahead() const { return false; }
  /// Returns when all work queued so far is done. Throws Error when some of it failed.
  virtual void wait() {}
  /// Queues work on a stream of the caller's from now on (CUstream; its device must be this one); null: on the queue's
  /// own.
  virtual void set_stream(void* stream);
  /// Memory comes from the caller from now on; it is given back while work on the stream that was current when it was
  /// taken may still use it. None: from the queue's own pool again.
  virtual void set_allocator(std::function<Storage(std::size_t)> allocate);

  /// Between the two, work is recorded and not run. False where the device cannot.
  virtual bool begin_recording() { return false; }
  virtual std::unique_ptr<RecordedWork> end_recording() { return nullptr; }
  /// How many steps may run side by side when they are recorded. Between begin_step and end_step work is recorded as
  /// its order says; the steps come in program order, each once.
  virtual std::uint32_t lanes() const { return 1; }
  virtual void begin_step(const StepOrder&) {}
  virtual void end_step(const StepOrder&) {}
  virtual void run_recorded(const RecordedWork&) {}

  /// The stream that work goes to now, on devices that have streams.
  virtual void* current_stream() const { return nullptr; }
  virtual bool is_recording() const { return false; }
  /// Work of this one is on the queue from now on, or in what is being recorded.
  virtual void watch(const std::shared_ptr<QueueWatcher>&) {}

  /// The most bytes that were taken from the queue's pool and not given back since `begin_measuring`, beyond those
  /// before. 0 where the device does not count.
  virtual void begin_measuring() {}
  virtual std::uint64_t measured_bytes() const { return 0; }

  std::uint64_t planned_bytes = 0;  ///< the program's planned peak, for messages

 protected:
  [[noreturn]] void fail_for_memory(std::size_t bytes) const;

 private:
  std::vector<std::vector<std::int64_t>> shared_words_;
};

/// `queue.begin()` … `queue.end()`.
class QueueScope {
 public:
  explicit QueueScope(Queue& queue) : queue_(queue) { queue_.begin(); }
  ~QueueScope() { queue_.end(); }
  QueueScope(const QueueScope&) = delete;
  QueueScope& operator=(const QueueScope&) = delete;

 private:
  Queue& queue_;
};

/// A device of this machine, for one model.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual Device device() const = 0;
  /// Throws Error when the device lacks what `isa` (Plan::isa) names, or a binary cannot be loaded.
  virtual std::unique_ptr<LoadedKernels> load(const std::string& isa,
                                              std::span<const std::vector<std::byte>> libraries) = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
};

/// Throws Error when nobody registered devices of this type, or this machine has no such device.
std::shared_ptr<DeviceRuntime> open_device(Device);

/// Opens a device by its index, or throws Error.
using DeviceOpener = std::function<std::shared_ptr<DeviceRuntime>(int index)>;
/// Programs run on devices of this type from now on. The files that implement the built-in devices call it when the
/// process starts. Throws Error for a type that has an opener already.
void register_device(DeviceType, DeviceOpener);

bool has_device(DeviceType);

std::shared_ptr<DeviceRuntime> open_cpu();

}  // namespace coil::runtime
