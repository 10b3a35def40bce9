#include "torch_host.h"

#include "exchange.h"
#include "lending.h"
#include "ops/schema.h"
#include "runtime/host/operators.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::python {
namespace {

nb::object* g_find = nullptr;  ///< never freed: programs may outlive the module
nb::object* g_draw = nullptr;

std::string describe(DType dtype, const Sizes& sizes) {
  return fmt::format("{}[{}]", short_name(dtype), fmt::join(sizes, ", "));
}

class TorchOp : public runtime::HostOp {
 public:
  TorchOp(const runtime::HostCall& call, Device device, nb::object function)
      : call_(call),
        device_(device),
        function_(std::move(function)),
        lending_(nb::hasattr(function_, "may_keep_arguments")) {}
  ~TorchOp() override {
    if (!Py_IsInitialized()) {
      function_.release(), keywords_.release();
      for (nb::object& v : values_) v.release();
      return;
    }
    nb::gil_scoped_acquire gil;
    function_.reset(), keywords_.reset();
    values_.clear();
  }

  void prepare(std::span<const runtime::BoundView> inputs, std::span<const runtime::BoundView> outputs,
               std::span<const std::int64_t> slots) override {
    nb::gil_scoped_acquire gil;
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
    values_.clear();
    std::vector<std::string> keywords;
    for (const runtime::NamedHostArgument& a : call_.arguments) {
      values_.push_back(value(a.value, slots));
      if (!a.keyword.empty()) keywords.push_back(a.keyword);
    }
    keywords_ = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(keywords.size())));
    for (std::size_t i = 0; i < keywords.size(); ++i)
      PyTuple_SET_ITEM(keywords_.ptr(), static_cast<Py_ssize_t>(i), PyUnicode_InternFromString(keywords[i].c_str()));
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    nb::gil_scoped_acquire gil;
    Lending::Call lent;
    std::vector<nb::object> operands(inputs.size());
    // What it writes to are copies, in the memory of its last outputs.
    for (std::size_t k = 0; k < call_.writes.size(); ++k) {
      const std::size_t operand = call_.writes[k], to = outputs_.size() - call_.writes.size() + k;
      operands[operand] = lending_.give_to_write(lent, outputs_[to], outputs[to]);
      if (inputs[operand] == outputs[to]) continue;  // a kernel that works in place
      const Tensor from = lending_.borrowed(inputs_[operand], const_cast<void*>(inputs[operand]));
      if (from.device().is_host())
        runtime::copy_strided(lending_.borrowed(outputs_[to], outputs[to]), from);
      else
        operands[operand].attr("copy_")(Exchange::get().wrap(from));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!operands[i].is_valid()) operands[i] = lending_.give(lent, inputs_[i], inputs[i]);
    store(call_function(operands), outputs);
    operands.clear();
    lending_.end(lent);
  }

 private:
  nb::object call_function(const std::vector<nb::object>& operands) const {
    std::vector<nb::object> held;
    std::vector<PyObject*> arguments;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      held.push_back(with_operands(call_.arguments[i].value, values_[i], operands));
      arguments.push_back(held.back().ptr());
    }
    const std::size_t keywords = static_cast<std::size_t>(PyTuple_GET_SIZE(keywords_.ptr()));
    nb::object result =
        nb::steal(PyObject_Vectorcall(function_.ptr(), arguments.data(), arguments.size() - keywords, keywords_.ptr()));
    if (!result.is_valid()) throw nb::python_error();
    return result;
  }

  /// The Python value of an argument that names no tensor; null where it does, for `with_operands` to make.
  nb::object value(const runtime::HostArgument& a, std::span<const std::int64_t> slots) const {
    if (std::holds_alternative<std::monostate>(a)) return nb::none();
    if (auto* b = std::get_if<bool>(&a)) return nb::bool_(*b);
    if (auto* d = std::get_if<double>(&a)) return nb::float_(*d);
    if (auto* s = std::get_if<std::string>(&a)) return nb::str(s->c_str());
    if (auto* i = std::get_if<runtime::HostInteger>(&a)) return nb::int_(slots[i->slot]);
    if (auto* n = std::get_if<runtime::HostName>(&a)) return name(*n);
    if (auto* list = std::get_if<std::vector<runtime::HostArgument>>(&a)) {
      nb::list out;
      for (const runtime::HostArgument& item : *list) {
        nb::object v = value(item, slots);
        out.append(v.is_valid() ? v : nb::none());
      }
      return out;
    }
    return {};
  }

  /// A device that the graph names is the CPU or the program's.
  nb::object name(const runtime::HostName& n) const {
    nb::object torch = nb::module_::import_("torch");
    if (n.kind == runtime::HostName::Kind::Device) {
      const Device named = parse_device(n.text).is_host() ? Device{} : device_;
      return torch.attr("device")(to_string(named).c_str());
    }
    return torch.attr(n.text.c_str());
  }

  static nb::object with_operands(const runtime::HostArgument& a, const nb::object& value,
                                  const std::vector<nb::object>& operands) {
    if (auto* o = std::get_if<runtime::HostOperand>(&a)) return operands[o->index];
    auto* list = std::get_if<std::vector<runtime::HostArgument>>(&a);
    if (!list) return value;
    nb::list out;
    for (std::size_t i = 0; i < list->size(); ++i)
      out.append(with_operands((*list)[i], nb::borrow(value[i]), operands));
    return out;
  }

  void store(nb::object result, std::span<void* const> outputs) const {
    const std::size_t own = call_.outputs.size() - call_.writes.size();
    if (own == 0) return;
    // A tuple may have more, of which nothing is recorded; a list's length is the operator's choice.
    const Py_ssize_t count = PySequence_Check(result.ptr()) ? PySequence_Size(result.ptr()) : -1;
    if (const auto wanted = static_cast<Py_ssize_t>(own);
        call_.is_list && (count < wanted || (count > wanted && PyList_Check(result.ptr()))))
      fail("{} gave {} where {} results were expected", call_.op,
           count < 0 ? described(result) : fmt::format("{}", count), own);
    std::size_t k = 0;
    for (std::size_t i = 0; i < own; ++i) {
      if (!call_.outputs[i]) continue;
      nb::object item = call_.is_list ? nb::object(result[i]) : result;
      copy_out(item, lending_.borrowed(outputs_[k], outputs[k]));
      ++k;
    }
  }

  void copy_out(nb::object item, const Tensor& to) const {
    const Exchange& exchange = Exchange::get();
    if (!exchange.is_tensor(item))
      fail("{} gave {} where {} was expected", call_.op, described(item), describe(to.dtype, to.sizes));
    if (to.device().is_host()) item = exchange.resolve(item);
    Tensor from;
    try {
      exchange.borrow(item, to.device(), from, false);
    } catch (const std::exception& e) {
      const std::string_view why = e.what();
      fail("{} gave {} that is no plain tensor on {}: {}", call_.op, described(item), to_string(to.device()),
           why.substr(0, why.find('\n')));
    }
    if (from.dtype != to.dtype || from.sizes != to.sizes)
      fail("{} gave {} where {} was expected", call_.op, describe(from.dtype, from.sizes),
           describe(to.dtype, to.sizes));
    // A tensor without memory is one of a subclass that has its values in other tensors.
    if (!from.storage.data && runtime::layout_span(from.sizes, from.strides) > 0)
      fail("{} gave {}, which has no memory of its own; let it give a plain tensor", call_.op, described(item));
    if (to.device().is_host() && from.device().is_host())
      runtime::copy_strided(to, from);
    else
      exchange.wrap(to).attr("copy_")(item);
  }

  static std::string described(nb::handle object) { return fmt::format("a {}", Py_TYPE(object.ptr())->tp_name); }

  const runtime::HostCall call_;
  const Device device_;  ///< of the program
  nb::object function_, keywords_;
  Lending lending_;
  std::vector<runtime::BoundView> inputs_, outputs_;
  std::vector<nb::object> values_;
};

