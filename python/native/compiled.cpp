#include "compiled.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "exchange.h"
#include "lending.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_check.h"
#include "support/error.h"
#include "torch_host.h"

namespace coil::python {

namespace {

/// Whether Python has a signal to handle whose handler raises, as Ctrl-C's does. Asked often: it looks twenty times a
/// second. Called without the GIL.
class Interruption {
 public:
  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(50);
    nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
  }

 private:
  std::chrono::steady_clock::time_point next_;
};

}  // namespace

/// What one call at a time needs; kept between calls so that a call allocates only its results.
struct CompiledGraph::State {
  explicit State(const std::shared_ptr<const runtime::Model>& model)
      : context(model), inputs(model->plan().inputs.size()), numbers(inputs.size()) {
    context.set_stop(Interruption());
    context.set_writes_as_eager(true);
  }

  /// From now on the run in progress may let go of these arguments (null: of none), each of which nobody else refers
  /// to.
  void set_loose(const std::vector<PyObject**>* arguments) {
    if (arguments)
      context.set_inputs_done(
          [arguments](std::span<const std::uint32_t> done) {
            std::optional<nb::gil_scoped_acquire> gil;
            for (std::uint32_t i : done) {
              if (!(*arguments)[i]) continue;
              if (!gil) gil.emplace();
              PyObject* gone = std::exchange(*(*arguments)[i], Py_NewRef(Py_None));
              Py_DECREF(gone);
            }
          },
          [arguments](std::uint32_t i) { return (*arguments)[i] != nullptr; },
          [this](std::uint32_t i) { return alone[i]; });
    else
      context.set_inputs_done({});
  }

  /// Without the GIL. Where Python's handler of a signal raised, so does this.
  /// `alike`: `given` are `inputs`, and look like those of the last run.
  void run(std::span<const Tensor> given, bool alike = false) try {
    alike = std::exchange(seen, false) && alike;
    nb::gil_scoped_release release;
    if (alike)
      context.run_alike_into(given, outputs);
    else
      context.run_into(given, outputs);
    seen = given.data() == inputs.data();
  } catch (const Error&) {
    if (PyErr_Occurred()) throw nb::python_error();
    throw;
  }
  runtime::Context context;
  std::vector<Tensor> inputs, outputs;
  std::vector<std::int64_t> numbers;  ///< memory of inputs that are Python numbers
  std::vector<nb::object>
      resolved;            ///< what stands for inputs that torch had put off to compute; empty where it had none
  bool seen = false;       ///< the last run took `inputs`, and did not fail
  void* stream = nullptr;  ///< what the context queues work on; null: its own
  std::vector<nb::object> computed;  ///< results while they are made
  std::vector<SharedBase> bases;     ///< the same
  std::vector<PyObject**> loose;     ///< for each input of the plan, the argument that the run may let go of, or null
  std::vector<bool> alone;           ///< of those in whose memory the program makes values: nobody else has it
};

/// A state for the length of a call.
struct CompiledGraph::Lease {
  explicit Lease(CompiledGraph& graph) : graph(graph) {
    {
      std::lock_guard lock(graph.mutex_);
      if (!graph.idle_.empty()) {
        state = std::move(graph.idle_.back());
        graph.idle_.pop_back();
      }
    }
    if (!state) {
      std::optional<nb::gil_scoped_release> release;  // while process groups are joined, by a store that is Python's
      if (!graph.exchanges_.groups.empty()) release.emplace();
      state = std::make_unique<State>(graph.model_);
      state->context.set_recording(graph.record, graph.recordings);
    }
  }
  ~Lease() {
    for (Tensor& t : state->outputs) t.storage = {};
    if (!state->loose.empty()) state->set_loose(nullptr), state->loose.clear();
    state->computed.clear();
    state->bases.clear();
    state->resolved.clear();
    std::lock_guard lock(graph.mutex_);
    graph.idle_.push_back(std::move(state));
  }
  CompiledGraph& graph;
  std::unique_ptr<State> state;
};

/// Where the memory of an output of the program is.
struct CompiledGraph::Source {
  enum class Kind : std::uint8_t { Number, Own, Shared, Input, Constant } kind = Kind::Own;
  std::size_t index = 0;  ///< Shared: of the base among all bases; Input: of the input
  /// Shared: of the base. Autograd knows views of one tensor as such where their types are the same; for outputs of
  /// several types the base is of bytes.
  DType base_dtype = DType::U8;
  Device device;         ///< that its memory lies on
  bool to_host = false;  ///< torch wants it on the CPU, or does not know the device
  nb::object constant;
};

