// The CPU as a device: kernels are functions of shared objects, run on OpenMP's threads; memory comes from a pool that
// keeps its pages.
#include <limits>
#include <mutex>
#include <utility>

#include "runtime/device/device.h"
#include "runtime/device/kernel_library.h"
#include "runtime/device/output_pool.h"
#include "runtime/device/threads.h"
#include "runtime/views/strided_copy.h"

namespace coil::runtime {
namespace {

class CpuQueue : public Queue {
 public:
  CpuQueue(std::shared_ptr<OutputPool> pool, std::shared_ptr<OutputPool> arenas)
      : pool_(std::move(pool)), arenas_(std::move(arenas)) {}
  Device device() const override { return {}; }
  void begin() override { threads_.emplace(thread_count()); }
  void end() noexcept override {
    threads_.reset();
    if (borrowed_ > 0) pool_->end_use(std::exchange(borrowed_, 0));
  }
  Storage allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  bool lends() const override { return true; }
  Storage borrow(std::size_t bytes) override {
    Storage lent = arenas_->lend(bytes);
    pool_->begin_use(bytes);  // it counts as memory of this program's
    borrowed_ += bytes;
    return lent;
  }
  void begin_measuring() override { pool_->begin_measuring(); }
  std::uint64_t measured_bytes() const override { return pool_->measured_bytes(); }
  void copy(const Tensor& to, const Tensor& from) override { copy_strided(to, from); }
  void launch(const Launch& l, void* const* words) override {
    void* const* buffers = words + l.words;
    parallel_for(reinterpret_cast<KernelFunction>(const_cast<void*>(l.kernel)), buffers,
                 reinterpret_cast<const std::int64_t*>(buffers + l.buffer_count + 1), l.extent, l.chunks);
  }
  std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes& attributes) override {
    return make_library_op(op, attributes);
  }

 private:
  std::shared_ptr<OutputPool> pool_, arenas_;
  std::size_t borrowed_ = 0;
  std::optional<ThreadScope> threads_;
};

/// Memory that all programs of the process borrow for their runs. It goes with the last program.
std::shared_ptr<OutputPool> shared_arenas() {
  static std::mutex mutex;
  static std::weak_ptr<OutputPool> shared;
  std::lock_guard lock(mutex);
  std::shared_ptr<OutputPool> arenas = shared.lock();
  if (!arenas) shared = arenas = OutputPool::make(std::numeric_limits<std::size_t>::max() / 2);
  return arenas;
}

class CpuRuntime : public DeviceRuntime {
 public:
  ~CpuRuntime() override { arenas_->trim(); }  // another program may need much less
  Device device() const override { return {}; }
  std::unique_ptr<LoadedKernels> load(const std::string& isa,
                                      std::span<const std::vector<std::byte>> libraries) override {
    require_isa(isa);
    return std::make_unique<HostKernels>(libraries);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(pool_, arenas_); }

 private:
  std::shared_ptr<OutputPool> pool_ = OutputPool::make(), arenas_ = shared_arenas();
};

[[maybe_unused]] const bool kRegistered = (register_device(DeviceType::CPU, [](int) { return open_cpu(); }), true);

}  // namespace

std::shared_ptr<DeviceRuntime> open_cpu() { return std::make_shared<CpuRuntime>(); }

}  // namespace coil::runtime
