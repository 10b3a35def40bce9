// What the executor asks of the device: memory, copies, launches of kernels, in order on a stream.
#include "runtime/device/kernel_library.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"
#include "toy.h"

namespace toy {
namespace {

using coil::runtime::HostKernels;
using coil::runtime::Launch;

constexpr int kDevices = 2;
constexpr std::size_t kBytes = std::size_t{1} << 30;

/// The status of a kernel that may fail is four words of the machine's memory (runtime/plan/plan.h, KernelCall):
/// whether the run failed, the word that the host looks at, the first such status, and how many there are.
struct Status {
  std::int64_t failed;
  std::int64_t* told;
  Status* all;
  std::int64_t count;
};

class Runtime : public coil::runtime::DeviceRuntime {
 public:
  Runtime(int index, std::shared_ptr<Memory> memory) : index_(index), memory_(std::move(memory)) {}
  coil::Device device() const override { return {coil::DeviceType::named("toy"), index_}; }
  std::unique_ptr<coil::runtime::LoadedKernels> load(const std::string& isa,
                                                     std::span<const std::vector<std::byte>> libraries) override {
    if (isa != kArchitecture) coil::fail("kernels for '{}' do not run on {}", isa, to_string(device()));
    return std::make_unique<HostKernels>(libraries);
  }
  std::unique_ptr<coil::runtime::Queue> make_queue() override { return std::make_unique<Queue>(index_, memory_); }

 private:
  const int index_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace

Queue::Queue(int index, std::shared_ptr<Memory> memory) : index_(index), memory_(std::move(memory)) {}

Queue::~Queue() {
  try {
    Queue::wait();
  } catch (...) {  // nobody is left to tell
  }
}

coil::Device Queue::device() const { return {coil::DeviceType::named("toy"), index_}; }

coil::Storage Queue::allocate(std::size_t bytes) {
  if (allocate_) return allocate_(bytes);
  std::byte* address = memory_->allocate(bytes);
  if (!address) {
    wait();  // for memory that goes back when work is done
    address = memory_->allocate(bytes);
  }
  if (!address)
    coil::fail("out of memory on {}: {} bytes were asked for; the program's planned peak is {}", to_string(device()),
               bytes, planned_bytes);
  auto release = [memory = memory_, stream = stream_](std::byte* p) {
    stream->submit_always([memory, p] { memory->release(p); });
  };
  return {std::shared_ptr<std::byte>(address, release), bytes, device()};
}

std::span<std::int64_t> Queue::shared_words(std::size_t count) {
  words_.assign(count, 0);
  return words_;
}

coil::Tensor Queue::here(const coil::Tensor& t) const {
  if (t.device().is_host()) return t;
  coil::Tensor found = t;
  found.storage.data = std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), memory_->at(t.storage.data.get()));
  return found;
}

void Queue::copy(const coil::Tensor& to, const coil::Tensor& from) {
  for (const coil::Tensor* t : {&to, &from})
    if (!t->device().is_host() && t->device() != device())
      coil::fail("{} copies nothing from or to {}", to_string(device()), to_string(t->device()));
  submit([to = here(to), from = here(from)] { coil::runtime::copy_strided(to, from); });
}

void Queue::launch(const Launch& l, void* const* words) {
  const std::size_t count = l.buffer_count;
  std::vector<void*> buffers(words + l.words, words + l.words + count);
  for (void*& b : buffers) b = at(b);
  const auto* const rest = reinterpret_cast<const std::int64_t*>(words + l.words + count);
  std::vector<std::int64_t> scalars(rest, rest + (l.word_count - count - 1));
  auto* const status = at(static_cast<Status*>(words[l.words + l.word_count - 1]));
  const auto kernel = reinterpret_cast<KernelFunction>(const_cast<void*>(l.kernel));
  submit([this, kernel, status, blocks = l.grid[0], buffers = std::move(buffers), scalars = std::move(scalars)] {
    if (status && status->failed) return;
    std::int64_t failed = 0;
    for (std::int64_t block = 0; block < blocks; ++block) kernel(buffers.data(), scalars.data(), block, &failed);
    if (!failed || !status) return;
    *status->told = 1;
    for (std::int64_t i = 0; i < status->count; ++i) at(status->all)[i].failed = 1;
  });
}

std::unique_ptr<coil::runtime::LibraryOp> Queue::make_op(const std::string& op,
                                                         const coil::runtime::Attributes& attributes) {
  return coil::runtime::make_library_op(*this, op, attributes);
}

void Queue::wait() { stream_->wait(); }

void Queue::set_stream(void* stream) {
  std::shared_ptr<Stream> next = stream ? std::shared_ptr<Stream>(own_, static_cast<Stream*>(stream)) : own_;
  if (next.get() != stream_.get()) next->wait_for(stream_->record());
  stream_ = std::move(next);
}

std::shared_ptr<coil::runtime::DeviceRuntime> open(int index) {
  if (index >= kDevices) coil::fail("there is no device toy:{}; there are {}", index, kDevices);
  static const std::shared_ptr<Memory> memories[kDevices] = {std::make_shared<Memory>(kBytes),
                                                             std::make_shared<Memory>(kBytes)};
  return std::make_shared<Runtime>(index, memories[index]);
}

}  // namespace toy

/// Streams for callers that have work of their own (Queue::set_stream). They outlive the queues that work on them.
extern "C" COIL_EXTENSION_API void* toy_stream_create() { return new toy::Stream(); }
extern "C" COIL_EXTENSION_API void toy_stream_destroy(void* stream) { delete static_cast<toy::Stream*>(stream); }
