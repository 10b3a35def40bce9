#include "wrapper/python/support_text.h"

#include <fmt/format.h>

#include <cctype>

#include "ops/wrapper_schemas.h"
#include "support/error.h"
#include "tensor/dtype.h"
#include "wrapper/python/cuda_text.h"
#include "wrapper/python/graph_text.h"
#include "wrapper/python/torch_ops_text.h"

namespace coil::wrapper {
namespace {

constexpr const char* kImports = R"py(import builtins
import concurrent.futures
import contextlib
import ctypes
import ctypes.util
import hashlib
import itertools
import json
import math
import mmap
import operator
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
)py";

constexpr const char* kRuntime = R"py(

# ---- Coil's runtime library, where it is there: the library operations and the threads of compiled packages, so the same bits ----

class CTensor(ctypes.Structure):
    """`coil_tensor` of coil/runtime.h."""
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int16), ("on_device", ctypes.c_int16), ("sizes", ctypes.c_int64 * 16), ("strides", ctypes.c_int64 * 16), ("owner", ctypes.c_void_p)]

    @staticmethod
    def of(t):
        return CTensor(t.data_ptr(), DTYPE_NUMBERS[t.dtype], t.dim(), 0, (ctypes.c_int64 * 16)(*t.shape), (ctypes.c_int64 * 16)(*t.stride()), None)


def load_runtime():
    """The library that COIL_RUNTIME names (`none`: do without, in torch), one beside this file, or one that the system's loader finds."""
    given = os.environ.get("COIL_RUNTIME", "")
    beside = HERE / "libcoil_runtime.so"
    path = given or (str(beside) if beside.exists() else ctypes.util.find_library("coil_runtime"))
    if not path or path == "none":
        return None
    library = ctypes.CDLL(path)
    library.coil_last_error.restype = ctypes.c_char_p
    library.coil_op_create.restype = ctypes.c_void_p
    return library


RUNTIME = load_runtime()


class LibraryCall:
    """A call site of a library operation: views in, views out."""

    def __init__(self, op, **attributes):
        self.op, self.attributes, self.handle = op, attributes, None
        if RUNTIME:
            self.handle = ctypes.c_void_p(RUNTIME.coil_op_create(op.encode()))
            if not self.handle and op not in TORCH_OPS:
                raise RuntimeError(RUNTIME.coil_last_error().decode())
            for name, value in attributes.items() if self.handle else ():
                self.set(name.encode(), value)

    def set(self, name, value):
        kinds = {int: ("int", ctypes.c_int64), float: ("float", ctypes.c_double), str: ("string", ctypes.c_char_p)}
        many = isinstance(value, list)
        kind, ctype = kinds[type(value[0]) if value else int] if many else kinds[type(value)]
        items = [v.encode() if isinstance(v, str) else v for v in (value if many else [value])]
        setter = getattr(RUNTIME, f"coil_op_set_{kind}{'s' if many else ''}")
        setter(self.handle, name, (ctype * len(items))(*items), ctypes.c_size_t(len(items))) if many else setter(self.handle, name, ctype(items[0]))

    def __call__(self, inputs, outputs):
        if not self.handle:
            if self.op not in TORCH_OPS:
                raise RuntimeError(f"the library operation '{self.op}' needs Coil's runtime library: set COIL_RUNTIME to libcoil_runtime.so")
            TORCH_OPS[self.op](inputs, outputs, **self.attributes)
            return
        given, results = (CTensor * len(inputs))(*map(CTensor.of, inputs)), (CTensor * len(outputs))(*map(CTensor.of, outputs))
        if RUNTIME.coil_op_run(self.handle, given, ctypes.c_size_t(len(inputs)), results, ctypes.c_size_t(len(outputs))):
            raise RuntimeError(RUNTIME.coil_last_error().decode())
)py";

constexpr const char* kKernels = R"py(

# ---- Kernels: compiled once, kept by the hash of their text ----

