// The extension `coil._native`: what the Python package is made from.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "coil/runtime.h"
#include "compiler/extension.h"
#include "compiler/library.h"
#include "compiler/options.h"
#include "device/pieces.h"
#include "exchange.h"
#include "frozen_graph.h"
#include "graph_cache.h"
#include "lowering/lowering.h"
#include "ops/outside.h"
#include "ops/registry.h"
#include "ops/shapes/einsum.h"
#include "passes/graph/passes.h"
#include "runtime/groups/groups.h"
#include "runtime/groups/stores.h"
#include "runtime/groups/symmetric.h"
#include "runtime/host/symm_mem_args.h"
#include "runtime/plan/package.h"
#include "runtime/plan/signature_json.h"
#include "support/error.h"
#include "support/out_of_memory.h"
#include "sym/needs_value.h"
#include "torch_host.h"
#include "torch_store.h"
#include "traced_graph.h"

namespace coil::python {
namespace {

PyObject* g_error = nullptr;          ///< coil.Error, as long as the module lives
PyObject* g_needs_value = nullptr;    ///< the same of NeedsValue
PyObject* g_out_of_memory = nullptr;  ///< and of OutOfMemory

void raise_out_of_memory(const OutOfMemory& e) {
  nb::object error = nb::borrow(g_out_of_memory)(e.what());
  error.attr("needed") = e.needed();
  PyErr_SetObject(g_out_of_memory, error.ptr());
}

/// `compile()`; a refusal for want of the values of free sizes is an error that names them.
template <class Compile>
auto naming_sizes(const Compile& compile) {
  try {
    return compile();
  } catch (const sym::NeedsValue& e) {
    nb::object error = nb::borrow(g_needs_value)(e.what());
    error.attr("symbols") = e.symbols();
    PyErr_SetObject(g_needs_value, error.ptr());
    throw nb::python_error();
  }
}

/// `graph([inputs…])` empties the list, so that the caller's references go as soon as they can (torch's "boxed"
/// convention); `graph(*inputs)` takes them one by one.
template <class Graph>
PyObject* call_graph(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "a compiled graph takes its inputs by position");
    return nullptr;
  }
  nb::object inputs = nb::borrow(args);  // holds on to them while the graph runs
  bool boxed = false;
  if (PyTuple_GET_SIZE(args) == 1 && PyList_Check(PyTuple_GET_ITEM(args, 0))) {
    PyObject* list = PyTuple_GET_ITEM(args, 0);
    inputs = nb::steal(PyList_AsTuple(list));
    if (!inputs.is_valid() || PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) != 0) return nullptr;
    boxed = true;
  }
  try {
    auto& graph = *nb::inst_ptr<Graph>(self);
    return graph
        .call(&PyTuple_GET_ITEM(inputs.ptr(), 0), static_cast<std::size_t>(PyTuple_GET_SIZE(inputs.ptr())), boxed)
        .release()
        .ptr();
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const OutOfMemory& e) {
    raise_out_of_memory(e);
  } catch (const std::exception& e) {
    PyErr_SetString(g_error, e.what());
  }
  return nullptr;
}

template <class Graph>
PyType_Slot kSlots[] = {{Py_tp_call, reinterpret_cast<void*>(call_graph<Graph>)}, {0, nullptr}};

CompileOptions options_of(std::map<std::string, std::string> settings, std::optional<std::filesystem::path> cache,
                          std::vector<std::string> log, const std::string& device,
                          std::optional<std::filesystem::path> debug_dir = {}) {
  CompileOptions o;
  o.debug_dir = std::move(debug_dir);
  o.device = device;
  o.settings = std::move(settings);
  o.cache = std::move(cache);
  o.log = std::move(log);
  return o;
}

template <class Ports>
std::vector<std::string> names(const Ports& ports) {
  std::vector<std::string> out;
  for (const auto& p : ports) out.push_back(p.name);
  return out;
}

/// Exceptions of the compiler and the runtime, as those of Python.
void bind_errors(nb::module_& m) {
  nb::exception<Error> error(m, "Error", PyExc_RuntimeError);
  g_error = error.ptr();
  g_needs_value = PyErr_NewExceptionWithDoc(
      "coil._native.NeedsValue", "A refusal that goes away when the sizes in `symbols` are fixed.", g_error, nullptr);
  g_out_of_memory = PyErr_NewExceptionWithDoc(
      "coil._native.OutOfMemory", "Memory that cannot be had, or that memory.limit refuses; `needed` bytes at once.",
      g_error, nullptr);
  m.attr("OutOfMemory") = nb::handle(g_out_of_memory);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const OutOfMemory& e) {
      raise_out_of_memory(e);
    }
  });
  m.attr("NeedsValue") = nb::handle(g_needs_value);
}

