#include "exchange.h"

#include <algorithm>

#include "loaded_library.h"
#include "support/out_of_memory.h"

namespace coil::python {
namespace {

using dlpack::dtype_of;
using dlpack::Managed;
using dlpack::span_bytes;
using dlpack::type_of;

dlpack::Device device_of(Device d) {
  if (d.is_host()) return {dlpack::kCpu, 0};
  if (d.type == DeviceType::CUDA) return {dlpack::kCuda, d.index};
  fail("there are no tensors on {} to exchange", to_string(d));
}

/// Where a tensor lies: `program`, or the host. Throws Error for another device.
Device checked_device(const dlpack::View& view, Device program) {
  if (view.device.kind == dlpack::kCpu) [[likely]]
    return {};
  const dlpack::Device d = Exchange::has_tensors(program) ? device_of(program) : dlpack::Device{dlpack::kCpu, 0};
  if (view.device.kind == d.kind && view.device.index == d.index) return program;
  fail("a tensor is on {}:{}, but the program was compiled for {}",
       view.device.kind == dlpack::kCuda ? "cuda" : "another device", view.device.index, to_string(program));
}

/// Sizes, strides and type; not the memory.
void describe(const dlpack::View& view, Tensor& to) {
  to.dtype = dtype_of(view.type);
  const auto rank = static_cast<std::size_t>(view.rank);
  to.sizes.assign(view.sizes, view.sizes + rank);
  if (view.strides || rank == 0)
    to.strides.assign(view.strides, view.strides + rank);
  else
    to.strides = contiguous_strides(to.sizes);
  to.offset = 0;
}

std::byte* data_of(const dlpack::View& view) { return static_cast<std::byte*>(view.data) + view.byte_offset; }

/// What a tensor made here holds on to. Sizes and strides lie behind it.
struct Held {
  Managed managed;
  std::shared_ptr<std::byte> memory;
  std::int64_t dims[1];

  static Held* make(const Tensor& t) {
    const std::size_t rank = t.sizes.size();
    void* raw = ::operator new(sizeof(Held) + 2 * rank * sizeof(std::int64_t));
    auto* held = new (raw) Held{{{1, 0}, nullptr, release, 0, {}}, t.storage.data, {}};
    std::copy(t.sizes.begin(), t.sizes.end(), held->dims);
    std::copy(t.strides.begin(), t.strides.end(), held->dims + rank);
    held->managed.context = held;
    held->managed.view.sizes = held->dims;
    held->managed.view.strides = held->dims + rank;
    held->managed.view.rank = static_cast<std::int32_t>(rank);
    return held;
  }
  static void release(Managed* m) {
    auto* held = static_cast<Held*>(m->context);
    held->~Held();
    ::operator delete(held);
  }
};

nb::tuple tuple_of(const Sizes& values) {
  nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  return nb::borrow<nb::tuple>(out);
}

}  // namespace

const Exchange& Exchange::get() {
  // Never destroyed: at the end of the process there may be no Python left to give its objects back to.
  static const Exchange* exchange = new Exchange();
  return *exchange;
}

Exchange::Exchange() {
  torch_ = nb::module_::import_("torch");
  as_strided_ = torch_.attr("as_strided");
  resolve_neg_ = torch_.attr("resolve_neg");
  resolve_conj_ = torch_.attr("resolve_conj");
  if (nb::hasattr(torch_.attr("Tensor"), "_use_count"))
    holders_of_storage_ = nb::getattr(torch_.attr("_C"), "_storage_Use_Count", nb::object());
  nb::object capsule = nb::getattr(torch_.attr("Tensor"), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), dlpack::kCapsule))
    fail("this torch has no DLPack exchange API; 2.10 is the first that has");
  api_ = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kCapsule));
  while (api_ && api_->version.major > 1) api_ = api_->older;
  if (!api_ || !api_->view_from_object) fail("this torch has no DLPack exchange API of version 1");
  reader_ = TensorReader::find(torch_);
  const LoadedLibrary gpu("libtorch_cuda.so");
  if (!gpu.find("aoti_torch_create_cuda_guard", begin_guard_) ||
      !gpu.find("aoti_torch_delete_cuda_guard", end_guard_) ||
      !gpu.find("aoti_torch_cuda_caching_allocator_raw_delete", raw_release_) ||
      !gpu.find("aoti_torch_cuda_caching_allocator_raw_alloc", raw_allocate_))
    raw_allocate_ = nullptr;
}

dlpack::View Exchange::look(nb::handle tensor, bool guarded) const {
  dlpack::View view;
  if (reader_ && reader_->view(tensor.ptr(), guarded, view)) [[likely]]
    return view;
  if (api_->view_from_object(tensor.ptr(), &view) != 0) {
    nb::python_error raised;
    if (is_tensor(tensor)) throw raised;
    fail("a tensor should be given, not a {}", Py_TYPE(tensor.ptr())->tp_name);
  }
  return view;
}

bool Exchange::borrow(nb::handle tensor, Device device, Tensor& to, bool guarded) const {
  const dlpack::View view = look(tensor, guarded);
  const Device on = checked_device(view, device);
  // Mostly it is what was borrowed the last time, or another of its kind.
  const bool alike = to.storage.bytes > 0 && to.offset == 0 && to.storage.device == on && dlpack::looks_like(view, to);
  to.storage.device = on;
  if (!alike) describe(view, to);
  point(to, data_of(view));
  if (!alike) to.storage.bytes = span_bytes(to);
  return alike;
}

