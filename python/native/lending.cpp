#include "lending.h"

#include "exchange.h"
#include "runtime/views/strided_copy.h"

namespace coil::python {
namespace {

thread_local const CallArguments* g_call = nullptr;

}  // namespace

CallArguments::CallArguments(PyObject* const* arguments, std::span<const std::size_t> places,
                             std::span<const Tensor> tensors, std::span<const nb::object> replaced)
    : arguments_(arguments), places_(places), tensors_(tensors), replaced_(replaced), outer_(g_call) {
  g_call = this;
}

CallArguments::~CallArguments() { g_call = outer_; }

nb::object CallArguments::find(const runtime::BoundView& view, const void* data) {
  if (!g_call || !data) return {};
  for (std::size_t i = 0; i < g_call->tensors_.size(); ++i) {
    const Tensor& t = g_call->tensors_[i];
    if (t.bytes() != data || t.dtype != view.dtype || t.sizes != view.sizes || t.strides != view.strides) continue;
    PyObject* const object = g_call->arguments_[g_call->places_[i]];
    const bool replaced = i < g_call->replaced_.size() && g_call->replaced_[i].is_valid();
    if (!replaced && object != Py_None && !PyLong_Check(object) && !PyFloat_Check(object)) return nb::borrow(object);
  }
  return {};
}

Tensor Lending::borrowed(const runtime::BoundView& v, void* data) const {
  Tensor t;
  t.dtype = v.dtype;
  t.sizes = v.sizes;
  t.strides = v.strides;
  t.storage.data = std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(data));
  t.storage.device = v.device;
  t.storage.bytes = static_cast<std::size_t>(runtime::layout_span(v.sizes, v.strides)) * size_of(v.dtype);
  return t;
}

Tensor Lending::copied(const runtime::BoundView& view, void* data) const {
  const Tensor from = borrowed(view, data);
  Tensor to = from;
  to.storage = Exchange::get().allocate(view.device, from.storage.bytes);
  if (view.device.is_host())
    runtime::copy_strided(to, from);
  else
    Exchange::get().wrap(to).attr("copy_")(Exchange::get().wrap(from));
  return to;
}

nb::object Lending::add(Call& call, const runtime::BoundView& view, void* data, bool copy) const {
  Tensor t = copy ? copied(view, data) : borrowed(view, data);
  // Where somebody may keep it, what counts its holders is needed.
  if (may_keep_ && !copy) t.storage.data = std::shared_ptr<std::byte>(t.storage.data.get(), [](std::byte*) {});
  Given given{.tensor = Exchange::get().wrap(t), .view = view, .data = data, .memory = {}, .is_copy = copy};
  if (may_keep_) given.memory = t.storage.data;
  call.push_back(std::move(given));
  return call.back().tensor;
}

nb::object Lending::give(Call& call, const runtime::BoundView& view, const void* data) const {
  if (may_keep_) {
    if (nb::object argument = CallArguments::find(view, data); argument.is_valid()) return argument;
  }
  const bool has_elements = runtime::layout_span(view.sizes, view.strides) > 0;
  return add(call, view, const_cast<void*>(data), copies_ && has_elements);
}

nb::object Lending::give_to_write(Call& call, const runtime::BoundView& view, void* data) const {
  return add(call, view, data, false);
}

void Lending::end(Call& call) {
  bool kept = false;
  for (Given& g : call) {
    if (!may_keep_ || g.memory.expired()) continue;
    if (Py_REFCNT(g.tensor.ptr()) > 1) {
      kept = true;
      if (!g.is_copy) g.tensor.attr("set_")(Exchange::get().wrap(copied(g.view, g.data)));
    }
    g.tensor.reset();
    kept = kept || !g.memory.expired();
  }
  call.clear();
  keeps_ = keeps_ || kept;
  copies_ = keeps_;
}

}  // namespace coil::python