/// Graphs while Python traces them.
void bind_traced_graph(nb::module_& m) {
  nb::class_<NodeHandle>(m, "Node").def_prop_ro("name", [](const NodeHandle& h) { return h.node->name; });
  nb::class_<Literal>(m, "Literal")
      .def_static("dtype", &Literal::dtype)
      .def_static("device", &Literal::device)
      .def_static("memory_format", &Literal::memory_format)
      .def_static("layout", &Literal::layout)
      .def_static("graph", &Literal::graph);

  nb::class_<TracedGraph>(m, "TracedGraph")
      .def(nb::init<std::string>())
      .def("symbol", &TracedGraph::symbol, nb::arg("name"), nb::arg("hint").none(), nb::arg("low").none(),
           nb::arg("high").none(), nb::arg("unbacked"))
      .def("number", &TracedGraph::number)
      .def("assume", &TracedGraph::assume, nb::arg("condition"), nb::arg("reason"))
      .def("placeholder", &TracedGraph::placeholder, nb::arg("name"), nb::arg("meta").none(),
           nb::arg("strides") = nb::none(), nb::arg("lazy") = false, nb::arg("goes") = nb::none(),
           nb::keep_alive<0, 1>())
      .def("constant", &TracedGraph::constant, nb::keep_alive<0, 1>())
      .def("call", &TracedGraph::call, nb::arg("target"), nb::arg("args"), nb::arg("kwargs"), nb::arg("name"),
           nb::arg("meta").none(), nb::arg("stack_trace"), nb::keep_alive<0, 1>())
      .def("frozen", &TracedGraph::frozen, nb::keep_alive<0, 1>())
      .def("before_calls", &TracedGraph::before_calls)
      .def("begin_graph", &TracedGraph::begin_graph)
      .def("end_graph", &TracedGraph::end_graph, nb::arg("results"), nb::arg("bare"))
      .def("output", &TracedGraph::output, nb::arg("results"), nb::arg("any_strides") = std::set<std::size_t>())
      .def("infer", &TracedGraph::infer)
      .def("text", &TracedGraph::text)
      .def_prop_ro("device", [](const TracedGraph& g) { return to_string(g.device()); })
      .def(
          "compile",
          [](TracedGraph& g, std::map<std::string, std::string> settings, std::optional<std::filesystem::path> cache,
             std::vector<std::string> log, const std::string& device, bool keep_graph,
             std::optional<std::filesystem::path> debug_dir) {
            const CompileOptions options =
                options_of(std::move(settings), std::move(cache), std::move(log), device, std::move(debug_dir));
            return naming_sizes([&] { return g.compile(options, keep_graph); });
          },
          nb::arg("settings"), nb::arg("cache").none(), nb::arg("log"), nb::arg("device"), nb::arg("keep_graph") = true,
          nb::arg("debug_dir").none() = nb::none())
      .def(
          "lower",
          [](TracedGraph& g, std::map<std::string, std::string> settings, const std::string& device) {
            return g.lower(options_of(std::move(settings), {}, {}, device));
          },
          nb::arg("settings"), nb::arg("device"))
      .def(
          "planned_peaks",
          [](TracedGraph& g, std::map<std::string, std::string> settings, const std::string& device,
             const std::map<std::string, std::pair<std::uint32_t, std::uint64_t>>& going) {
            return g.planned_peaks(options_of(std::move(settings), {}, {}, device), going);
          },
          nb::arg("settings"), nb::arg("device"), nb::arg("going"),
          "Bytes that a run has at its fullest, without scratch memory: with temporaries in pieces, in one arena, and "
          "the least. The graph is used up.");
}