bool Exchange::is_tensor(nb::handle object) const {
  return PyObject_IsInstance(object.ptr(), torch_.attr("Tensor").ptr()) == 1;
}

bool Exchange::is_alone(nb::handle tensor) const {
  if (!holders_of_storage_ || Py_REFCNT(tensor.ptr()) != 1) return false;
  if (nb::cast<int>(tensor.attr("_use_count")()) != 1) return false;
  const nb::object storage = tensor.attr("untyped_storage")();
  return nb::cast<int>(holders_of_storage_(storage.attr("_cdata"))) == 2;  // the tensor and `storage`
}

nb::object Exchange::resolve(nb::handle tensor) const { return resolve_conj_(resolve_neg_(tensor)); }

const void* Exchange::address(nb::handle tensor) const { return data_of(look(tensor, false)); }

Tensor Exchange::own(nb::handle tensor, Device device) const {
  Managed* managed = nullptr;
  if (api_->managed_from_object(tensor.ptr(), &managed) != 0) throw nb::python_error();
  std::shared_ptr<std::byte> memory(data_of(managed->view), [managed](std::byte*) {
    if (managed->deleter) managed->deleter(managed);
  });
  Tensor t;
  t.storage = {std::move(memory), 0, checked_device(managed->view, device)};
  describe(managed->view, t);
  t.storage.bytes = span_bytes(t);
  return t;
}

nb::object Exchange::wrap(const Tensor& t) const {
  // Of no elements there is no memory to share, and torch's own can be resized.
  if (std::ranges::find(t.sizes, 0) != t.sizes.end() && t.device() == Device{})
    return torch_.attr("empty_strided")(tuple_of(t.sizes), tuple_of(t.strides), nb::arg("dtype") = dtype(t.dtype));
  Held* held = Held::make(t);
  held->managed.view.data = t.storage.data ? t.bytes() : nullptr;
  held->managed.view.device = device_of(t.device());
  const auto type = type_of(t.dtype);
  COIL_CHECK(type, "no DLPack type for {}", torch_name(t.dtype));
  held->managed.view.type = *type;
  void* object = nullptr;
  if (api_->managed_to_object(&held->managed, &object) != 0) {
    Held::release(&held->managed);
    throw nb::python_error();
  }
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object Exchange::alias(nb::handle base, DType base_dtype, const Tensor& like, std::int64_t offset) const {
  const std::int64_t first = nb::cast<std::int64_t>(base.attr("storage_offset")());
  if (base_dtype == like.dtype) return as_strided_(base, tuple_of(like.sizes), tuple_of(like.strides), first + offset);
  // As a tensor of its own: AOTAutograd takes what a tensor is recorded as a view of for the input that it is to view.
  const auto from = static_cast<std::int64_t>(size_of(base_dtype)), to = static_cast<std::int64_t>(size_of(like.dtype));
  nb::object made =
      torch_.attr("empty")(0, nb::arg("dtype") = dtype(like.dtype), nb::arg("device") = base.attr("device"));
  return made.attr("set_")(base.attr("untyped_storage")(), first * from / to + offset, tuple_of(like.sizes),
                           tuple_of(like.strides));
}

/// Failures other than of memory, as of a kernel that came before, show in torch's allocator too.
[[noreturn]] static void refuse(const std::string& error, std::size_t bytes) {
  const bool is_out = error.find("out of memory") != error.npos || error.find("allocate memory") != error.npos;
  if (is_out) fail_out_of_memory("{} ({} bytes were asked for)", error, bytes);
  fail("{} ({} bytes were asked for)", error, bytes);
}

void* Exchange::allocate_raw(Device device, std::size_t bytes) const {
  void *guard = nullptr, *memory = nullptr;
  if (!raw_allocate_ || device.type != DeviceType::CUDA || bytes == 0 || begin_guard_(device.index, &guard) != 0)
    return nullptr;
  if (raw_allocate_(bytes, &memory) != 0) memory = nullptr;
  end_guard_(guard);
  return memory;
}

Storage Exchange::allocate(Device device, std::size_t bytes) const {
  if (void* memory = allocate_raw(device, bytes))
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                       [release = raw_release_](std::byte* gone) { release(gone); }),
            bytes, device};
  // What was refused that way is asked for in this one, whose errors say why.
  auto size = static_cast<std::int64_t>(bytes);
  std::int64_t stride = 1;
  dlpack::View like{nullptr, device_of(device), 1, {dlpack::kUInt, 8, 1}, &size, &stride, 0};
  Managed* managed = nullptr;
  std::string error = "torch gave no memory";
  const int status = api_->allocate(&like, &managed, &error, [](void* to, const char*, const char* message) {
    *static_cast<std::string*>(to) = message;
  });
  if (status != 0 || !managed) refuse(error, bytes);
  return {std::shared_ptr<std::byte>(data_of(managed->view),
                                     [managed](std::byte*) {
                                       if (managed->deleter) managed->deleter(managed);
                                     }),
          bytes, device};
}

void* Exchange::current_stream(Device device) const {
  const dlpack::Device d = device_of(device);
  void* stream = nullptr;
  if (api_->current_stream(d.kind, d.index, &stream) != 0) throw nb::python_error();
  return stream;
}

nb::object Exchange::dtype(DType d) const { return torch_.attr(std::string(torch_name(d)).c_str()); }

}  // namespace coil::python