CompiledGraph::CompiledGraph(runtime::StoredProgram program, CompileReport report, CallPattern pattern)
    : report_(std::move(report)), pattern_(std::move(pattern)) {
  const Device plan_device = program.plan.device;
  saved_ = std::make_shared<runtime::StoredProgram>(program);
  model_ = runtime::Model::load(std::move(program), torch_host(plan_device));
  const runtime::Plan& plan = model_->plan();
  exchanges_ = runtime::exchanges_of(plan);
  for (std::size_t i = 0; i < pattern_.inputs.size(); ++i)
    if (pattern_.inputs[i] != InputKind::Frozen) arguments_.push_back(i);
  COIL_CHECK(arguments_.size() == plan.inputs.size(), "a call passes {} inputs, the program takes {}",
             arguments_.size(), plan.inputs.size());
  returned_.resize(pattern_.inputs.size());
  for (const Result& r : pattern_.results)
    if (r.kind == ResultKind::Input) returned_[r.index] = true;
  for (const runtime::Constant& c : plan.constants) draws_ = draws_ || (c.seed && pattern_.torch_seed);
  std::map<runtime::BufferId, std::size_t> uses, bases;
  std::map<runtime::BufferId, std::set<DType>> dtypes;
  for (const runtime::Output& o : plan.outputs)
    if (o.kind == runtime::Output::Kind::Tensor) {
      const runtime::BufferId owner = runtime::memory_of(plan, o.view.buffer);
      ++uses[owner];
      dtypes[owner].insert(o.view.dtype);
    }
  for (const runtime::Output& o : plan.outputs) {
    Source source;
    if (o.kind != runtime::Output::Kind::Tensor) {
      source.kind = Source::Kind::Number;
    } else {
      const runtime::BufferId owner = runtime::memory_of(plan, o.view.buffer);
      const runtime::Buffer& b = plan.buffers[owner];
      source.device = plan.device_of(b.place);
      const runtime::ShapeInstruction& offset = plan.shape_program[o.view.offset];
      const bool from_start = offset.op == runtime::ShapeOp::Constant && offset.a == 0;
      if (b.kind == runtime::BufferKind::Input) {
        source.kind = Source::Kind::Input;
        source.index = b.index;
      } else if (b.kind == runtime::BufferKind::Constant) {
        source.kind = Source::Kind::Constant;
        if (auto found = pattern_.constants.find(plan.constants[b.index].name); found != pattern_.constants.end())
          source.constant = found->second;
      } else if (uses[owner] > 1 || !from_start) {
        source.kind = Source::Kind::Shared;
        source.index = bases.emplace(owner, bases.size()).first->second;
        if (dtypes[owner].size() == 1) source.base_dtype = *dtypes[owner].begin();
      }
    }
    source.to_host = !Exchange::has_tensors(source.device) ||
                     (!source.device.is_host() && pattern_.on_host.contains(sources_.size()));
    sources_.push_back(std::move(source));
  }
}

CompiledGraph::~CompiledGraph() = default;

CallPattern plain_pattern(const runtime::Plan& plan) {
  CallPattern p;
  p.inputs.assign(plan.inputs.size(), InputKind::Any);
  for (std::size_t k = 0; k < plan.outputs.size(); ++k) p.results.push_back({ResultKind::Computed, k, {}});
  return p;
}

nb::tuple pattern_to_python(const CallPattern& p, const runtime::Plan& plan) {
  nb::list inputs, results, on_host, views;
  nb::dict constants;
  for (InputKind kind : p.inputs) inputs.append(static_cast<int>(kind));
  for (const Result& r : p.results)
    results.append(nb::make_tuple(static_cast<int>(r.kind), r.index, r.constant.is_valid() ? r.constant : nb::none()));
  for (const runtime::Output& o : plan.outputs) {
    if (o.kind != runtime::Output::Kind::Tensor) continue;
    const runtime::Buffer& b = plan.buffers[runtime::memory_of(plan, o.view.buffer)];
    if (b.kind != runtime::BufferKind::Constant) continue;
    if (auto found = p.constants.find(plan.constants[b.index].name); found != p.constants.end())
      constants[nb::str(found->first.c_str())] = found->second;
  }
  for (std::size_t i : p.on_host) on_host.append(i);
  for (std::size_t i : p.views) views.append(i);
  return nb::make_tuple(inputs, results, constants, p.before.is_valid() ? p.before : nb::none(), p.torch_seed, on_host,
                        views);
}

