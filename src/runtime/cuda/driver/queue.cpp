#include "runtime/cuda/driver/queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

#include "runtime/cuda/driver/blas.h"
#include "runtime/cuda/driver/dnn.h"
#include "runtime/cuda/driver/tensor_maps.h"
#include "runtime/cuda/groups/peer_sums.h"
#include "runtime/plan/tensor_map.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"
#include "support/out_of_memory.h"

namespace coil::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a queue waits for work to leave the device when an exchange in it has failed, for how long it looks without
/// a pause whether the work has ended, and the pauses then.
constexpr std::chrono::milliseconds kToLeave{3000}, kEager{1};
constexpr std::chrono::microseconds kPause{50};

constexpr std::uint32_t kSharedUnasked = 48 << 10;  // a block gets more only after its function was told

Address address(const Tensor& t) { return reinterpret_cast<Address>(t.bytes()); }

std::size_t bytes_of(const Tensor& t) { return static_cast<std::size_t>(t.numel()) * size_of(t.dtype); }

class CudaGraph : public RecordedWork {
 public:
  CudaGraph(std::shared_ptr<const CudaDevice> device, GraphExec exec,
            std::vector<std::shared_ptr<QueueWatcher>> watchers)
      : device_(std::move(device)), exec_(exec), watchers_(std::move(watchers)) {}
  ~CudaGraph() override {
    const CurrentContext current(*device_);
    device_->driver().graph_exec_destroy(exec_);
  }
  GraphExec exec() const { return exec_; }
  const std::vector<std::shared_ptr<QueueWatcher>>& watchers() const { return watchers_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  GraphExec exec_;
  std::vector<std::shared_ptr<QueueWatcher>> watchers_;
};

}  // namespace

CudaQueue::CudaQueue(std::shared_ptr<const CudaDevice> device)
    : device_(std::move(device)), pool_(MemoryPool::make(device_)) {
  const CurrentContext current(*device_);
  // Not kStreamNonBlocking: so it keeps order with the default stream, on which others put their work.
  driver().check(driver().stream_create(&own_, kStreamDefault), "make a stream");
  stream_ = own_;
}

CudaQueue::~CudaQueue() {
  const CurrentContext current(*device_);
  if (!work_ends()) {
    // Every release would wait for the device, for ever: all that its work may use stays.
    new std::tuple(std::move(pool_), std::move(fence_), std::move(blas_), std::move(dnn_), std::move(copier_),
                   std::move(peer_sums_));
    return;
  }
  blas_.reset();
  dnn_.reset();
  copier_.reset();
  peer_sums_.reset();
  for (void* words : shared_) driver().host_release(words);
  for (Stream s : side_) driver().stream_destroy(s);
  driver().stream_destroy(own_);
}

void CudaQueue::begin() {
  if (depth_ == 0) {
    in_flight_.add_anything();  // others may have queued work since
    driver().check(driver().context_current(&before_), "tell the current context");
    if (before_ != device_->context()) driver().check(driver().context_set(device_->context()), "switch to the device");
  }
  ++depth_;
}

void CudaQueue::end() noexcept {
  if (--depth_ == 0 && before_ != device_->context()) driver().context_set(before_);
}

std::span<std::int64_t> CudaQueue::shared_words(std::size_t count) {
  void* words = nullptr;
  driver().check(driver().host_allocate(&words, std::max<std::size_t>(count, 1) * sizeof(std::int64_t),
                                        kHostAllocPortable | kHostAllocMapped),
                 "allocate memory that the host shares");
  shared_.push_back(words);
  std::memset(words, 0, count * sizeof(std::int64_t));
  return {static_cast<std::int64_t*>(words), count};
}

Storage CudaQueue::allocate_on_host(std::size_t bytes) {
  if (!host_memory_) host_memory_ = std::make_shared<HostMemory>(device_);
  return host_memory_->allocate(bytes);
}

Storage CudaQueue::allocate_apart(std::size_t bytes) {
  if (allocate_) return allocate_(bytes);
  Address address = 0;
  const Result result = driver().allocate(&address, bytes);
  if (result == kOutOfMemory)
    fail_out_of_memory("out of memory on {}: {} bytes were asked for", device_->describe(), bytes);
  driver().check(result, "allocate memory");
  const auto release = [device = device_](std::byte* memory) {
    const CurrentContext current(*device);
    device->driver().release(reinterpret_cast<Address>(memory));
  };
  return {std::shared_ptr<std::byte>(reinterpret_cast<std::byte*>(address), release), bytes, device()};
}

