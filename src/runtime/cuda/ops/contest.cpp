#include "runtime/cuda/ops/contest.h"

#include <algorithm>
#include <limits>

#include "runtime/views/strided_copy.h"
#include "support/out_of_memory.h"

namespace coil::runtime::cuda {
namespace {

constexpr double kMilliseconds = 1e3;    // of a second
constexpr double kSlack = 4;             // times the least that a call may take
constexpr double kWorthwhile = 0.03;     // milliseconds that could be gained
constexpr double kCalls = 500;           // in which what could be gained makes up for the trials
constexpr int kRuns = 2, kMostRuns = 5;  // that are timed: of each call, of one that seems slow
constexpr double kClearlyFaster = 0.85;  // of the time so far

/// Multiplications with an addition that a multiprocessor does in a cycle: on matrix units what the first generation
/// with such operands does (compute capability 8.0), else one for each lane.
double rate(const Work& work) {
  switch (work.dtype) {
    case DType::F16:
    case DType::BF16: return 1024;
    case DType::F32: return work.tf32 ? 512 : 128;
    default: return 32;
  }
}

}  // namespace

double Work::least(const CudaDevice& device) const {
  return kMilliseconds *
         std::max(bytes / device.bytes_per_second(), multiplications / (device.cycles_per_second() * rate(*this)));
}

Contest::Contest(CudaQueue& queue, std::span<const BoundView> inputs, std::span<const BoundView> outputs,
                 const Work& work)
    : queue_(queue), least_(work.least(queue.cuda())) {
  const Driver& d = queue.driver();
  try {
    inputs_ = allocate(inputs);
    for (const void* output : allocate(outputs)) outputs_.push_back(const_cast<void*>(output));
  } catch (const OutOfMemory&) {
    memory_.clear();  // the first call wins
    return;
  }
  d.check(d.event_create(&begin_, 0), "make an event");
  d.check(d.event_create(&end_, 0), "make an event");
}

Contest::~Contest() {
  for (Event event : {begin_, end_})
    if (event) queue_.driver().event_destroy(event);
}

bool Contest::may_be_held(const CudaQueue& queue) {
  int status = 0;
  return !queue.is_recording() && queue.driver().capture_status(queue.stream(), &status) == kSuccess && status == 0;
}

std::vector<const void*> Contest::allocate(std::span<const BoundView> views) {
  std::vector<const void*> out;
  for (const BoundView& v : views) {
    const auto bytes = static_cast<std::size_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype);
    memory_.push_back(queue_.allocate_apart(std::max<std::size_t>(bytes, 1)));
    out.push_back(memory_.back().data.get());
  }
  return out;
}

double Contest::milliseconds(PreparedCall& call) {
  if (!begin_) return std::numeric_limits<double>::infinity();
  const Driver& d = queue_.driver();
  Storage workspace;
  try {
    workspace = queue_.allocate_apart(std::max<std::size_t>(call.workspace_bytes(), 1));
  } catch (const OutOfMemory&) {
    return std::numeric_limits<double>::infinity();
  }
  double least = std::numeric_limits<double>::infinity();
  // A call that seems slow may have shared the device with another process.
  for (int run = 0; run <= kRuns || (run <= kMostRuns && least > kSlack * least_ + kWorthwhile); ++run) {
    d.check(d.event_record(begin_, queue_.stream()), "mark a place in its stream");
    call.run(inputs_, outputs_, workspace.data.get());
    d.check(d.event_record(end_, queue_.stream()), "mark a place in its stream");
    d.check(d.event_wait(end_), "wait for its stream");
    float time = 0;
    d.check(d.event_elapsed(&time, begin_, end_), "tell a time");
    if (run > 0) least = std::min(least, static_cast<double>(time));
  }
  return least;
}

void Contest::enter(std::unique_ptr<PreparedCall> call) {
  if (!call) return;
  const double time = milliseconds(*call);
  if (call_ && !(time < kClearlyFaster * best_)) return;
  if (!call_) begun_ = std::chrono::steady_clock::now();
  call_ = std::move(call);
  best_ = time;
}

bool Contest::is_open() const {
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begun_;
  const double gain = best_ - least_;
  return begin_ && best_ > kSlack * least_ && gain > kWorthwhile && spent.count() < kCalls * gain;
}

}  // namespace coil::runtime::cuda