/// Compiled graphs, as what is known of them.
nb::class_<CompiledGraph> bind_compiled_graph(nb::module_& m) {
  nb::class_<CompiledGraph> graph(m, "CompiledGraph", nb::type_slots(kSlots<CompiledGraph>), nb::dynamic_attr(),
                                  nb::is_weak_referenceable());
  graph.def_prop_ro("report", [](const CompiledGraph& g) { return g.report().text; })
      .def_prop_ro("kernels", [](const CompiledGraph& g) { return g.report().kernels; })
      .def_prop_ro("seconds", [](const CompiledGraph& g) { return g.report().seconds; })
      .def_prop_ro("stages", [](const CompiledGraph& g) { return g.report().stages; })
      .def_prop_ro("peak_bytes", [](const CompiledGraph& g) { return g.report().peak_bytes; })
      .def_prop_ro(
          "host_calls",
          [](const CompiledGraph& g) {
            std::vector<std::string> out;
            for (const runtime::Step& step : g.plan().steps)
              if (auto* call = std::get_if<runtime::HostCall>(&step)) out.push_back(call->op);
            return out;
          },
          "Operators that are called in torch, in order.")
      .def_prop_ro("arguments", &CompiledGraph::argument_count,
                   "How many inputs a call takes, those included that the program holds as constants.")
      .def_prop_ro("inputs", [](const CompiledGraph& g) { return names(g.plan().inputs); })
      .def_prop_ro("outputs", [](const CompiledGraph& g) { return names(g.plan().outputs); })
      .def("constant_strides", &CompiledGraph::constant_strides, nb::arg("result"),
           "Of one of the graph's results, where no size of a call changes them; else None.")
      .def_prop_ro(
          "signature",
          [](const CompiledGraph& g) {
            return g.plan().signature ? runtime::signature_to_json(*g.plan().signature).dump() : std::string();
          },
          "As JSON; empty where it is not known.")
      .def_prop_ro("provenance", &CompiledGraph::provenance, "As JSON; empty where nobody asked for it.")
      .def_prop_ro("unused", [](const CompiledGraph& g) {
        std::vector<bool> out;
        for (const runtime::Input& in : g.plan().inputs) out.push_back(in.unused);
        return out;
      });
  return graph;
}

/// How they are called, and what callers set.
void bind_calls(nb::class_<CompiledGraph> graph) {
  graph
      .def_rw("record", &CompiledGraph::record,
              "Whether calls that repeat with the same memory are recorded as CUDA graphs; set before the first call.")
      .def_rw("recordings", &CompiledGraph::recordings, "How many of those are kept, the last used.")
      .def_prop_ro(
          "exchanges", [](const CompiledGraph& g) { return std::pair(g.exchanges().groups, g.exchanges().text); },
          "The process groups in which the program itself exchanges values, and what; graphs of ranks for which that "
          "is "
          "the same can run with one another.")
      .def_rw("choose", &CompiledGraph::choose,
              "Called before each call of the graph: gives None, or another graph to run, or True where process groups "
              "are new.")
      .def_rw("advise", &CompiledGraph::advise,
              "Given the bytes that a call needs for which there is no memory, gives text for the error's end.")
      .def_ro("entry", &CompiledGraph::entry, "Its name in the cache of graphs; empty where that was not asked.")
      .def_ro("compiled_here", &CompiledGraph::compiled_here,
              "Whether this process compiled it, and did not find it in the cache.")
      .def_prop_ro(
          "pattern", [](const CompiledGraph& g) { return pattern_to_python(g.pattern(), g.plan()); },
          "How a call's objects map to the program's inputs and outputs, as plain objects for restore().")
      .def("call_arrays", &CompiledGraph::call_arrays)
      .def("seed", &CompiledGraph::seed)
      .def("save", &CompiledGraph::save);
}