CallPattern pattern_from_python(nb::tuple t, const runtime::Plan& plan) {
  if (t.size() != 7) fail("the pattern of a compiled graph's calls has 7 parts, and this one has {}", t.size());
  CallPattern p;
  for (nb::handle kind : t[0]) {
    const int k = nb::cast<int>(kind);
    if (k < 0 || k > static_cast<int>(InputKind::Frozen)) fail("there is no kind {} of inputs", k);
    p.inputs.push_back(static_cast<InputKind>(k));
  }
  for (nb::handle result : t[1]) {
    const auto parts = nb::cast<nb::tuple>(result);
    const int k = nb::cast<int>(parts[0]);
    if (k < 0 || k > static_cast<int>(ResultKind::Float)) fail("there is no kind {} of results", k);
    p.results.push_back({static_cast<ResultKind>(k), nb::cast<std::size_t>(parts[1]), nb::borrow(parts[2])});
    const Result& made = p.results.back();
    const std::size_t count = made.kind == ResultKind::Input ? p.inputs.size() : plan.outputs.size();
    if (made.kind != ResultKind::Constant && made.index >= count)
      fail("a result is number {} of {}", made.index, count);
  }
  for (auto [name, tensor] : nb::cast<nb::dict>(t[2]))
    p.constants.emplace(nb::cast<std::string>(name), nb::borrow(tensor));
  if (!t[3].is_none()) p.before = nb::borrow(t[3]);
  p.torch_seed = nb::cast<bool>(t[4]);
  for (nb::handle i : t[5]) p.on_host.insert(nb::cast<std::size_t>(i));
  for (nb::handle i : t[6]) p.views.insert(nb::cast<std::size_t>(i));
  const auto frozen = std::ranges::count(p.inputs, InputKind::Frozen);
  if (p.inputs.size() - static_cast<std::size_t>(frozen) != plan.inputs.size())
    fail("a call passes {} inputs, the program takes {}", p.inputs.size(), plan.inputs.size());
  return p;
}

const runtime::Plan& CompiledGraph::plan() const { return model_->plan(); }

void CompiledGraph::seed(std::uint64_t seed) const { model_->seed(seed); }

std::optional<std::vector<std::int64_t>> CompiledGraph::constant_strides(std::size_t k) const {
  const Result& result = pattern_.results.at(k);
  if (result.kind != ResultKind::Computed) return {};
  const runtime::Output& out = plan().outputs[result.index];
  if (out.kind != runtime::Output::Kind::Tensor) return {};
  std::vector<std::int64_t> strides;
  for (runtime::Slot s : out.view.strides) {
    const runtime::ShapeInstruction& i = plan().shape_program[s];
    if (i.op != runtime::ShapeOp::Constant) return {};
    strides.push_back(i.a);
  }
  return strides;
}

void CompiledGraph::save(const std::filesystem::path& path) const { runtime::save_package(*saved_, path); }

namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

Array array_of(nb::handle object, const runtime::Input& input) {
  Array a;
  if (!nb::try_cast(object, a))
    fail("input '{}' cannot be an array of {}", input.name,
         nb::str(nb::getattr(object, "dtype", nb::str("unknown type"))).c_str());
  if (input.mutated &&
      !nb::cast<bool>(nb::getattr(nb::getattr(object, "flags", nb::none()), "writeable", nb::bool_(true))))
    fail("the program writes to input '{}', and this array is for reading only", input.name);
  return a;
}

bool runs_backwards(const Array& a) {
  for (std::size_t d = 0; d < a.ndim(); ++d)
    if (a.stride(d) < 0) return true;
  return false;
}

