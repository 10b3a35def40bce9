// The parts of the device as Coil asks for them: its runtime, its backend of kernels, its library operations.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/backends.h"
#include "machine.h"
#include "runtime/device/device.h"

namespace toy {

inline constexpr char kArchitecture[] = "toy1";  ///< of binaries: what `load` asks for

/// What a kernel is, compiled: the work of one of its blocks. It sets `failed` to 1 where an index is out of range.
using KernelFunction = void (*)(void* const* buffers, const std::int64_t* scalars, std::int64_t block,
                                std::int64_t* failed);

/// Work in order on the device. What is asked for runs later, on the stream's thread.
class Queue : public coil::runtime::Queue {
 public:
  Queue(coil::Device device, std::shared_ptr<Memory> memory) : device_(device), memory_(std::move(memory)) {}
  ~Queue() override;

  coil::Device device() const override { return device_; }
  coil::Storage allocate(std::size_t bytes) override;
  void copy(const coil::Tensor& to, const coil::Tensor& from) override;
  void launch(const coil::runtime::Launch&, void* const* words) override;
  bool runs_ahead() const override { return true; }
  void wait() override { stream_->wait(); }
  void set_stream(void* stream) override;
  void set_allocator(std::function<coil::Storage(std::size_t)> allocate) override { allocate_ = std::move(allocate); }

  /// For library operations: work that reads and writes the machine's memory where `at` says that it lies.
  void submit(std::function<void()> work) { stream_->submit(std::move(work)); }
  template <class T>
  T* at(T* address) const {
    return memory_->at(address);
  }

 private:
  coil::Tensor here(const coil::Tensor& t) const;

  const coil::Device device_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Stream> own_ = std::make_shared<Stream>(), stream_ = own_;
  std::function<coil::Storage(std::size_t)> allocate_;
};

std::shared_ptr<coil::runtime::DeviceRuntime> open(int index);
std::unique_ptr<coil::codegen::Backend> make_backend(coil::codegen::BackendRequest);
std::vector<std::pair<std::string, coil::runtime::QueueLibraryFactory>> operations();

}  // namespace toy
