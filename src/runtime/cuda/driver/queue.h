// A stream of one CUDA device as the executor's queue.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>

#include "runtime/cuda/driver/copier.h"
#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/driver/host_memory.h"
#include "runtime/cuda/driver/in_flight.h"
#include "runtime/cuda/driver/pool.h"

namespace coil::runtime::cuda {

class Blas;
class Dnn;
class PeerSums;

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(std::shared_ptr<const CudaDevice>);
  ~CudaQueue() override;

  Device device() const override { return device_->device(); }
  void begin() override;
  void end() noexcept override;
  Storage allocate(std::size_t bytes) override {
    return allocate_ ? allocate_(bytes) : pool_->allocate(bytes, planned_bytes);
  }
  /// Memory that goes back at once and does not stay in the pool. Throws OutOfMemory.
  Storage allocate_apart(std::size_t bytes);
  void begin_measuring() override { pool_->begin_measuring(); }
  std::uint64_t measured_bytes() const override { return pool_->measured_bytes(); }
  std::span<std::int64_t> shared_words(std::size_t count) override;
  Storage allocate_on_host(std::size_t bytes) override;
  void copy(const Tensor& to, const Tensor& from) override;
  void copy_ahead(const Tensor& to, const Tensor& from) override;
  void launch(const Launch&, void* const* words) override;
  void make_tensor_map(const TensorMapShape&, void* address, void* to) override;
  std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes&) override;
  bool runs_ahead() const override { return true; }
  void wait() override;
  /// Work on the new stream waits for what is queued on the old one.
  void set_stream(void* stream) override;
  void set_allocator(std::function<Storage(std::size_t)> allocate) override { allocate_ = std::move(allocate); }
  bool begin_recording() override;
  std::unique_ptr<RecordedWork> end_recording() override;
  std::uint32_t lanes() const override { return kLanes; }
  void begin_step(const StepOrder&) override;
  void end_step(const StepOrder&) override;
  void run_recorded(const RecordedWork&) override;
  void* current_stream() const override { return stream(); }
  bool is_recording() const override { return recording_.has_value(); }
  void watch(const std::shared_ptr<QueueWatcher>&) override;

  const CudaDevice& cuda() const { return *device_; }
  const Driver& driver() const { return device_->driver(); }
  /// Where work goes now: while recording, the lane of the step.
  Stream stream() const { return recording_ ? recording_->lanes[recording_->lane] : stream_; }
  /// The libraries, opened when first asked for. Throws Error when they are not to be found.
  Blas& blas();
  Dnn& dnn();
  /// Kernels over memory that ranks share, loaded when first asked for.
  PeerSums& peer_sums();
  MemoryPool& pool() { return *pool_; }
  /// Kernels of libraries may let the kernel behind them begin before they end: what those on the stream, or on the
  /// lane of a recording, may still write.
  InFlight& in_flight() { return recording_ ? recording_->in_flight[recording_->lane] : in_flight_; }
  /// The next kernel begins when all before it has ended, whatever it asks for itself.
  void end_library_work();

 private:
  static constexpr std::uint32_t kLanes = 4;
  /// Work that is being recorded: the lanes are streams that part from the first and come back to it.
  struct Recording {
    std::vector<Stream> lanes;
    std::vector<InFlight> in_flight;  ///< for each lane
    std::uint32_t lane = 0;
    Event begun = nullptr;
    /// When a step that others wait for is done, and what the work up to it may still be writing then.
    struct Done {
      Event event = nullptr;
      InFlight in_flight;
    };
    std::vector<Done> done;  ///< for each step; without event where none waits for it
    std::vector<std::shared_ptr<QueueWatcher>> watchers;
  };
  /// Whether an exchange in its work has failed.
  bool has_failed() const;
  /// Returns when all work has ended, whatever came of it: true. False where an exchange failed and does not leave the
  /// device.
  bool work_ends() const;
  /// Where in its block each argument of a kernel lies that takes tensor maps; nothing of other kernels.
  const std::vector<std::uint32_t>& arguments_apart(Function);
  Event mark(Stream);
  void wait_for(Stream, Event);
  /// Puts a node that does nothing into what is being recorded. False: nothing is, or the driver cannot.
  bool record_nothing();
  void end_lanes();

  void copy_here(const Tensor& to, const Tensor& from);
  Tensor dense_here(const Tensor& like);

  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<MemoryPool> pool_;
  std::function<Storage(std::size_t)> allocate_;  ///< the caller's; none: the pool
  Stream own_ = nullptr, stream_ = nullptr;
  std::vector<Stream> side_;  ///< the lanes of recorded work beside the first, which is own_
  std::optional<Recording> recording_;
  std::vector<std::shared_ptr<QueueWatcher>> watchers_;
  InFlight in_flight_;
  bool makes_maps_ = false;  ///< it has made a tensor map, so that kernels may take some
  std::unordered_map<Function, std::vector<std::uint32_t>> apart_;
  Storage fence_;                   ///< what end_library_work writes to
  int depth_ = 0;                   ///< of begin … end
  ContextHandle before_ = nullptr;  ///< the thread's context at the outermost begin
  std::shared_ptr<HostMemory> host_memory_;
  std::vector<void*> shared_;  ///< host memory that kernels see
  std::unique_ptr<Copier> copier_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Dnn> dnn_;
  std::unique_ptr<PeerSums> peer_sums_;
};

}  // namespace coil::runtime::cuda