Tensor CudaQueue::dense_here(const Tensor& like) {
  return {allocate(bytes_of(like)), like.dtype, like.sizes, contiguous_strides(like.sizes), 0};
}

void CudaQueue::end_library_work() {
  // Only a kernel that directly follows another can begin before that one ends.
  if (!record_nothing())
    driver().check(driver().fill_bytes(reinterpret_cast<Address>(fence_.data.get()), 0, 1, stream()), "fill memory");
  in_flight().clear();
}

bool CudaQueue::record_nothing() {
  if (!driver().capture_info || !driver().graph_add_empty || !driver().capture_behind) return false;
  int status = 0;
  Graph graph = nullptr;
  const GraphNode* before = nullptr;
  std::size_t count = 0;
  if (driver().capture_info(stream(), &status, nullptr, &graph, &before, &count) != kSuccess) return false;
  if (status != kCaptureActive) return false;
  GraphNode nothing = nullptr;
  return driver().graph_add_empty(&nothing, graph, before, count) == kSuccess &&
         driver().capture_behind(stream(), &nothing, 1, kSetCaptureDependencies) == kSuccess;
}

void CudaQueue::copy_here(const Tensor& to, const Tensor& from) {
  in_flight().clear();
  if (same_layout(to.sizes, to.strides, from.strides) && is_one_piece(to.sizes, to.strides)) {
    driver().check(driver().copy_on_device(address(to), address(from), bytes_of(to), stream()), "copy memory");
    return;
  }
  if (!copier_) copier_ = std::make_unique<Copier>(device_);
  copier_->copy(to, from, stream());
}

void CudaQueue::copy(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const bool to_here = to.device() == device(), from_here = from.device() == device();
  if (!to_here && !from_here) return copy_strided(to, from);
  if (to_here && from_here) return copy_here(to, from);
  const bool direct = same_layout(to.sizes, to.strides, from.strides) && is_one_piece(to.sizes, to.strides);
  if (to_here) {
    const Tensor dense = direct ? from : from.contiguous();
    const Tensor landing = direct ? to : dense_here(to);
    driver().check(driver().copy_to_device(address(landing), dense.bytes(), bytes_of(to), stream()),
                   "copy memory to the device");
    if (!direct) copy_here(to, landing);
    return;
  }
  const Tensor dense = direct ? from : dense_here(from);
  if (!direct) copy_here(dense, from);
  const Tensor landing = direct ? to : Tensor::empty(to.dtype, to.sizes);
  driver().check(driver().copy_to_host(landing.bytes(), address(dense), bytes_of(to), stream()),
                 "copy memory to the host");
  wait();
  if (!direct) copy_strided(to, landing);
}

void CudaQueue::copy_ahead(const Tensor& to, const Tensor& from) {
  const bool one_piece = same_layout(to.sizes, to.strides, from.strides) && is_one_piece(to.sizes, to.strides);
  if (to.numel() == 0 || !one_piece || !to.device().is_host() || from.device() != device()) return copy(to, from);
  driver().check(driver().copy_to_host(to.bytes(), address(from), bytes_of(to), stream()), "copy memory to the host");
}

