// The CPU as a device: kernels are functions of shared objects, run on OpenMP's threads; memory comes from a pool that
// keeps its pages.
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
  explicit CpuQueue(std::shared_ptr<OutputPool> pool) : pool_(std::move(pool)) {}
  Device device() const override { return {}; }
  void begin() override { threads_.emplace(thread_count()); }
  void end() noexcept override { threads_.reset(); }
  Storage allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  bool lends() const override { return true; }
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
  std::shared_ptr<OutputPool> pool_;
  std::optional<ThreadScope> threads_;
};

class CpuRuntime : public DeviceRuntime {
 public:
  ~CpuRuntime() override { heap_->trim(); }  // another program may need much less
  Device device() const override { return {}; }
  std::unique_ptr<LoadedKernels> load(const std::string& isa,
                                      std::span<const std::vector<std::byte>> libraries) override {
    require_isa(isa);
    return std::make_unique<HostKernels>(libraries);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(pool_); }

 private:
  std::shared_ptr<PageHeap> heap_ = PageHeap::shared();
  std::shared_ptr<OutputPool> pool_ = OutputPool::make(heap_);
};

[[maybe_unused]] const bool kRegistered = (register_device(DeviceType::CPU, [](int) { return open_cpu(); }), true);

}  // namespace

std::shared_ptr<DeviceRuntime> open_cpu() { return std::make_shared<CpuRuntime>(); }

}  // namespace coil::runtime
