#include "runtime/aoti/memory.h"

#include <algorithm>

#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::aoti {
namespace {

/// The deleter of memory that a tensor of torch's keeps.
struct Owner {
  std::shared_ptr<AtenTensorOpaque> handle;
  std::byte* begin;  ///< of the tensor's storage
  void operator()(std::byte*) { handle.reset(); }
};

Device device_of(AtenTensorHandle handle, const std::string& name) {
  std::int32_t type = 0, index = 0;
  torch().get_device_type(handle, &type);
  if (type == torch().number(DeviceType{})) return {};
  torch().get_device_index(handle, &index);
  for (const char* kind : {"cuda", "xpu", "mps"})
    if (auto* number = torch().find<std::int32_t()>(std::string("aoti_torch_device_type_") + kind);
        number && number() == type)
      return {DeviceType::register_kind(kind), index};
  fail("'{}' is on a device (torch's number {}) that programs do not run on", name, type);
}

/// A tensor on the same storage from its beginning, which views by bytes start from.
TensorHandle from_the_start(AtenTensorHandle handle) {
  std::int64_t offset = 0;
  torch().get_storage_offset(handle, &offset);
  const std::int64_t size = 0, stride = 1;
  return made([&](AtenTensorHandle* to) { torch()._reinterpret_tensor(handle, 1, &size, &stride, -offset, to); });
}

/// Torch's operator `aten::NAME`, of one tensor; its result as the dispatcher gives it.
std::uint64_t ask(const char* name, AtenTensorHandle handle) {
  using Dispatch = std::int32_t(const char*, const char*, std::uint64_t*);
  static Dispatch* const dispatch = torch().find<Dispatch>("aoti_torch_call_dispatcher");
  if (!dispatch) return 0;
  AtenTensorHandle taken = nullptr;  // by the dispatcher
  torch().new_tensor_handle(handle, &taken);
  std::uint64_t stack = reinterpret_cast<std::uint64_t>(taken);
  if (dispatch(name, "", &stack) != 0) fail("torch failed in {}", name);
  return stack;
}

bool says(const char* name, AtenTensorHandle handle) { return (ask(name, handle) & 1) != 0; }

}  // namespace

TensorHandle as_it_lies(TensorHandle handle, const std::string& name, bool is_written) {
  std::int32_t number = 0;
  torch().get_dtype(handle.get(), &number);
  const DType dtype = torch().dtype(number);
  if (!is_fractional(dtype)) return handle;
  const bool negated = says("aten::is_neg", handle.get()),
             conjugated = is_complex(dtype) && says("aten::is_conj", handle.get());
  if (!negated && !conjugated) return handle;
  if (is_written) fail("'{}' is written to, but torch has put off to negate or conjugate it; resolve that first", name);
  for (const char* resolve : {negated ? "aten::resolve_neg" : nullptr, conjugated ? "aten::resolve_conj" : nullptr})
    if (resolve) handle.reset(reinterpret_cast<AtenTensorHandle>(ask(resolve, handle.get())));
  return handle;
}

Tensor from_torch(TensorHandle handle, const std::string& name) {
  if (!handle) fail("'{}' is no tensor", name);
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr, bytes = 0;
  std::int32_t dtype = 0;
  void* data = nullptr;
  Tensor t;
  try {
    torch().get_dtype(handle.get(), &dtype);
    torch().get_dim(handle.get(), &rank);
    torch().get_sizes(handle.get(), &sizes);
    torch().get_strides(handle.get(), &strides);
    torch().get_storage_offset(handle.get(), &t.offset);
    torch().get_storage_size(handle.get(), &bytes);
    torch().get_data_ptr(handle.get(), &data);
  } catch (const std::exception&) {  // torch's own, which are long
    fail("'{}' is no tensor whose elements lie in memory by strides", name);
  }
  t.dtype = torch().dtype(dtype);
  t.sizes.assign(sizes, sizes + rank);
  t.strides.assign(strides, strides + rank);
  auto* begin = static_cast<std::byte*>(data);
  if (!begin || t.numel() == 0)
    t.offset = 0;  // torch says no address of a tensor without elements
  else
    begin -= t.offset * static_cast<std::int64_t>(size_of(t.dtype));
  const Device device = device_of(handle.get(), name);
  t.storage = {std::shared_ptr<std::byte>(begin, Owner{std::move(handle), begin}), static_cast<std::size_t>(bytes),
               device};
  return t;
}

Storage allocate(std::size_t bytes, Device device) {
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1));
  const std::int64_t stride = 1;
  TensorHandle handle = made([&](AtenTensorHandle* to) {
    torch().empty_strided(1, &size, &stride, torch().number(DType::U8), torch().number(device.type), device.index, to);
  });
  void* data = nullptr;
  torch().get_data_ptr(handle.get(), &data);
  auto* begin = static_cast<std::byte*>(data);
  return {std::shared_ptr<std::byte>(begin, Owner{std::move(handle), begin}), static_cast<std::size_t>(size), device};
}

bool is_torchs(const Storage& storage) { return std::get_deleter<Owner>(storage.data) != nullptr; }

TensorHandle view_in_torch(const Tensor& t, DType dtype, const Sizes& sizes, const Sizes& strides) {
  const Owner* owner = std::get_deleter<Owner>(t.storage.data);
  COIL_CHECK(owner, "memory that is not torch's");
  const TensorHandle start = from_the_start(owner->handle.get());
  const std::int64_t offset = owner->begin ? t.bytes() - owner->begin : 0;
  return made([&](AtenTensorHandle* to) {
    torch()._alloc_from_pool(start.get(), offset, torch().number(dtype), static_cast<std::int64_t>(sizes.size()),
                             sizes.data(), strides.data(), to);
  });
}

TensorHandle to_torch(const Tensor& t) {
  if (is_torchs(t.storage)) return view_in_torch(t, t.dtype, t.sizes, t.strides);
  if (!t.storage.data) return nullptr;
  const std::int64_t bytes = layout_span(t.sizes, t.strides) * static_cast<std::int64_t>(size_of(t.dtype)), one = 1;
  Tensor copy = t;
  copy.storage = allocate(static_cast<std::size_t>(bytes), t.device());
  copy.offset = 0;
  if (bytes > 0) {
    const std::int32_t type = torch().number(t.device().type), u8 = torch().number(DType::U8);
    const TensorHandle from = made([&](AtenTensorHandle* to) {
      torch().create_tensor_from_blob(t.bytes(), 1, &bytes, &one, 0, u8, type, t.device().index, to);
    });
    const TensorHandle into = view_in_torch(copy, DType::U8, {bytes}, {1});
    torch().copy_(into.get(), from.get(), 0);
  }
  return view_in_torch(copy, t.dtype, t.sizes, t.strides);
}

}  // namespace coil::runtime::aoti