/// Holds on to the array: results may be views of it.
Tensor held(const Array& a) {
  Tensor t;
  t.dtype = dlpack::dtype_of({a.dtype().code, a.dtype().bits, a.dtype().lanes});
  for (std::size_t d = 0; d < a.ndim(); ++d) t.sizes.push_back(a.shape(d)), t.strides.push_back(a.stride(d));
  t.storage.data = std::shared_ptr<std::byte>(static_cast<std::byte*>(const_cast<void*>(a.data())),
                                              [kept = new Array(a)](std::byte*) {
                                                nb::gil_scoped_acquire acquire;
                                                delete kept;
                                              });
  t.storage.bytes = dlpack::span_bytes(t);
  return t;
}

/// `frozen`: it is a view of memory that is for reading only.
nb::object numpy_array(const Tensor& t, bool frozen) {
  const auto type = dlpack::type_of(t.dtype);
  if (!type || t.dtype == DType::BF16) fail("NumPy has no {}; call with torch tensors", torch_name(t.dtype));
  auto* owner = new std::shared_ptr<std::byte>(t.storage.data);
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<std::byte>*>(p); });
  const std::vector<std::size_t> sizes(t.sizes.begin(), t.sizes.end());
  nb::object made =
      nb::cast(nb::ndarray<nb::numpy>(t.storage.data ? t.bytes() : nullptr, sizes.size(), sizes.data(), capsule,
                                      t.strides.data(), nb::dlpack::dtype{type->code, type->bits, type->lanes}),
               nb::rv_policy::reference);
  if (frozen) made.attr("flags").attr("writeable") = false;
  return made;
}

void set_number(Tensor& t, DType dtype, std::int64_t& memory) {
  t.dtype = dtype;
  t.storage = {std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), reinterpret_cast<std::byte*>(&memory)),
               size_of(dtype)};
}

void read_number(InputKind kind, PyObject* object, Tensor& to, std::int64_t& memory) {
  switch (kind) {
    case InputKind::Int:
      set_number(to, DType::I64, memory);
      memory = PyLong_AsLongLong(object);
      break;
    case InputKind::Bool:
      set_number(to, DType::Bool, memory);
      memory = PyObject_IsTrue(object);
      break;
    case InputKind::Float: {
      set_number(to, DType::F64, memory);
      const double d = PyFloat_AsDouble(object);
      std::memcpy(&memory, &d, sizeof d);
      break;
    }
    default: return set_number(to, DType::I64, memory);
  }
  if (PyErr_Occurred()) throw nb::python_error();
}

}  // namespace

/// True where the input looks like the last call's.
bool CompiledGraph::read_input(State& state, std::size_t i, PyObject* object) const {
  const InputKind kind = pattern_.inputs[arguments_[i]];
  Tensor& to = state.inputs[i];
  if (kind == InputKind::Tensor) [[likely]]
    return Exchange::get().borrow(object, plan().device, to, true);
  if (kind == InputKind::Any && (PyBool_Check(object) || PyLong_Check(object) || PyFloat_Check(object))) {
    read_number(PyBool_Check(object)   ? InputKind::Bool
                : PyLong_Check(object) ? InputKind::Int
                                       : InputKind::Float,
                object, to, state.numbers[i]);
    return false;
  }
  if (kind != InputKind::Lazy && kind != InputKind::Any) {
    read_number(kind, object, to, state.numbers[i]);
    return true;
  }
  // First, since it refuses what is no tensor.
  const bool alike = Exchange::get().borrow(object, plan().device, to, false);
  nb::object resolved = Exchange::get().resolve(object);
  if (resolved.is(object)) return alike;
  Exchange::get().borrow(resolved, plan().device, to, false);
  state.resolved.resize(arguments_.size());
  state.resolved[i] = std::move(resolved);
  return false;
}

const CompiledGraph::SharedBase& CompiledGraph::base_of(State& state, const Source& source) const {
  if (state.bases.size() <= source.index) state.bases.resize(source.index + 1);
  SharedBase& base = state.bases[source.index];
  if (base.tensor) return base;
  const Tensor* any = nullptr;
  for (std::size_t k = 0; k < sources_.size() && !base.result; ++k) {
    if (sources_[k].kind != Source::Kind::Shared || sources_[k].index != source.index) continue;
    const Tensor& t = state.outputs[k];
    any = &t;
    if (pattern_.views.contains(k)) continue;
    const bool is_whole = static_cast<std::size_t>(t.numel()) * size_of(t.dtype) == t.storage.bytes;
    if (is_whole && t.offset == 0) base = {Exchange::get().wrap(t), t.dtype, k};
  }
  if (base.result) return base;
  const auto elements = static_cast<std::int64_t>(any->storage.bytes / size_of(source.base_dtype));
  return base = {Exchange::get().wrap({any->storage, source.base_dtype, {elements}, {1}, 0}), source.base_dtype, {}};
}