/// The compiler on archives, packages and libraries from outside; graphs out of a cache.
void bind_compiler(nb::module_& m) {
  nb::class_<FrozenGraph>(m, "FrozenGraph", nb::type_slots(kSlots<FrozenGraph>), nb::dynamic_attr(),
                          nb::is_weak_referenceable())
      .def(nb::init<std::vector<std::size_t>, nb::callable>(), nb::arg("inputs"), nb::arg("compile"))
      .def("prepare", &FrozenGraph::prepare)
      .def_prop_ro("graph", &FrozenGraph::graph);

  m.def(
      "compile_archive",
      [](const std::filesystem::path& pt2, std::map<std::string, std::string> settings,
         std::optional<std::filesystem::path> cache, std::vector<std::string> log, const std::string& device,
         std::optional<std::filesystem::path> debug_dir) {
        const CompileOptions options =
            options_of(std::move(settings), std::move(cache), std::move(log), device, std::move(debug_dir));
        Compiled c;
        {
          nb::gil_scoped_release release;
          c = compile(pt2, options);
        }
        CallPattern pattern = plain_pattern(c.program->plan);
        return std::make_unique<CompiledGraph>(std::move(*c.program), std::move(c.report), std::move(pattern));
      },
      nb::arg("pt2"), nb::arg("settings"), nb::arg("cache").none(), nb::arg("log"), nb::arg("device"),
      nb::arg("debug_dir").none() = nb::none());
  m.def(
      "emit_archive",
      [](const std::filesystem::path& pt2, const std::string& language, const std::filesystem::path& output,
         std::map<std::string, std::string> settings, const std::string& device) {
        nb::gil_scoped_release release;
        emit(pt2, language, output, options_of(std::move(settings), {}, {}, device));
      },
      nb::arg("pt2"), nb::arg("language"), nb::arg("output"), nb::arg("settings"), nb::arg("device"));
  m.def(
      "support_text", [](const std::string& file) { return device::whole(file); }, nb::arg("file"),
      "Text that programs written as Python begin with, of one of the files of src/device.");
  m.def("load_library", [](const std::filesystem::path& library) { load_library(library); }, nb::arg("library"));
  m.def("load_package", [](const std::filesystem::path& path) {
    runtime::StoredProgram program = runtime::load_program(path);
    CallPattern pattern = plain_pattern(program.plan);
    return std::make_unique<CompiledGraph>(std::move(program), CompileReport{}, std::move(pattern));
  });
  m.def("build_and_machine", &build_and_machine, "Two processes for which this is equal may exchange compiled graphs.");
  m.def("libraries_hash", &libraries_hash, "Of the libraries loaded so far, on which a compile may depend.");
  m.def(
      "restore",
      [](const std::filesystem::path& cache, const std::string& entry,
         nb::tuple pattern) -> std::unique_ptr<CompiledGraph> {
        auto found = load_cached(cache, entry);
        if (!found) return nullptr;
        CompileReport report;
        report.text = std::move(found->report);
        report.kernels = static_cast<int>(found->program.plan.kernels.size());
        CallPattern calls = pattern_from_python(std::move(pattern), found->program.plan);
        auto made = std::make_unique<CompiledGraph>(std::move(found->program), std::move(report), std::move(calls));
        made->entry = entry;
        return made;
      },
      nb::arg("cache"), nb::arg("entry"), nb::arg("pattern"),
      "A graph from its entry in a cache; None where there is none, or one that is torn or of another version.");
}

/// Settings, and operators: those that Coil compiles, those of others, those that torch carries out.
void bind_operators(nb::module_& m) {
  m.def(
      "set_host", [](nb::callable find) { set_host(std::move(find)); },
      "`find(op)` gives the Python callable of an operator such as `aten.cumsum.default`, or None.");
  m.def(
      "set_seed_source", [](nb::callable draw) { set_seed_source(std::move(draw)); },
      "`draw()` gives a new signed 64-bit integer: the seed of one call of a graph.");
  m.def("settings", [] {
    std::vector<std::vector<std::string>> rows;
    for (const SettingHelp& s : settings_help()) rows.push_back({s.key, s.values, s.text});
    return rows;
  });
  m.def(
      "matrix_product",
      [](const std::string& equation) -> std::optional<std::tuple<std::vector<std::size_t>, std::vector<std::size_t>,
                                                                  bool, std::vector<std::size_t>>> {
        const auto p = ops::shapes::matrix_product(equation);
        if (!p) return std::nullopt;
        return std::tuple(p->left, p->right, p->turned, p->result);
      },
      "For torch.einsum of two operands that multiplies matrices: the orders that bring them to [batch.., row, summed] "
      "and [batch.., summed, column], whether the second has its last two the other way, and the order of the result "
      "from [batch.., row, column]. None for other equations.");
  m.def("check_settings", [](const std::map<std::string, std::string>& s) { parse_settings(s); });
  m.def("declare_operator", &declare_operator, nb::arg("target"), nb::arg("schema"), nb::arg("random"),
        nb::arg("side_effect"));
  m.def(
      "check_schema", [](const std::string& schema) { check_schema(schema); },
      "Raises coil.Error for a schema that cannot be read, with the place, or that no operator of one's own may have.");
  m.def(
      "leave_to_host", [](const std::string& target) { ops::leave_to_host(target); },
      "Calls of this operator may be left to the host whatever the setting `fallback` says.");
  m.def(
      "operators",
      [] {
        std::vector<std::string> out;
        for (const std::string& target : ops::targets())
          if (ops::find(target)->shape && (lowering::find(target) || passes::decomposes(target))) out.push_back(target);
        return out;
      },
      "Operators that Coil compiles itself, sorted.");
}

