#include "runtime/executor/device_copy.h"

#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// Up to so many bytes of the host are copied once more there, so that nobody waits for what is queued before them.
constexpr std::size_t kStaged = std::size_t{1} << 16;

class DeviceCopy : public LibraryOp {
 public:
  DeviceCopy(Queue& from, Queue& to, bool non_blocking) : from_(from), to_(to), non_blocking_(non_blocking) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    source_ = inputs[0], target_ = outputs[0];
  }
  bool runs_on_host() const override { return true; }  // whoever records what a device does leaves copies out

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    if (numel(target_.sizes) == 0) return;
    try {
      copy(tensor(target_, outputs[0], to_.device()), tensor(source_, inputs[0], from_.device()));
    } catch (const Error& e) {
      fail("a copy of {} bytes from {} to {} failed: {}", numel(target_.sizes) * std::int64_t(size_of(target_.dtype)),
           to_string(from_.device()), to_string(to_.device()), e.what());
    }
  }

 private:
  static Tensor tensor(const BoundView& v, const void* data, Device device) {
    const std::size_t bytes = static_cast<std::size_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype);
    Storage borrowed{
        std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(const_cast<void*>(data))),
        bytes, device};
    return {std::move(borrowed), v.dtype, v.sizes, v.strides, 0};
  }

  void copy(const Tensor& to, const Tensor& from) {
    if (to_.device().is_host()) {
      if (non_blocking_) return from_.copy_ahead(to, from);
      from_.copy(to, from);
      from_.wait();
    } else if (!from_.device().is_host()) {
      const Tensor between = Tensor::empty(from.dtype, from.sizes);
      from_.copy(between, from);
      from_.wait();
      to_.copy(to, between);
    } else if (static_cast<std::size_t>(from.numel()) * size_of(from.dtype) <= kStaged) {
      const Tensor staged = Tensor::empty(from.dtype, from.sizes);
      copy_strided(staged, from);
      to_.copy(to, staged);
    } else {
      to_.copy(to, from);
      to_.wait();
    }
  }

  Queue &from_, &to_;
  const bool non_blocking_;
  BoundView source_, target_;
};

}  // namespace

std::unique_ptr<LibraryOp> make_device_copy(Queue& from, Queue& to, bool non_blocking) {
  return std::make_unique<DeviceCopy>(from, to, non_blocking);
}

}  // namespace coil::runtime