void CudaQueue::launch(const Launch& l, void* const* words) {
  // Behind work that lets nobody begin, asking for it costs some of a microsecond.
  const bool asks = l.early && in_flight().lets_begin();
  in_flight().clear();
  if (l.early) in_flight().add_anything();
  in_flight().set_lets_begin(l.early);
  auto* function = static_cast<Function>(const_cast<void*>(l.kernel));
  if (l.shared_bytes > kSharedUnasked) {
    if (l.shared_bytes > static_cast<std::uint32_t>(device_->shared_bytes()))
      fail("a kernel needs {} bytes of shared memory, but a block on {} has {}", l.shared_bytes, device_->describe(),
           device_->shared_bytes());
    driver().check(driver().function_set(function, kFunctionMaxDynamicShared, static_cast<int>(l.shared_bytes)),
                   "give a kernel shared memory");
  }
  if (makes_maps_ && driver().function_parameter)
    if (const auto& places = arguments_apart(function); !places.empty()) {
      std::vector<void*> each;
      for (std::uint32_t at : places)
        each.push_back(reinterpret_cast<std::byte*>(const_cast<void**>(words + l.words)) + at);
      return driver().check(driver().launch(function, l.grid[0], l.grid[1], l.grid[2], l.block, 1, 1, l.shared_bytes,
                                            stream(), each.data(), nullptr),
                            "launch a kernel");
    }
  std::size_t bytes = l.word_count * sizeof(void*);
  void* arguments[] = {kLaunchBuffer, const_cast<void**>(words + l.words), kLaunchBufferSize, &bytes, kLaunchEnd};
  if (asks) {
    LaunchAttribute early{kLaunchEarly, 1};
    const LaunchConfig config{{l.grid[0], l.grid[1], l.grid[2]}, {l.block, 1, 1}, l.shared_bytes, stream(), &early, 1};
    return driver().check(driver().launch_with(&config, function, nullptr, arguments), "launch a kernel");
  }
  driver().check(driver().launch(function, l.grid[0], l.grid[1], l.grid[2], l.block, 1, 1, l.shared_bytes, stream(),
                                 nullptr, arguments),
                 "launch a kernel");
}

/// A kernel's tensor maps are aligned where the driver puts them, behind what it has before the kernel's own arguments:
/// a block that is aligned from its beginning on would have them elsewhere, so each argument is handed over by itself.
const std::vector<std::uint32_t>& CudaQueue::arguments_apart(Function function) {
  const auto [found, is_new] = apart_.try_emplace(function);
  if (!is_new) return found->second;
  std::vector<std::uint32_t> places;
  std::size_t at = 0, offset = 0, size = 0;
  bool takes_maps = false;
  for (std::size_t k = 0; driver().function_parameter(function, k, &offset, &size) == kSuccess; ++k) {
    const std::size_t aligned =
        size == kTensorMapBytes ? std::size_t{kTensorMapAlignment} : std::max<std::size_t>(size, 1);
    at = (at + aligned - 1) / aligned * aligned;
    places.push_back(static_cast<std::uint32_t>(at));
    at += size;
    takes_maps = takes_maps || size == kTensorMapBytes;
  }
  if (takes_maps) found->second = std::move(places);
  return found->second;
}

void CudaQueue::make_tensor_map(const TensorMapShape& shape, void* address, void* to) {
  cuda::make_tensor_map(driver(), shape, address, to);
  makes_maps_ = true;
}

void CudaQueue::wait() {
  if (watchers_.empty()) return driver().check(driver().stream_wait(stream_), "finish its work");
  const bool ended = work_ends();
  for (const auto& w : watchers_) w->check();
  if (ended) driver().check(driver().stream_query(stream_), "finish its work");
}

bool CudaQueue::has_failed() const {
  try {
    for (const auto& w : watchers_) w->check();
    return false;
  } catch (const Error&) {
    return true;
  }
}

bool CudaQueue::work_ends() const {
  if (watchers_.empty()) {
    driver().stream_wait(stream_);
    return true;
  }
  const auto begun = Clock::now();
  std::optional<Clock::time_point> failed;
  while (driver().stream_query(stream_) == kNotReady) {
    const auto now = Clock::now();
    if (!failed && has_failed()) failed = now;
    if (failed && now - *failed > kToLeave) return false;
    if (now - begun > kEager) std::this_thread::sleep_for(kPause);
  }
  return true;
}

void CudaQueue::watch(const std::shared_ptr<QueueWatcher>& watcher) {
  const auto add = [&](auto& to) {
    if (std::ranges::find(to, watcher) == to.end()) to.push_back(watcher);
  };
  add(watchers_);
  if (recording_) add(recording_->watchers);
}

void CudaQueue::set_stream(void* stream) {
  const Stream next = stream ? static_cast<Stream>(stream) : own_;
  if (next == stream_) return;
  Event done = nullptr;
  driver().check(driver().event_create(&done, kEventNoTiming), "make an event");
  const Result recorded = driver().event_record(done, stream_),
               waits = recorded == kSuccess ? driver().stream_wait_event(next, done, 0) : recorded;
  driver().event_destroy(done);
  driver().check(waits, "put one stream behind another");
  stream_ = next;
}

bool CudaQueue::begin_recording() {
  // The default stream cannot be recorded, so that the queue's own is.
  if (driver().capture_begin(own_, kCaptureThreadLocal) != kSuccess) return false;
  recording_ = Recording{};
  recording_->lanes = {own_};
  recording_->in_flight.resize(1);
  return true;
}

