#include "traced_graph.h"

#include <nanobind/stl/string.h>

#include "exchange.h"
#include "frontend/sympy.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "fx/user_kernels.h"
#include "graph_cache.h"
#include "runtime/plan/planned_peaks.h"
#include "support/error.h"
#include "wrapper/plan.h"

namespace coil::python {

using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;

namespace {

Device device_named(const std::string& torch_name) {
  return parse_device(torch_name.starts_with("cpu") ? "cpu" : torch_name);
}

/// Metadata of a tensor on the CPU.
bool is_on_host(nb::handle meta) {
  return nb::isinstance<nb::tuple>(meta) && nb::cast<std::string>(meta[nb::int_(4)]).starts_with("cpu");
}

}  // namespace

Literal Literal::dtype(const std::string& name) {
  const auto d = dtype_from_torch_name(name);
  if (!d) fail("element type {} is not supported", name);
  return {*d};
}
Literal Literal::device(const std::string& name) { return {device_named(name)}; }
Literal Literal::memory_format(const std::string& name) {
  using ops::MemoryFormat;
  for (MemoryFormat f :
       {MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
    if (name == ops::name_of(f)) return {f};
  fail("memory format {} is not supported", name);
}
Literal Literal::layout(const std::string& name) {
  return {name == "strided" ? ops::TensorLayout::Strided : ops::TensorLayout::Sparse};
}

Literal Literal::graph(const std::string& name) { return {ops::GraphRef{name}}; }

TracedGraph::TracedGraph(std::string name) : module_(std::make_unique<fx::GraphModule>()) {
  module_->name = std::move(name);
  module_->has_tracer = true;
}

void TracedGraph::symbol(const std::string& name, std::optional<std::int64_t> hint, std::optional<std::int64_t> low,
                         std::optional<std::int64_t> high, bool unbacked) {
  if (module_->env->context().find(name)) return;
  const sym::Range range{low.value_or(sym::Range::kMin), high.value_or(sym::Range::kMax)};
  if (unbacked)
    module_->env->add_unbacked(name, range);
  else
    module_->env->add_size(name, hint, range);
}

Literal TracedGraph::number(const std::string& srepr) { return {expression(srepr)}; }

void TracedGraph::assume(const std::string& condition, const std::string& reason) {
  module_->env->add_guard(expression(condition), reason);
}

Expr TracedGraph::expression(std::string_view srepr) {
  auto [it, added] = parsed_.try_emplace(std::string(srepr));
  if (added)
    it->second = frontend::parse_srepr(srepr, [&](std::string_view name) {
      const auto known = module_->env->context().find(name);
      if (!known) fail("the symbol {} was not declared", name);
      return *known;
    });
  return module_->env->simplify(it->second);
}

namespace {
/// The value of a Python int.
std::int64_t whole_number(nb::handle h) {
  int beyond = 0;
  const long long number = PyLong_AsLongLongAndOverflow(h.ptr(), &beyond);
  if (beyond != 0) fail("{} leaves the range of 64-bit integers", nb::cast<std::string>(nb::str(h)));
  return number;
}
}  // namespace

Expr TracedGraph::integer(nb::handle h) {
  if (PyLong_Check(h.ptr())) return whole_number(h);
  return expression(nb::cast<std::string>(h));
}

sym::TensorMeta TracedGraph::tensor_meta(nb::tuple t) {
  if (t.size() != 5) fail("metadata of a tensor has 5 parts");
  sym::TensorMeta m;
  const auto name = nb::cast<std::string>(t[0]);
  const auto dtype = dtype_from_torch_name(name);
  if (!dtype) fail("element type {} is not supported", name);
  m.dtype = *dtype;
  for (nb::handle s : nb::borrow<nb::tuple>(t[1])) m.sizes.push_back(integer(s));
  for (nb::handle s : nb::borrow<nb::tuple>(t[2])) m.strides.push_back(integer(s));
  m.offset = integer(t[3]);
  const auto place = nb::cast<std::string>(t[4]);
  m.device = device_named(place);
  if (m.device.is_host() || m.device.is_meta()) return m;
  if (device_ != Device{} && device_ != m.device)
    fail("the graph's tensors lie on {} and on {}; a program runs on one GPU", to_string(device_), to_string(m.device));
  device_ = m.device;
  return m;
}

Value TracedGraph::meta(nb::handle h) {
  if (h.is_none()) return ops::None{};
  if (nb::isinstance<nb::tuple>(h)) return tensor_meta(nb::borrow<nb::tuple>(h));
  if (nb::isinstance<nb::list>(h)) {
    Values all;
    for (nb::handle item : nb::borrow<nb::list>(h)) all.push_back(meta(item));
    return all;
  }
  if (PyBool_Check(h.ptr())) return h.is(Py_True);
  if (PyFloat_Check(h.ptr())) return nb::cast<double>(h);
  if (nb::isinstance<nb::dict>(h)) {  // {"bool": srepr}, {"float": name, "value": srepr}
    const auto d = nb::borrow<nb::dict>(h);
    if (d.contains("bool")) return ops::Bool{expression(nb::cast<std::string>(d["bool"]))};
    ops::SymFloat f{nb::cast<std::string>(d["float"])};
    if (d.contains("value")) {
      try {
        f.value = frontend::parse_float_srepr(nb::cast<std::string>(d["value"]), [&](std::string_view name) {
          return module_->env->context().find(name).value();
        });
      } catch (const Error&) {
        // A function that sizes do not go through: the program computes it in memory.
      }
    }
    return f;
  }
  return integer(h);
}

Value TracedGraph::value(nb::handle h) {
  PyObject* o = h.ptr();
  if (o == Py_None) return ops::None{};
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return whole_number(h);
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_Check(o)) return nb::cast<std::string>(h);
  if (nb::isinstance<NodeHandle>(h)) return nb::cast<NodeHandle&>(h).node;
  if (nb::isinstance<Literal>(h)) return nb::cast<Literal&>(h).value;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    Values all;
    for (nb::handle item : h) all.push_back(value(item));
    return all;
  }
  fail("an argument of type {} is not supported", nb::cast<std::string>(nb::type_name(h.type())));
}

NodeHandle TracedGraph::placeholder(const std::string& name, nb::handle m, nb::handle strides, bool lazy,
                                    std::optional<std::tuple<std::uint32_t, std::uint64_t, bool>> goes) {
  Value value = meta(m);
  InputKind kind = InputKind::Tensor;
  std::optional<Value> constant;
  if (value.is_none())
    kind = InputKind::None, constant = value;
  else if (value.is<Expr>())
    kind = InputKind::Int;
  else if (value.is<ops::Bool>())
    kind = InputKind::Bool;
  else if (!value.is<sym::TensorMeta>())
    kind = InputKind::Float;
  else if (lazy)
    kind = InputKind::Lazy;
  fx::Node* n = current().graph.placeholder(name, std::move(value));
  n->meta.origins = {n->name};
  current().inputs.push_back({n->name, n->name, std::move(constant)});
  if (!open_.empty()) return {n};
  if (goes) module_->inputs.back().goes = std::make_from_tuple<GoingMemory>(*goes);
  if (!strides.is_none()) {
    Exprs& given = module_->inputs.back().strides.emplace();
    laid_out_anew_.insert(n);
    for (nb::handle s : nb::borrow<nb::tuple>(strides)) given.push_back(integer(s));
  }
  arguments_.emplace(n, pattern_.inputs.size());
  pattern_.inputs.push_back(kind);
  return {n};
}

NodeHandle TracedGraph::frozen(const std::string& name, nb::object tensor, nb::handle m) {
  const NodeHandle handle = constant(name, std::move(tensor), m);
  arguments_.emplace(handle.node, pattern_.inputs.size());
  pattern_.inputs.push_back(InputKind::Frozen);
  return handle;
}

NodeHandle TracedGraph::constant(const std::string& name, nb::object tensor, nb::handle m) {
  sym::TensorMeta meta = tensor_meta(nb::borrow<nb::tuple>(m));
  // The compiler reads constants; a program for another device brings them there.
  Tensor held = Exchange::get().own(is_on_host(m) ? tensor : tensor.attr("cpu")(), Device{});
  meta.offset = 0;  // of what is held: its memory begins at its first element
  std::string key;
  for (const fx::GraphModule* g : open_) key += g->name + ".";
  key += name;
  current().attributes.emplace(key, std::move(held));
  pattern_.constants.emplace(key, std::move(tensor));
  fx::Node* n = current().graph.get_attr(name, key, std::move(meta));
  n->meta.origins = {n->name};
  if (is_on_host(m)) on_host_.insert(n);
  return {n};
}

NodeHandle TracedGraph::call(const std::string& target, nb::handle args, nb::dict kwargs, const std::string& name,
                             nb::handle m, const std::string& stack_trace) {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
  try {
    positional = std::get<Values>(value(args));
    for (auto [k, v] : kwargs) named.emplace_back(nb::cast<std::string>(k), value(v));
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", target, e.what()), target, "");
  }
  if (const ops::Operator* op = ops::find(target))
    positional = ops::normalize(*op, std::move(positional), std::exchange(named, {}));
  fx::Node* n = current().graph.call(target, std::move(positional), name, std::move(named));
  n->meta.value = meta(m);
  n->meta.stack_trace = stack_trace;
  n->meta.origins = {n->name};
  if (is_on_host(m)) on_host_.insert(n);
  return {n};
}

void TracedGraph::begin_graph(const std::string& name) {
  auto graph = std::make_unique<fx::GraphModule>();
  graph->env = module_->env;
  graph->name = name;
  graph->has_tracer = true;
  fx::GraphModule* begun = graph.get();
  if (!current().subgraphs.emplace(name, std::move(graph)).second) fail("the graph {} is there already", name);
  open_.push_back(begun);
}

void TracedGraph::end_graph(nb::list results, bool bare) {
  if (open_.empty()) fail("no graph was begun");
  fx::GraphModule& ended = current();
  Values returned;
  for (nb::handle h : results) {
    ended.outputs.push_back({bare ? "output" : fmt::format("{}", returned.size())});
    returned.push_back(value(h));
  }
  ended.graph.output(std::move(returned));
  ended.graph.lint();
  open_.pop_back();
}

void TracedGraph::output(nb::list results, const std::set<std::size_t>& any_strides) {
  Values returned;
  std::unordered_map<const fx::Node*, std::size_t> places;
  for (nb::handle h : results) {
    const bool any = any_strides.contains(pattern_.results.size());
    if (!nb::isinstance<NodeHandle>(h)) {
      pattern_.results.push_back({ResultKind::Constant, 0, nb::borrow(h)});
      continue;
    }
    fx::Node* n = nb::cast<NodeHandle&>(h).node;
    if (auto in = arguments_.find(n); in != arguments_.end() && !laid_out_anew_.contains(n)) {
      pattern_.results.push_back({ResultKind::Input, in->second, {}});
      continue;
    }
    auto [place, added] = places.emplace(n, returned.size());
    if (added) {
      if (device_ != Device{} && on_host_.contains(n)) pattern_.on_host.insert(returned.size());
      if (n->op && n->op->schema.is_view()) pattern_.views.insert(returned.size());
      returned.push_back(n);
      module_->outputs.push_back({n->name, any});
    } else {
      module_->outputs[place->second].any_strides &= any;
    }
    const bool is_float =
        n->meta.value.is<ops::SymFloat>();  // torch counts on a number, which its backward graph takes
    pattern_.results.push_back({is_float ? ResultKind::Float : ResultKind::Computed, place->second, {}});
  }
  module_->graph.output(std::move(returned));
  module_->graph.lint();
  fx::take_user_kernels(*module_);
}

std::string TracedGraph::text() const { return fx::to_string(*module_, {.locations = true}); }

std::unique_ptr<CompiledGraph> TracedGraph::compile(const CompileOptions& options, bool keep_graph) {
  if (!module_->graph.output()) fail("the graph has no output node");
  frontend::ExportedProgram program;
  program.module = std::move(module_);
  module_ = std::make_unique<fx::GraphModule>();
  Compiled compiled;
  std::string entry;
  bool compiled_here = false;
  {
    nb::gil_scoped_release release;
    const auto start = std::chrono::steady_clock::now();
    // A compile that is asked for the text of its stages must go through them.
    const bool cached = keep_graph && options.cache && options.log.empty() && !options.debug_dir;
    if (cached) entry = cache_entry(*program.module, options);
    if (auto found = cached ? load_cached(*options.cache, entry) : std::nullopt) {
      compiled.program = std::make_shared<runtime::StoredProgram>(std::move(found->program));
      compiled.report.text = std::move(found->report);
      compiled.report.kernels = static_cast<int>(compiled.program->plan.kernels.size());
      compiled.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    } else {
      compiled = compile_program(std::move(program), options);
      compiled_here = true;
      if (cached) store_cached(*options.cache, entry, *compiled.program, compiled.report.text);
    }
  }
  pattern_.torch_seed = true;
  auto made =
      std::make_unique<CompiledGraph>(std::move(*compiled.program), std::move(compiled.report), std::move(pattern_));
  made->entry = std::move(entry);
  made->compiled_here = compiled_here;
  return made;
}

void TracedGraph::infer() { fx::infer_missing(*module_); }

std::pair<LoweredProgram, runtime::Plan> TracedGraph::planned(const CompileOptions& options) {
  if (!module_->graph.output()) fail("the graph has no output node");
  frontend::ExportedProgram program;
  program.module = std::exchange(module_, std::make_unique<fx::GraphModule>());
  CompileReport report;
  Stages stage(report, options);
  nb::gil_scoped_release release;
  LoweredProgram lowered = lower_program(std::move(program), options, stage);
  runtime::Plan plan = wrapper::make_plan(lowered.lines);
  return {std::move(lowered), std::move(plan)};
}

nb::dict TracedGraph::planned_peaks(const CompileOptions& options,
                                    const std::map<std::string, std::pair<std::uint32_t, std::uint64_t>>& going) {
  const runtime::Plan plan = planned(options).second;
  std::map<std::uint32_t, GoingMemory> places;
  for (std::uint32_t i = 0; i < plan.inputs.size(); ++i)
    if (const auto found = going.find(plan.inputs[i].name); found != going.end())
      places[i] = {found->second.first, found->second.second};
  const runtime::PlannedPeaks peaks = runtime::planned_peaks(plan, places);
  nb::dict out;
  out["least"] = peaks.least;
  out["pieces"] = peaks.pieces;
  out["whole"] = peaks.whole;
  out["outputs"] = peaks.outputs;
  out["arena"] = peaks.arena;
  out["kept"] = peaks.kept;
  out["count"] = peaks.count;
  return out;
}

nb::list TracedGraph::lower(const CompileOptions& options) {
  const auto [lowered, plan] = planned(options);
  const wrapper::Program& lines = lowered.lines;
  const auto number = [&](Expr e) -> nb::object {
    const auto hint = lines.env->hint(e);
    return hint ? nb::cast(*hint) : nb::none();
  };
  const auto numbers = [&](const Exprs& list) {
    nb::list all;
    for (Expr e : list) all.append(number(e));
    return nb::tuple(all);
  };
  nb::list results;
  for (const wrapper::Output& out : lines.outputs) {
    if (const auto* view = std::get_if<wrapper::View>(&out.value)) {
      const wrapper::Buffer& memory = lines.buffers.at(view->buffer);
      const nb::object input =
          memory.kind == wrapper::BufferKind::Input ? nb::cast(memory.index) : nb::object(nb::none());
      results.append(nb::make_tuple(std::string(torch_name(view->dtype)), numbers(view->sizes), numbers(view->strides),
                                    number(view->offset), input));
    } else if (const auto* e = std::get_if<Expr>(&out.value)) {
      results.append(number(*e));
    } else {
      results.append(nb::cast(std::get<double>(out.value)));
    }
  }
  return results;
}

bool declare_operator(const std::string& target, const std::string& schema, bool random, bool side_effect) {
  if (ops::find(target)) return true;
  try {
    ops::define(schema, {}, random, side_effect);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace coil::python