/// Memory that ranks share.
void bind_shared_memory(nb::module_& m) {
  m.def(
      "register_symm_mem_args",
      [](const std::string& schema, std::vector<std::string> names) {
        runtime::register_symm_mem_args(schema, std::move(names));
      },
      "These arguments of the operator lie in memory that ranks share.");
  m.def("has_symm_mem_args", &runtime::has_symm_mem_args, "Whether any operator has arguments of this kind.");
  m.def(
      "symm_mem_args", [](const std::string& op) { return runtime::symm_mem_args(op); },
      "Those that were named of an operator, `mylib.push.default`.");
  m.def(
      "comm_place",
      [](std::uintptr_t address) -> std::optional<std::tuple<int, int, std::vector<std::uintptr_t>>> {
        const auto place = runtime::groups::find_symmetric(reinterpret_cast<const void*>(address));
        if (!place) return std::nullopt;
        std::vector<std::uintptr_t> addresses;
        for (int r = 0; r < place->memory->size(); ++r) {
          std::byte* base = place->memory->at(r);
          addresses.push_back(base ? reinterpret_cast<std::uintptr_t>(base + place->offset) : 0);
        }
        return std::tuple(place->memory->rank(), place->memory->size(), std::move(addresses));
      },
      "Of an address in memory that ranks share: this rank, how many there are, and where the same place of each lies "
      "(0: out of reach). None for other addresses.");
  m.def(
      "comm_barrier",
      [](std::uintptr_t address) {
        const nb::gil_scoped_release released;
        if (coil_comm_barrier(reinterpret_cast<const void*>(address)) != 0) fail("{}", coil_last_error());
      },
      "Returns when all ranks have come to it.");
}

/// Process groups.
void bind_groups(nb::module_& m) {
  m.def(
      "define_group",
      [](const std::string& name, int rank, std::vector<int> ranks, nb::object store, const std::string& address,
         double seconds, bool shares) {
        constexpr double kMilliseconds = 1000;
        runtime::groups::OutsideGroup group{
            .rank = rank,
            .ranks = std::move(ranks),
            .address = address,
            .timeout = runtime::groups::Milliseconds(static_cast<std::int64_t>(seconds * kMilliseconds)),
            .shares = shares};
        if (nb::isinstance<nb::tuple>(store)) {
          const auto [host, port, prefix] = nb::cast<std::tuple<std::string, int, std::string>>(store);
          const nb::gil_scoped_release released;
          group.store =
              runtime::groups::with_prefix(runtime::groups::open_tcp_store(host, port, false, group.timeout), prefix);
        } else {
          group.store = torch_store(std::move(store));
        }
        const nb::gil_scoped_release released;
        runtime::groups::define_outside(name, std::move(group));
      },
      nb::arg("name"), nb::arg("rank"), nb::arg("ranks"), nb::arg("store"), nb::arg("address"), nb::arg("seconds"),
      nb::arg("shares"),
      "A process group by a name that begins with `torch:`, in place of an earlier one. `ranks`: of its members, among "
      "all processes; `store`: one of torch's, or the host, port and prefix of one that a TCPStore serves.");
  m.def(
      "abandon_groups", [] { runtime::groups::abandon_outside_groups(); },
      "In a process that was forked: groups that were made before are not its own.");
  m.def(
      "check_groups_on",
      [](const std::string& device) {
        const Device place = parse_device(device);
        runtime::groups::check_backend(place.is_host() ? "gloo" : runtime::groups::backend_of(place.type));
      },
      "Raises coil.Error where this machine lacks what exchanges of values on a device need.");
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // torch holds on to compiled graphs when a process ends
  m.doc() = "Coil's compiler and runtime, for the Python package.";
  bind_errors(m);
  bind_traced_graph(m);
  bind_calls(bind_compiled_graph(m));
  bind_compiler(m);
  bind_operators(m);
  bind_shared_memory(m);
  bind_groups(m);
}

}  // namespace coil::python