/// What a result that views an input views: where the argument was put off to negate and its values were computed into
/// memory that lies otherwise, these.
nb::handle CompiledGraph::seen_as(const State& state, std::size_t input, nb::handle given) {
  if (input >= state.resolved.size() || !state.resolved[input]) return given;
  const nb::object& computed = state.resolved[input];
  return computed.attr("stride")().equal(given.attr("stride")()) ? given : nb::handle(computed);
}

nb::object CompiledGraph::result(State& state, std::size_t k, PyObject* const* args) const {
  const Tensor& t = state.outputs[k];
  const Source& source = sources_[k];
  const Exchange& exchange = Exchange::get();
  if (source.to_host && source.kind != Source::Kind::Number) return exchange.wrap(state.context.to_host(t));
  switch (source.kind) {
    case Source::Kind::Number:
      if (t.dtype == DType::Bool) return nb::bool_(*t.data<bool>());
      if (t.dtype == DType::F64) return nb::float_(*t.data<double>());
      return nb::int_(*t.data<std::int64_t>());
    case Source::Kind::Own: return exchange.wrap(t);
    case Source::Kind::Constant: {
      if (!source.constant || !source.device.is_host()) return exchange.wrap(t);  // another device has its own copy
      Tensor held = exchange.own(source.constant, source.device);
      return exchange.alias(source.constant, held.dtype, t,
                            (t.bytes() - held.bytes()) / static_cast<std::ptrdiff_t>(size_of(t.dtype)));
    }
    case Source::Kind::Input: {
      const Tensor& in = state.inputs[source.index];
      // An input that came in another layout was copied, so that nothing of the caller's is left to be a view of.
      if (t.storage.data != in.storage.data) return exchange.wrap(t);
      return exchange.alias(seen_as(state, source.index, args[arguments_[source.index]]), in.dtype, t, t.offset);
    }
    case Source::Kind::Shared: {
      const SharedBase& base = base_of(state, source);
      return base.result == k ? base.tensor : exchange.alias(base.tensor, base.dtype, t, t.offset);
    }
  }
  return nb::none();
}

nb::list CompiledGraph::call_arrays(nb::list arrays) {
  if (!plan().device.is_host())
    fail("the program was compiled for {}; call it with torch tensors", to_string(plan().device));
  if (arrays.size() != plan().inputs.size())
    fail("the program takes {} inputs, but {} were given", plan().inputs.size(), arrays.size());
  std::vector<Tensor> inputs;
  std::vector<bool> frozen;
  std::vector<std::pair<nb::object, nb::object>> copies;  // of arrays that run backwards, which tensors cannot
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const nb::handle array = arrays[i];
    Array a = array_of(array, plan().inputs[i]);
    if (runs_backwards(a)) {
      copies.emplace_back(nb::borrow(array), array.attr("copy")());
      a = array_of(copies.back().second, plan().inputs[i]);
      if (!plan().inputs[i].mutated) copies.back().first = nb::none();
    }
    inputs.push_back(held(a));
    frozen.push_back(
        !nb::cast<bool>(nb::getattr(nb::getattr(array, "flags", nb::none()), "writeable", nb::bool_(true))));
  }
  Lease lease(*this);
  State& state = *lease.state;
  state.run(inputs);
  for (const auto& [array, copy] : copies)
    if (!array.is_none()) array[nb::ellipsis()] = copy;
  nb::list out;
  for (std::size_t k = 0; k < state.outputs.size(); ++k) {
    const Source& source = sources_[k];
    out.append(numpy_array(state.outputs[k], source.kind == Source::Kind::Input && frozen[source.index]));
  }
  return out;
}

