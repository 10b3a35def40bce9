#include "runtime/cuda/ops/staging.h"

#include "runtime/device/convert.h"
#include "runtime/views/strided_copy.h"

namespace coil::runtime::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

Tensor tensor_at(const CudaQueue& queue, const void* data, const BoundView& view) {
  Storage storage{
      std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(const_cast<void*>(data))), 0,
      queue.device()};
  return {std::move(storage), view.dtype, view.sizes, view.strides, 0};
}

bool lies_so(const BoundView& given, const BoundView& shown) {
  return given.alignment == kDeviceAlignment && same_layout(given.sizes, given.strides, shown.strides);
}

DeviceStaging::Operand DeviceStaging::add(Entry entry, std::size_t bytes) {
  entry.offset = bytes_;
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

DeviceStaging::Operand DeviceStaging::input(std::size_t index) {
  return add({.source = Source::Input, .index = index}, 0);
}

DeviceStaging::Operand DeviceStaging::input(std::size_t index, const BoundView& given, const BoundView& shown) {
  if (lies_so(given, shown)) return input(index);
  return add({.source = Source::Input, .index = index, .copied = true, .loaded = true, .given = given, .staged = shown},
             dense_bytes(shown));
}

DeviceStaging::Operand DeviceStaging::output(std::size_t index) {
  return add({.source = Source::Output, .index = index}, 0);
}

DeviceStaging::Operand DeviceStaging::output(std::size_t index, const BoundView& given, const BoundView& shown,
                                             bool load) {
  if (lies_so(given, shown)) return output(index);
  return add({.source = Source::Output,
              .index = index,
              .copied = true,
              .loaded = load,
              .stored = true,
              .given = given,
              .staged = shown},
             dense_bytes(shown));
}

DeviceStaging::Operand DeviceStaging::scratch(std::size_t bytes) {
  return add({.source = Source::Scratch, .copied = true}, bytes);
}

void DeviceStaging::load(CudaQueue& queue, std::span<const void* const> inputs, std::span<void* const> outputs,
                         void* workspace, std::span<void*> pointers) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    const void* given = e.source == Source::Input    ? inputs[e.index]
                        : e.source == Source::Output ? outputs[e.index]
                                                     : nullptr;
    pointers[i] = e.copied ? static_cast<std::byte*>(workspace) + e.offset : const_cast<void*>(given);
    if (e.loaded) queue.copy(tensor_at(queue, pointers[i], e.staged), tensor_at(queue, given, e.given));
  }
}

void DeviceStaging::store(CudaQueue& queue, std::span<void* const> outputs, std::span<void* const> pointers) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    if (e.stored) queue.copy(tensor_at(queue, outputs[e.index], e.given), tensor_at(queue, pointers[i], e.staged));
  }
}

}  // namespace coil::runtime::cuda