def require_isa(isa):
    """Fails on a machine that lacks the instruction set, where kernels would only crash."""
    levels = {"avx512": "avx512f avx512bw avx512cd avx512dq avx512vl", "avx2": "avx2 fma bmi1 bmi2", "baseline": ""}
    level, *extensions = isa.split("+")
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return
    present = {flag.replace("_", "") for line in lines if line.startswith("flags") for flag in line.split()}
    missing = [f for f in [*levels.get(level, level).split(), *(e.replace("-", "") for e in extensions)] if f not in present]
    if present and missing:
        raise RuntimeError(f"this program's kernels need the instruction set {isa}, which this machine does not have")


def compile_kernels(source, flags):
    """Builds the shared object, unless an equal one is in the cache; written aside and renamed."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), None)
    if not compiler:
        raise RuntimeError("no C++ compiler found for this program's kernels: install g++ or set CXX")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    if "clang" in version:
        flags = [f for i, f in enumerate(flags) if f != "--param" and flags[i - 1] != "--param"]
    key = hashlib.sha256("\0".join([version, *flags, source]).encode()).hexdigest()
    folder = pathlib.Path(os.environ.get("COIL_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "coil" / "python")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = pathlib.Path(tempfile.gettempdir())
    made = folder / f"{key}.so"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            (pathlib.Path(work) / "kernels.cpp").write_text(source)
            done = subprocess.run([compiler, *flags, "kernels.cpp", "-o", "kernels.so", "-lm"], cwd=work, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{compiler} refused this program's kernels: {done.stderr[:2000]}")
            os.replace(pathlib.Path(work) / "kernels.so", made)
    return ctypes.CDLL(str(made))


def int64s(values):
    """As an array for kernels; refuses what 64 bits cannot hold."""
    if any(not -2**63 <= v < 2**63 for v in values):
        raise RuntimeError("the sizes of this call overflow 64 bits")
    return (ctypes.c_int64 * len(values))(*values)


class Kernel:
    """A compiled kernel, to be run over [0, extent) in pieces of at least `grain`, in any order and at once."""

    def __init__(self, description):
        self.__name__, self.__doc__ = description.__name__, description.__doc__
        self.entry = getattr(KERNELS, description.__name__)
        self.entry.restype = None

    def __call__(self, buffers, scalars, extent, grain, failure=None):
        status, scalars = ctypes.c_int64(0), int64s(scalars)
        pointers = (ctypes.c_void_p * (len(buffers) + 1))(*(b.data_ptr() for b in buffers), ctypes.addressof(status))
        if RUNTIME:
            RUNTIME.coil_parallel_for(self.entry, pointers, scalars, *int64s([extent, grain]))
        elif extent > 0:
            pieces = max(1, min(torch.get_num_threads(), extent // grain))
            cuts = [ctypes.c_int64(extent * i // pieces) for i in range(pieces + 1)]
            list(THREADS.map(lambda i: self.entry(pointers, scalars, cuts[i], cuts[i + 1]), range(pieces)))
        if failure and status.value:
            raise RuntimeError(failure)


THREADS = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, torch.get_num_threads()))
)py";

constexpr const char* kTensors = R"py(

# ---- Inputs, weights, views ----

def float_of_bits(word):
    return struct.unpack("d", struct.pack("q", word))[0]


def bits_of_float(x):
    return struct.unpack("q", struct.pack("d", x))[0]


def check(condition, message):
    if not condition:
        raise RuntimeError(message)


def take(name, value, dtype, rank, device=torch.device("cpu")):
    """An input as a tensor (a Python number as 0-d), of the dtype and rank that the program takes."""
    t = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype, device=device)
    check(t.device in (device, torch.device("meta")), f"input '{name}' is on {t.device}, but the program takes it on {device}; move it there")
    check(t.dtype == dtype, f"input '{name}' is {t.dtype}, but the program takes {dtype}")
    check(t.dim() == rank, f"input '{name}' has {t.dim()} dimensions, but the program takes {rank}")
    return t.detach()


def lay_out(name, t, sizes, strides):
    """Asserts the sizes; the input itself, or a copy where its strides are not those that kernels assume, or its address none that a GPU's can read 16 bytes from."""
    for d, (given, wanted) in enumerate(zip(t.shape, sizes)):
        check(given == wanted, f"input '{name}' has size {given} in dimension {d}, but the program takes {wanted}")
    aligned = not t.is_cuda or t.storage_offset() * t.element_size() % 16 == 0
    if t.numel() == 0 or aligned and all(n == 1 or a == b for n, a, b in zip(sizes, t.stride(), strides)):
        return t
    return torch.empty_strided(sizes, strides, dtype=t.dtype, device=t.device).copy_(t)