/// Work goes where torch puts its own, so that neither waits for the other.
void CompiledGraph::follow_stream(State& state) const {
  void* const kDefaultStream = reinterpret_cast<void*>(1);  // CU_STREAM_LEGACY; torch calls that stream null
  void* stream = Exchange::get().current_stream(plan().device);
  if (!stream) stream = kDefaultStream;
  if (stream == state.stream) return;
  // Recorded runs keep their memory, which their launches point at.
  if (!state.stream && !record)
    state.context.borrow_memory(
        [device = plan().device](std::size_t bytes) { return Exchange::get().allocate(device, bytes); });
  state.context.set_stream(stream);
  state.stream = stream;
}

/// Whether the run may let go of any arguments, and which: those that nobody else refers to and that are no results.
/// (Of those that results view the run says nothing.) And which of them it may write to.
bool CompiledGraph::find_loose(PyObject** args, State& state) const {
  state.loose.assign(arguments_.size(), nullptr);
  state.alone.assign(arguments_.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    PyObject*& argument = args[arguments_[i]];
    const InputKind kind = pattern_.inputs[arguments_[i]];
    if ((kind != InputKind::Tensor && kind != InputKind::Lazy) || (!state.resolved.empty() && state.resolved[i]) ||
        returned_[arguments_[i]] || Py_REFCNT(argument) != 1)
      continue;
    state.loose[i] = &argument;
    if (plan().inputs[i].taken) state.alone[i] = Exchange::get().is_alone(argument);
    any = true;
  }
  return any;
}

CompiledGraph* CompiledGraph::chosen() {
  const nb::object other = choose();
  if (other.is_none()) return nullptr;
  if (!nb::isinstance<nb::bool_>(other)) return nb::inst_ptr<CompiledGraph>(other);
  forget_states();
  return nullptr;
}

void CompiledGraph::forget_states() {
  std::vector<std::unique_ptr<State>> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(idle_);
  }
  nb::gil_scoped_release release;  // a group's threads may be at its store
  gone.clear();
}

void CompiledGraph::run_call(State& state, bool alike) const try {
  state.run(state.inputs, alike);
} catch (const OutOfMemory& e) {
  if (!advise.is_valid() || advise.is_none()) throw;
  const nb::object more = advise(e.needed());
  throw OutOfMemory(e.what() + nb::cast<std::string>(more), e.needed());
}

nb::object CompiledGraph::call(PyObject** args, std::size_t count, bool lets_go) {
  if (choose.is_valid()) [[unlikely]]
    if (CompiledGraph* other = chosen()) return other->call(args, count, lets_go);
  if (count != pattern_.inputs.size())
    fail("the graph takes {} inputs, but {} were given", pattern_.inputs.size(), count);
  if (pattern_.before.is_valid() &&
      !nb::steal(PyObject_Vectorcall(pattern_.before.ptr(), args, count, nullptr)).is_valid())
    throw nb::python_error();
  Lease lease(*this);
  State& state = *lease.state;
  if (plan().device != Device{} && Exchange::has_tensors(plan().device)) follow_stream(state);
  bool alike = true;
  const Exchange& exchange = Exchange::get();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    PyObject* const argument = args[arguments_[i]];
    if (pattern_.inputs[arguments_[i]] == InputKind::Tensor && exchange.borrow_alike(argument, state.inputs[i]))
      continue;
    alike = read_input(state, i, argument) && alike;
  }
  if (draws_) state.context.set_seed(torch_seed());
  if (lets_go && find_loose(args, state)) state.set_loose(&state.loose);
  {
    const CallArguments in_call(args, arguments_, state.inputs, state.resolved);
    run_call(state, alike);
  }
  for (std::size_t i = 0; i < state.resolved.size(); ++i)
    if (state.resolved[i] && plan().inputs[i].mutated) nb::handle(args[arguments_[i]]).attr("copy_")(state.resolved[i]);
  std::vector<nb::object>& computed = state.computed;
  for (std::size_t k = 0; k < state.outputs.size(); ++k) computed.push_back(result(state, k, args));
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(pattern_.results.size())));
  for (std::size_t k = 0; k < pattern_.results.size(); ++k) {
    const Result& r = pattern_.results[k];
    nb::object value = nb::borrow(r.kind == ResultKind::Constant ? r.constant.ptr()
                                  : r.kind == ResultKind::Input  ? args[r.index]
                                                                 : computed[r.index].ptr());
    if (r.kind == ResultKind::Float && !PyFloat_Check(value.ptr())) value = value.attr("item")();
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(k), value.release().ptr());
  }
  return tuple;
}

}  // namespace coil::python