/// An operator that is not torch's own must still be the one that the program was compiled for.
void check_schema(const runtime::HostCall& call, const nb::object& function) {
  if (call.schema.empty() || call.op.starts_with("aten.") || call.op.starts_with("prims.") ||
      !nb::hasattr(function, "_schema"))
    return;
  const nb::object schema = function.attr("_schema"), text = nb::steal(PyObject_Str(schema.ptr()));
  const char* printed = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (!printed) throw nb::python_error();
  const std::string here = printed;
  std::string expected, found;
  try {
    expected = ops::to_string(ops::parse_schema(call.schema)), found = ops::to_string(ops::parse_schema(here));
  } catch (const Error&) {
    return;
  }
  if (expected != found)
    fail("operator {} is `{}` here, but the program was compiled for `{}`", call.op, found, expected);
}

}  // namespace

void set_host(nb::callable find) {
  if (!g_find) g_find = new nb::object();
  *g_find = std::move(find);
}

void set_seed_source(nb::callable draw) {
  if (!g_draw) g_draw = new nb::object();
  *g_draw = std::move(draw);
}

std::uint64_t torch_seed() {
  if (!g_draw) fail("nothing says where random numbers come from");
  return static_cast<std::uint64_t>(nb::cast<std::int64_t>((*g_draw)()));
}

runtime::Host torch_host(Device device) {
  return [device](const runtime::HostCall& call) -> std::unique_ptr<runtime::HostOp> {
    nb::gil_scoped_acquire gil;
    nb::object function = g_find ? (*g_find)(call.op.c_str()) : nb::none();
    if (function.is_none()) return runtime::registered_operators()(call);
    check_schema(call, function);
    return std::make_unique<TorchOp>(call, device, std::move(function));
  };
}

}  // namespace coil::python