def write_back(given, used):
    """What the program wrote to a copy goes to the caller's tensor."""
    if used.data_ptr() != given.data_ptr():
        given.copy_(used)


def window(t, dtype, sizes, strides, offset=0):
    """A strided view of a buffer's memory; the offset counts elements from its first."""
    if t.dtype != dtype:
        first = t.storage_offset() * t.element_size() // dtype.itemsize
        t = torch.empty(0, dtype=dtype, device=t.device).set_(t.untyped_storage(), first, (0,), (1,))
    return torch.as_strided(t, sizes, strides, t.storage_offset() + offset)


def open_weights(name):
    """The file of weights as {name: (first byte, bytes)} and its memory; what the program writes to it stays in this process."""
    with open(HERE / name, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(memory[:8], "little")
    places = {k: (8 + length + v["data_offsets"][0], v["data_offsets"][1] - v["data_offsets"][0]) for k, v in json.loads(memory[8:8 + length]).items() if k != "__metadata__"}
    return places, memory


def weight(file, name, offset, bytes, dtype, sizes, strides, device=torch.device("cpu")):
    """A constant in the file of weights."""
    if bytes == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    places, memory = file
    check(name in places and places[name][1] >= offset + bytes, f"the file of weights belongs to another program: no '{name}' of {offset + bytes} bytes")
    return torch.frombuffer(memory, dtype=dtype, count=bytes // dtype.itemsize, offset=places[name][0] + offset).to(device).as_strided(sizes, strides)


KEPT, TICKETS = {}, itertools.count(1)


def sized(op):
    """`op`, whose results have sizes that only it tells: it runs, they are kept, and the sizes asked for follow the number that they are kept under."""
    def call(which, *args, **kwargs):
        results = op(*args, **kwargs)
        tensors, ticket = results if isinstance(results, (list, tuple)) else [results], next(TICKETS)
        KEPT[ticket] = results
        while len(KEPT) > 64:  # of runs that failed before they took theirs
            del KEPT[next(iter(KEPT))]
        return torch.tensor([ticket, *(tensors[k].size(d) for k, d in zip(which[::2], which[1::2]))], device=tensors[0].device)

    return call


def kept(ticket):
    return KEPT.pop(int(ticket[0]))
)py";

constexpr const char* kFx = R"py(

# ---- What graphs call: torch operators, which fake tensors and proxies can take as well ----

def operators(device):
    """Defines torch.ops.coil_wrapper, each operator once in a process; gives the table of kernels that it looks into."""
    if "_coil_wrapper" not in sys.modules:
        shared = sys.modules["_coil_wrapper"] = types.ModuleType("_coil_wrapper")
        shared.kernels, shared.libraries, shared.defined = {}, {}, set()
        shared.library = torch.library.Library("coil_wrapper", "DEF")
    shared = sys.modules["_coil_wrapper"]
    shared.libraries.setdefault(device, (LibraryCall, TORCH_OPS, {}))[1].update(TORCH_OPS)

    def define(name, run, fake=None):
        if name in shared.defined:
            return
        shared.defined.add(name)
        shared.library.define(SCHEMAS[name])
        shared.library.impl(name, run, "CompositeExplicitAutograd")
        if fake:
            shared.library.impl(name, fake, "Meta")

    def kernel(name, reads, writes, scalars, extent, grain, failure):
        """`reads` and `writes` in the order of the kernel's own list of buffers."""
        run, written = shared.kernels[name]
        sides = (iter(reads), iter(writes))
        run([next(sides[w]) for w in written], scalars, extent, grain, failure)

    def launch(name, reads, writes, scalars, grid, block, shared_bytes=0, failures=None, site=0):
        """The same on a GPU."""
        run, written = shared.kernels[name]
        sides = (iter(reads), iter(writes))
        run([next(sides[w]) for w in written], scalars, grid, block, shared_bytes, 0 if failures is None else status_of(failures, site))

    def library(op, attributes, inputs, outputs):
        """`attributes` as JSON."""
        call, _, calls = shared.libraries[(*inputs, *outputs)[0].device.type]
        if (op, attributes) not in calls:
            calls[op, attributes] = call(op, **json.loads(attributes))
        calls[op, attributes](inputs, outputs)

    nothing = lambda *_: None
    define("kernel", kernel, nothing)
    define("library", library, nothing)
    on = lambda device: device or torch.device("cpu")
    define("take.Tensor", lambda t, name, dtype, device=None: take(name, t, dtype, 0, on(device)))
    define("take.Scalar", lambda v, name, dtype, device=None: torch.tensor(v, dtype=dtype, device=on(device)))
    define("integer", lambda t: int(t))
    define("float_of_bits", float_of_bits)
    define("bits_of_float", bits_of_float)
    define("lay_out", lambda t, name, dtype, sizes, strides, device=None: lay_out(name, take(name, t, dtype, len(sizes), on(device)), sizes, strides))
    define("write_back", write_back, nothing)
    define("delete", nothing)
    define("launch", launch, nothing)
    define("new_failures", lambda like, count: new_failures(count, like.device), lambda like, count: like.new_empty(5 * count, dtype=torch.int64))
    define("check_failures", check_failures, nothing)
    for name in ("delete", "library", "launch", "check_failures"):  # what stays though nothing reads it
        torch.fx.node.has_side_effect(getattr(torch.ops.coil_wrapper, name).default)
    return shared.kernels


def typed(node, type):
    """What is known of the node's value, in the words of coil's text form: `f32[s0, 16]`."""
    if type:
        node.meta["type"] = type
    return node


class Block:
    """A graph inside another, as one side of a branch or one turn of a loop. What it uses of the graphs around it becomes its operands; it gives its results by writing to them."""

    def __init__(self, program, carried=()):
        self.program, self.graph, self.around, self.operands = program, torch.fx.Graph(), program.stack[-1] if program.stack else None, {}
        self.carried, self.results = [typed(self.graph.placeholder(name), type) for name, type in carried], ()

    def __enter__(self):
        self.program.stack.append(self)
        return self

    def __exit__(self, *_):
        self.program.stack.pop()

    def own(self, node):
        """The node as this graph sees it."""
        if node.graph is not self.graph and node not in self.operands:
            first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
            with self.graph.inserting_before(first) if first else contextlib.nullcontext():
                self.operands[node] = typed(self.graph.placeholder(node.name), node.meta.get("type"))
        return self.operands.get(node, node)

    def finish(self, name, operands, results=()):
        """Placeholders in the order that the call has; the graph becomes a module of the program's, of which the node is returned."""
        for node in reversed([*self.carried, *map(self.own, operands)]):
            if node is not (first := next(iter(self.graph.nodes))):
                first.prepend(node)
        self.graph.output(results)
        self.program.root.add_module(name, torch.fx.GraphModule(self.program.root, self.graph))
        return self.program.stack[-1].graph.get_attr(name)


class Program:
    """The graph being written, and what belongs to it."""

    def __init__(self):
        self.root, self.stack = torch.nn.Module(), []
        self.stack.append(Block(self))
        self.graph = self.stack[0].graph

    def node(self, name, target, *args, type=None, origins=None, **kwargs):
        args, kwargs = torch.fx.node.map_arg((args, kwargs), self.stack[-1].own)
        made = self.stack[-1].graph.create_node("call_function", target, args, kwargs, name)
        if origins:
            made.meta["origins"] = origins
        return typed(made, type)

    def branch(self, name, condition, yes, no=None, gives=()):
        """Nodes for what both sides give: names and types."""
        no = no or Block(self)
        operands = list({**yes.operands, **no.operands})
        made = self.node(name, torch.ops.higher_order.cond, condition, yes.finish(name + "_yes", operands, yes.results), no.finish(name + "_no", operands, no.results), tuple(operands),
                         type=f"[{', '.join(type for _, type in gives)}]" if gives else None)
        return [self.node(given, operator.getitem, made, k, type=type) for k, (given, type) in enumerate(gives)]

    def turn(self, counter, type, more):
        """A loop's body; it counts its turns. Types of its counter and of what says whether it goes on."""
        return Block(self, ((counter, type), ("more", more)))

    def end_turn(self, turn, more, extent):
        """Written at the body's end: what the next turn begins with."""
        count = self.node("next", operator.add, turn.carried[0], 1)
        below = True if extent is None else self.node("below", operator.lt, count, extent)
        turn.results = (count, below if more is True else more if below is True else self.node("more", operator.and_, more, below))

    def loop(self, name, turn, extent):
        operands, first = list(turn.operands), True if extent is None else self.node("below", operator.lt, 0, extent)
        test = Block(self, [(name, node.meta.get("type")) for name, node in zip(("counter", "more"), turn.carried)])
        self.node(name, torch.ops.higher_order.while_loop, test.finish(name + "_test", operands, test.carried[1]), turn.finish(name + "_turn", operands, turn.results), (0, first), tuple(operands))
)py";

