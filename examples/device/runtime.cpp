// What the executor asks of the device: memory, copies, launches of kernels, in order on a stream.
#include "runtime/device/kernel_library.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"
#include "toy.h"

namespace toy {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 30;

class Runtime : public coil::runtime::DeviceRuntime {
 public:
  Runtime(coil::Device device, std::shared_ptr<Memory> memory) : device_(device), memory_(std::move(memory)) {}
  coil::Device device() const override { return device_; }
  std::unique_ptr<coil::runtime::LoadedKernels> load(const std::string& isa,
                                                     std::span<const std::vector<std::byte>> libraries) override {
    if (isa != kArchitecture) coil::fail("kernels for '{}' do not run on {}", isa, to_string(device_));
    return std::make_unique<coil::runtime::HostKernels>(libraries);
  }
  std::unique_ptr<coil::runtime::Queue> make_queue() override { return std::make_unique<Queue>(device_, memory_); }

 private:
  const coil::Device device_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace

Queue::~Queue() {
  stream_->record().wait();  // what failed has nobody left to tell
}

coil::Storage Queue::allocate(std::size_t bytes) {
  if (allocate_) return allocate_(bytes);
  std::byte* address = memory_->allocate(bytes);
  if (!address) {
    wait();  // for memory that goes back when work is done
    address = memory_->allocate(bytes);
  }
  if (!address) fail_for_memory(bytes);
  auto release = [memory = memory_, stream = stream_](std::byte* p) {
    stream->submit_always([memory, p] { memory->release(p); });
  };
  return {std::shared_ptr<std::byte>(address, release), bytes, device_};
}

/// The tensor as the machine's own code finds it.
coil::Tensor Queue::here(const coil::Tensor& t) const {
  if (!t.device().is_host() && t.device() != device_)
    coil::fail("{} copies nothing from or to {}", to_string(device_), to_string(t.device()));
  coil::Tensor found = t;
  if (t.device() == device_) found.storage.data = {std::shared_ptr<std::byte>(), at(t.storage.data.get())};
  return found;
}

void Queue::copy(const coil::Tensor& to, const coil::Tensor& from) {
  submit([to = here(to), from = here(from)] { coil::runtime::copy_strided(to, from); });
}

void Queue::launch(const coil::runtime::Launch& l, void* const* words) {
  const coil::runtime::LaunchArguments given(l, words);
  std::vector<void*> buffers;
  for (void* b : given.buffers) buffers.push_back(at(b));
  submit([this, kernel = reinterpret_cast<KernelFunction>(const_cast<void*>(l.kernel)), blocks = l.grid[0],
          buffers = std::move(buffers), scalars = std::vector(given.scalars.begin(), given.scalars.end()),
          status = at(given.status)] {
    if (status && status->run_failed) return;
    std::int64_t failed = 0;
    for (std::int64_t block = 0; block < blocks; ++block) kernel(buffers.data(), scalars.data(), block, &failed);
    if (!failed || !status) return;
    *status->host_word = 1;
    for (std::int64_t i = 0; i < status->count; ++i) at(status->all)[i].run_failed = 1;
  });
}

void Queue::set_stream(void* stream) {
  std::shared_ptr<Stream> next = stream ? std::shared_ptr<Stream>(own_, static_cast<Stream*>(stream)) : own_;
  if (next.get() != stream_.get()) next->wait_for(stream_->record());
  stream_ = std::move(next);
}

std::shared_ptr<coil::runtime::DeviceRuntime> open(int index) {
  static const std::vector<std::shared_ptr<Memory>> memories = {std::make_shared<Memory>(kBytes),
                                                                std::make_shared<Memory>(kBytes)};
  const auto at = static_cast<std::size_t>(index);
  if (at >= memories.size()) coil::fail("there is no device toy:{}; there are {}", index, memories.size());
  return std::make_shared<Runtime>(coil::Device{coil::DeviceType::named("toy"), index}, memories[at]);
}

}  // namespace toy

/// Streams for callers that have work of their own (Queue::set_stream). They outlive the queues that work on them.
extern "C" COIL_EXTENSION_API void* toy_stream_create() { return new toy::Stream(); }
extern "C" COIL_EXTENSION_API void toy_stream_destroy(void* stream) { delete static_cast<toy::Stream*>(stream); }
