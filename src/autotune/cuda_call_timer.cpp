// Times library calls on a CUDA device, on memory of its own, with the second-level cache emptied before each.
#include <algorithm>

#include "autotune/products.h"
#include "autotune/timer.h"
#include "runtime/cuda/driver/blas.h"
#include "support/error.h"

namespace coil::autotune {
namespace {

using namespace runtime::cuda;

/// Bytes that a view spans.
std::size_t bytes_of(const runtime::BoundView& v) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] == 0) return 0;
    last += (v.sizes[d] - 1) * v.strides[d];
  }
  return static_cast<std::size_t>(last + 1) * size_of(v.dtype);
}

class CudaCallTimer : public CallTimer {
 public:
  explicit CudaCallTimer(int index)
      : device_(std::make_shared<const CudaDevice>(Driver::open(), index)), queue_(device_) {
    const runtime::QueueScope scope(queue_);
    identity_ = queue_.blas().identity();
    for (Event* e : {&begin_, &end_}) device_->driver().check(device_->driver().event_create(e, 0), "make an event");
    flushed_bytes_ = 2 * static_cast<std::size_t>(std::max(device_->cache_bytes(), 0));
    if (device_->driver().allocate(&flushed_, flushed_bytes_) != kSuccess) flushed_ = 0;
  }
  ~CudaCallTimer() override {
    const CurrentContext current(*device_);
    if (flushed_) device_->driver().release(flushed_);
    for (Event e : {begin_, end_})
      if (e) device_->driver().event_destroy(e);
  }

  const std::string& identity() const override { return identity_; }

  std::vector<std::optional<double>> time(std::span<const CallTrial> trials) override {
    const runtime::QueueScope scope(queue_);
    std::vector<Ready> ready(trials.size());
    try {
      for (std::size_t k = 0; k < trials.size(); ++k) prepare(trials[k], ready[k], k == 0 ? nullptr : &ready[0]);
    } catch (const Error&) {
      // No room, or nothing that the library can do: the call is left as it is.
      return std::vector<std::optional<double>>(trials.size());
    }
    return time_in_turns(trials.size(),
                         [&](std::size_t k) { return ready[k].op ? std::optional(once(ready[k])) : std::nullopt; });
  }

 private:
  struct Ready {
    std::unique_ptr<runtime::LibraryOp> op;
    std::vector<Storage> memory;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    void* workspace = nullptr;
  };

  void* take(Ready& r, std::size_t bytes) {
    const Driver& d = device_->driver();
    std::size_t free = 0, total = 0;
    d.check(d.memory_info(&free, &total), "tell how much memory is free");
    if (bytes > free / 2) fail("there is no room for {} bytes", bytes);  // the caller's program needs memory too
    r.memory.push_back(queue_.allocate(std::max<std::size_t>(bytes, 1)));
    void* const at = r.memory.back().data.get();
    d.check(
        d.fill_bytes(reinterpret_cast<Address>(at), kSmallNumbers, std::max<std::size_t>(bytes, 1), queue_.stream()),
        "fill memory");
    return at;
  }

  /// `like`: a trial of the same call, whose operands serve again.
  void prepare(const CallTrial& trial, Ready& r, const Ready* like) {
    auto op = runtime::make_library_op(queue_, trial.op, trial.attributes);
    op->prepare(trial.inputs, trial.outputs);
    if (op->runs_on_host()) return;
    if (like) {
      r.inputs = like->inputs;
      r.outputs = like->outputs;
    } else {
      for (const auto& v : trial.inputs) r.inputs.push_back(take(r, bytes_of(v)));
      for (const auto& v : trial.outputs) r.outputs.push_back(take(r, bytes_of(v)));
    }
    r.workspace = take(r, op->workspace_bytes());
    r.op = std::move(op);
  }

  double once(Ready& r) {
    const Driver& d = device_->driver();
    if (flushed_) d.check(d.fill_bytes(flushed_, 0, flushed_bytes_, queue_.stream()), "fill memory");
    d.check(d.event_record(begin_, queue_.stream()), "mark a time");
    r.op->run(r.inputs, r.outputs, r.workspace);
    d.check(d.event_record(end_, queue_.stream()), "mark a time");
    queue_.wait();
    float milliseconds = 0;
    d.check(d.event_elapsed(&milliseconds, begin_, end_), "tell a time");
    return milliseconds;
  }

  std::shared_ptr<const CudaDevice> device_;
  CudaQueue queue_;
  std::string identity_;
  Event begin_ = nullptr, end_ = nullptr;
  Address flushed_ = 0;  ///< memory that is written to, to empty the cache
  std::size_t flushed_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CallTimer> make_cuda_call_timer(int index) { return std::make_unique<CudaCallTimer>(index); }

}  // namespace coil::autotune