Event CudaQueue::mark(Stream stream) {
  Event event = nullptr;
  driver().check(driver().event_create(&event, kEventNoTiming), "make an event");
  const Result result = driver().event_record(event, stream);
  if (result != kSuccess) driver().event_destroy(event);
  driver().check(result, "mark a place in a recording");
  return event;
}

void CudaQueue::wait_for(Stream stream, Event event) {
  driver().check(driver().stream_wait_event(stream, event, 0), "put recorded work behind other work");
}

void CudaQueue::begin_step(const StepOrder& order) {
  Recording& r = *recording_;
  if (!r.begun) r.begun = mark(own_);
  while (r.lanes.size() <= order.lane) {
    if (side_.size() < r.lanes.size()) {
      Stream made = nullptr;
      driver().check(driver().stream_create(&made, kStreamNonBlocking), "make a stream");
      side_.push_back(made);
    }
    r.lanes.push_back(side_[r.lanes.size() - 1]);
    r.in_flight.emplace_back();
    wait_for(r.lanes.back(), r.begun);
  }
  r.lane = order.lane;
  // A kernel of a library may begin before what its lane waits for has ended, as it may on one lane.
  for (std::uint32_t step : order.after) {
    const Recording::Done& done = r.done.at(step);
    wait_for(stream(), done.event);
    in_flight().add(done.in_flight);
    in_flight().set_lets_begin(false);
  }
}

void CudaQueue::end_step(const StepOrder& order) {
  if (order.awaited)
    recording_->done.push_back({mark(stream()), in_flight()});
  else
    recording_->done.emplace_back();
}

/// Everything recorded ends on the first lane.
void CudaQueue::end_lanes() {
  Recording& r = *recording_;
  for (const auto& w : r.watchers) w->end_recording(own_);
  for (std::size_t l = 1; l < r.lanes.size(); ++l) {
    r.done.push_back({mark(r.lanes[l]), r.in_flight[l]});
    wait_for(own_, r.done.back().event);
  }
}

std::unique_ptr<RecordedWork> CudaQueue::end_recording() {
  std::string failure;
  try {
    end_lanes();
  } catch (const Error& e) {
    failure = e.what();
  }
  for (const Recording::Done& done : recording_->done)
    if (done.event) driver().event_destroy(done.event);
  if (recording_->begun) driver().event_destroy(recording_->begun);
  auto watchers = std::move(recording_->watchers);
  recording_.reset();
  Graph graph = nullptr;
  const Result ended = driver().capture_end(own_, &graph);  // always: no stream may stay behind in a recording
  if (!failure.empty()) {
    if (ended == kSuccess && graph) driver().graph_destroy(graph);
    fail("{}", failure);
  }
  driver().check(ended, "record a graph");
  GraphExec exec = nullptr;
  const Result result = driver().graph_instantiate(&exec, graph, 0);
  driver().graph_destroy(graph);
  driver().check(result, "make a graph ready to run");
  return std::make_unique<CudaGraph>(device_, exec, std::move(watchers));
}

void CudaQueue::run_recorded(const RecordedWork& work) {
  in_flight_.add_anything();
  const auto& graph = static_cast<const CudaGraph&>(work);
  for (const auto& w : graph.watchers()) w->check();  // the caller may never wait for the queue
  for (const auto& w : watchers_) w->before_launch(stream_);
  driver().check(driver().graph_launch(graph.exec(), stream_), "launch a graph");
  for (const auto& w : graph.watchers()) w->launched(stream_);
}

std::unique_ptr<LibraryOp> CudaQueue::make_op(const std::string& op, const Attributes& attributes) {
  return make_library_op(*this, op, attributes);
}

Blas& CudaQueue::blas() {
  if (!blas_) blas_ = std::make_unique<Blas>(*this);
  return *blas_;
}

PeerSums& CudaQueue::peer_sums() {
  if (!peer_sums_) peer_sums_ = std::make_unique<PeerSums>(device_);
  return *peer_sums_;
}

Dnn& CudaQueue::dnn() {
  if (!dnn_) {
    fence_ = pool_->allocate(1, planned_bytes);
    dnn_ = std::make_unique<Dnn>(*this);
  }
  return *dnn_;
}

}  // namespace coil::runtime::cuda
