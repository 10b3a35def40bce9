#include "autotune/cuda_timer.h"

#include <algorithm>

#include "runtime/cuda/driver/modules.h"
#include "runtime/cuda/driver/tensor_maps.h"
#include "support/error.h"

namespace coil::autotune {
namespace {

using namespace runtime::cuda;

constexpr std::uint64_t kAligned = 512;
constexpr std::uint32_t kSharedUnasked = 48 << 10;
// Bytes of buffers that hold zeros again before each launch: some are what blocks count in.
constexpr std::uint64_t kCleared = 1 << 18;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

/// Status words, and behind them the buffers.
std::uint64_t bytes_of(const Trial& t) {
  std::uint64_t sum = kAligned;
  for (std::uint64_t b : t.buffers) sum += aligned(b + kAligned);
  return sum;
}

/// The argument block of a trial: buffers behind the status words at `memory`.
std::vector<std::uint64_t> arguments_of(const Trial& t, Address memory) {
  std::vector<std::uint64_t> words;
  Address at = memory + kAligned;
  for (std::uint64_t b : t.buffers) words.push_back(at), at += aligned(b + kAligned);
  for (std::size_t k = 0; k < t.scalars.size(); ++k) {
    const auto number = static_cast<std::uint64_t>(t.scalars[k]);
    if (t.scalar_bytes == 8)
      words.push_back(number);
    else if (k % 2 == 0)
      words.push_back(number & 0xffffffff);
    else
      words.back() |= number << 32;
  }
  if (t.status) words.push_back(memory);
  words.insert(words.end(), t.scratch_words, 0);
  return words;
}

std::string identity_of(const CudaDevice& device) {
  return fmt::format("{} (sm_{}), CUDA {}", device.name(), device.capability(), device.driver().version());
}

}  // namespace

std::string cuda_identity(int index) {
  try {
    return identity_of(CudaDevice(Driver::open(), index));
  } catch (const Error&) {
    return {};
  }
}

CudaTimer::CudaTimer(int index, std::string isa, const std::string& driver_library)
    : device_(std::make_shared<const CudaDevice>(Driver::open(driver_library), index)), isa_(std::move(isa)) {
  const Driver& d = device_->driver();
  identity_ = identity_of(*device_);
  if (!runs_on(isa_, device_->capability())) fail("kernels for {} do not run on {}", isa_, device_->describe());
  const CurrentContext current(*device_);
  d.check(d.stream_create(&stream_, kStreamNonBlocking), "make a stream");
  d.check(d.event_create(&begin_, 0), "make an event");
  d.check(d.event_create(&end_, 0), "make an event");
  flushed_bytes_ = 2 * static_cast<std::size_t>(std::max(device_->cache_bytes(), 0));
  if (d.allocate(&flushed_, flushed_bytes_) != kSuccess) flushed_ = 0;
}

CudaTimer::~CudaTimer() {
  const CurrentContext current(*device_);
  const Driver& d = device_->driver();
  if (stream_) d.stream_wait(stream_);
  kernels_.reset();
  if (flushed_) d.release(flushed_);
  for (Event e : {begin_, end_})
    if (e) d.event_destroy(e);
  if (stream_) d.stream_destroy(stream_);
}

void CudaTimer::load(std::span<const std::vector<std::byte>> libraries) {
  kernels_ = load_modules(device_, isa_, libraries);
}

bool CudaTimer::launch(const Trial& t, Address memory) {
  const Driver& d = device_->driver();
  auto* function = static_cast<Function>(const_cast<void*>(kernels_->find(t.symbol)));
  if (!function || t.shared_bytes > static_cast<std::uint32_t>(device_->shared_bytes())) return false;
  if (t.shared_bytes > kSharedUnasked &&
      d.function_set(function, kFunctionMaxDynamicShared, static_cast<int>(t.shared_bytes)) != kSuccess)
    return false;
  std::vector<std::uint64_t> words = arguments_of(t, memory);
  if (!t.maps.empty()) return launch_with_maps(t, function, words);
  std::size_t bytes = words.size() * sizeof words[0];
  void* arguments[] = {kLaunchBuffer, words.data(), kLaunchBufferSize, &bytes, kLaunchEnd};
  return d.launch(function, t.grid[0], t.grid[1], t.grid[2], t.block, 1, 1, t.shared_bytes, stream_, nullptr,
                  arguments) == kSuccess;
}

bool CudaTimer::launch_with_maps(const Trial& t, Function function, std::vector<std::uint64_t>& words) {
  struct alignas(runtime::kTensorMapAlignment) Made {
    std::byte bytes[runtime::kTensorMapBytes];
  };
  std::vector<Made> made(t.maps.size());
  std::vector<void*> each;
  for (std::uint64_t& word : words) each.push_back(&word);
  for (std::size_t k = 0; k < made.size(); ++k) {
    const Trial::Map& m = t.maps[k];
    make_tensor_map(device_->driver(), m.shape, reinterpret_cast<void*>(words[m.buffer] + m.offset), made[k].bytes);
    each.push_back(made[k].bytes);
  }
  return device_->driver().launch(function, t.grid[0], t.grid[1], t.grid[2], t.block, 1, 1, t.shared_bytes, stream_,
                                  each.data(), nullptr) == kSuccess;
}

std::optional<double> CudaTimer::once(const Trial& t, Address memory) {
  const Driver& d = device_->driver();
  if (flushed_) d.check(d.fill_bytes(flushed_, 0, flushed_bytes_, stream_), "fill memory");
  Address at = memory + kAligned;
  for (std::uint64_t b : t.buffers) {
    if (b > 0 && b <= kCleared) d.check(d.fill_bytes(at, t.fill, b, stream_), "fill memory");
    at += aligned(b + kAligned);
  }
  d.check(d.event_record(begin_, stream_), "mark a time");
  if (!launch(t, memory)) return std::nullopt;
  d.check(d.event_record(end_, stream_), "mark a time");
  d.check(d.stream_wait(stream_), "finish a measurement");
  float milliseconds = 0;
  d.check(d.event_elapsed(&milliseconds, begin_, end_), "tell a time");
  return milliseconds;
}

std::vector<std::optional<double>> CudaTimer::time(std::span<const Trial> trials) {
  const CurrentContext current(*device_);
  const Driver& d = device_->driver();
  std::uint64_t bytes = 0;
  for (const Trial& t : trials) bytes = std::max(bytes, bytes_of(t));
  std::size_t free = 0, total = 0;
  d.check(d.memory_info(&free, &total), "tell how much memory is free");
  // The caller's program needs memory too; what does not fit is left to the heuristics.
  Address memory = 0;
  if (bytes > free / 2 || d.allocate(&memory, bytes) != kSuccess)
    return std::vector<std::optional<double>>(trials.size());
  struct Release {
    const Driver& d;
    Address memory;
    Stream stream;
    ~Release() { d.stream_wait(stream), d.release(memory); }
  } release{d, memory, stream_};
  d.check(d.fill_bytes(memory, trials.empty() ? 0 : trials[0].fill, bytes, stream_), "fill memory");
  d.check(d.fill_bytes(memory, 0, std::min<std::uint64_t>(bytes, kAligned), stream_), "fill memory");
  // status[1], status[2]: where a failed index would be told.
  const std::uint64_t status[4] = {0, memory + 64, memory + 64, 0};
  d.check(d.copy_to_device(memory, status, sizeof status, stream_), "copy memory to the device");
  return time_in_turns(trials.size(), [&](std::size_t k) { return once(trials[k], memory); });
}

}  // namespace coil::autotune