/// The table of element types, by the numbers that the C interface has for them.
std::string dtype_numbers() {
  std::string out = "DTYPE_NUMBERS = {";
  const char* separator = "";
#define X(e, short_name, torch, bytes, number, ...) \
  out += fmt::format("{}torch.{}: {}", separator, torch, number), separator = ", ";
  COIL_DTYPES(X)
#undef X
  return out + "}\n";
}

}  // namespace

std::string python_support(Device device, const std::set<std::string>& library_ops) {
  if (device.type == DeviceType::CPU)
    return kImports + dtype_numbers() + kRuntime + python_torch_ops(device.type, library_ops) + kKernels + kTensors;
  for (const std::string& op : library_ops)
    if (!is_torch_op(device.type, op))
      fail(
          "the library operation '{}' has no form in torch, which programs in Python call on {}; write a package "
          "instead",
          op, to_string(device));
  return fmt::format("{}\nDEVICE = torch.device(\"{}\")\n", kImports, to_string(device)) + python_torch_library() +
         python_torch_ops(device.type, library_ops) + python_cuda_kernels() + kTensors;
}

std::string python_fx_support(Device device) {
  std::string schemas = "\n\nSCHEMAS = {\n";
  for (std::string_view schema : ops::kWrapperSchemas)
    schemas += fmt::format("    \"{}\": \"{}\",\n", schema.substr(0, schema.find('(')), schema);
  return schemas + "}\n" + (device.type == DeviceType::CPU ? python_failures() : "") + kFx;
}

std::set<std::string> python_support_names() {
  std::set<std::string> names;
  const std::string text = python_support({}, {}) + python_torch_library() + python_cuda_kernels() +
                           python_fx_support({}) + python_graph_text();
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {  // what a line at the margin defines
    for (std::string_view lead : {"def ", "class ", "import ", ""}) {
      if (text.compare(at, lead.size(), lead) != 0) continue;
      std::size_t from = at + lead.size(), end = from;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      if (end > from) names.insert(text.substr(from, end - from));
      break;
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  names.insert({"finish", "POST_OPS", "SYMBOLS", "KERNELS", "WEIGHTS", "KERNEL_SOURCE", "KERNEL_HEAD", "KERNEL_TEXTS",
                "DEVICE", "args", "graph", "root", "node", "program"});
  return names;
}

}  // namespace coil::wrapper
