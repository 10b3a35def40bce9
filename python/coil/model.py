"""Programs compiled ahead of time: `coil.compile` for a module and its inputs, `coil.load` for a package."""

import contextlib
import copy
import functools
import importlib
import importlib.util
import itertools
import json
import operator
import os
import pathlib
import tempfile

from . import _native
from .options import parse
from .structure import Arguments, Results


def _nested(names, values):
    """Results by the paths of their names: `output` is one bare value, numbers are positions in a tuple, other words
    keys of a dictionary.
    """
    if names == ["output"]:
        return values[0]
    root = {}
    for name, value in zip(names, values):
        *path, last = name.split(".")
        node = root
        for key in path:
            node = node.setdefault(key, {})
        node[last] = value

    def build(node):
        if not isinstance(node, dict):
            return node
        items = {k: build(v) for k, v in node.items()}
        return tuple(items.values()) if list(items) == [str(i) for i in range(len(items))] else items

    return build(root)


def _leaves(value):
    """Tensors and numbers in an argument: those of lists, tuples and dictionaries in order."""
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


class Model:
    """A compiled program. Called as the module was, with the same nesting of arguments and results: torch tensors in,
    torch tensors out; with NumPy arrays alone, NumPy arrays out and no torch needed.
    """

    def __init__(self, graph):
        self._graph = graph
        self.signature = json.loads(graph.signature) if graph.signature else None
        self._arguments = Arguments(self.signature["inputs"], graph.inputs) if self.signature else None
        self._results = (
            Results(self.signature["outputs"]) if self.signature else functools.partial(_nested, graph.outputs)
        )

    @property
    def inputs(self):
        """Names of the inputs, in order: paths from an argument's name through keys, fields and positions."""
        return self._graph.inputs

    @property
    def outputs(self):
        return self._graph.outputs

    @property
    def report(self):
        """Kernels, fusions and refusals, memory over time; empty for a package."""
        return self._graph.report

    @property
    def provenance(self):
        """Where each call comes from (docs/emitted.md); None where the program was not compiled with the option
        `provenance`.
        """
        return json.loads(self._graph.provenance) if self._graph.provenance else None

    def seed(self, n):
        """Random numbers of calls from now on follow from this number and the order of calls; at first they follow from
        the system's entropy.
        """
        self._graph.seed(operator.index(n) % 2**64)

    def save(self, path):
        """Writes the package: `coil run`, `coil.load` and the C runtime take it."""
        self._graph.save(os.fspath(path))

    def _flat(self, args, kwargs):
        """The flat inputs of a program whose package does not say how they nest."""
        flat = _leaves(args)
        by_name = {}
        for name in list(kwargs):
            if name not in self.inputs and not any(i.startswith(name + ".") for i in self.inputs):
                raise _native.Error(f"there is no input '{name}'; there are {', '.join(self.inputs)}")
            by_name[name] = _leaves(kwargs[name])
        for name in self.inputs[len(flat) :]:
            values = by_name.get(name) or by_name.get(name.split(".")[0])
            if not values:
                raise _native.Error(f"input '{name}' is missing; the program takes {', '.join(self.inputs)}")
            flat.append(values.pop(0))
        return flat

    def __call__(self, *args, **kwargs):
        flat = self._arguments(args, kwargs) if self._arguments else self._flat(args, kwargs)
        arrays = [hasattr(a, "__array_interface__") for a in flat]
        if any(arrays) and all(is_array or isinstance(a, (int, float)) for is_array, a in zip(arrays, flat)):
            asarray = importlib.import_module("numpy").asarray  # NumPy's own scalars are no arrays
            return self._results(self._graph.call_arrays(list(map(asarray, flat))))
        return self._results(self._graph(flat))


def load(path):
    """A package (`.coil`) as a Model. Raises coil.Error for a file that is none, or that needs another machine."""
    return Model(_native.load_package(os.fspath(path)))


def load_library(path):
    """Loads a library from outside, which brings devices, operators or languages; one that is loaded already is left as
    it is. Raises coil.Error, and has then changed nothing.
    """
    _native.load_library(os.path.abspath(path))


def _device_of(inputs):
    """The device of the first tensor that does not lie on the CPU."""
    leaves = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, (list, tuple)) else ()
    found = [_device_of(x) for x in leaves] if leaves else [str(inputs.device)] if hasattr(inputs, "device") else []
    return next((device for device in found if device != "cpu"), "cpu")


def compile(module, inputs=None, *, kwargs=None, dynamic_shapes=None, options=None, mode=None, device=None):
    """Compiles a module (an nn.Module or a torch.fx graph module) for these inputs, or a `.pt2` file. Weights become
    part of the program; save() writes it as a package. `device`: where it runs; without
    one, where the inputs lie, and for a file the CPU."""
    chosen = parse(options, mode)
    device = device or chosen.device or _device_of((inputs, kwargs))
    if isinstance(module, (str, os.PathLike)):
        return Model(
            _native.compile_archive(
                os.fspath(module), chosen.settings, chosen.cache, chosen.log, device, chosen.debug_folder("archive")
            )
        )

    exported = with_user_kernels(_exported(module, inputs, kwargs, dynamic_shapes), device, chosen)
    with _archive(exported) as path:
        return Model(
            _native.compile_archive(
                path, chosen.settings, chosen.cache, chosen.log, device, chosen.debug_folder("program")
            )
        )


def fx_wrapper(module, inputs=None, *, kwargs=None, dynamic_shapes=None, options=None, device=None):
    """The compiled program as a torch.fx.GraphModule: allocations, kernel calls, library calls, checks and frees as
    nodes, which may be interpreted, traced again, edited and saved. `forward` takes the flat
    inputs and gives the tuple of flat outputs. Takes what `compile` takes."""
    chosen = parse(options)
    device = device or chosen.device or _device_of((inputs, kwargs))
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(_archive_of(module, inputs, kwargs, dynamic_shapes, device, chosen))
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # The file imports itself under this name: pickled graphs find their kernels by importing a file that `coil
        # compile --emit=fx` wrote.
        path = folder / f"coil_fx_wrapper_{next(_written)}.py"
        _native.emit_archive(archive, "fx", os.fspath(path), chosen.settings, device)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        written = importlib.util.module_from_spec(spec)
        with _own_runtime():
            spec.loader.exec_module(written)
        return written.load()


def aoti_compile_and_package(
    module, inputs=None, *, package_path, kwargs=None, dynamic_shapes=None, options=None, device=None
):
    """Writes the compiled program as a `.pt2` that torch loads where it loads AOTInductor's packages
    (`torch._inductor.aoti_load_package`, C++'s `AOTIModelPackageLoader`; docs/aoti.md), and gives back its path. Takes
    what `compile` takes, as torch's function of this name an ExportedProgram alone. Weights can be exchanged in the
    package unless the option `keep_weights` is False."""
    chosen = parse(options)
    device = device or chosen.device or _device_of((inputs, kwargs))
    with _archive_of(module, inputs, kwargs, dynamic_shapes, device, chosen) as archive:
        _native.emit_archive(archive, "aoti", os.fspath(package_path), chosen.settings, device)
    return os.fspath(package_path)


_written = itertools.count()


@contextlib.contextmanager
def _own_runtime():
    """Programs written as source take the runtime's library that COIL_RUNTIME names; the extension is one."""
    if "COIL_RUNTIME" in os.environ:
        yield
        return
    os.environ["COIL_RUNTIME"] = _native.__file__
    try:
        yield
    finally:
        del os.environ["COIL_RUNTIME"]


def _exported(module, inputs, kwargs, dynamic_shapes):
    """An exported program, with operators of coil.Library that have a decomposition decomposed."""
    import torch

    from .graph import target_name
    from .library import decompositions

    if isinstance(module, torch.export.ExportedProgram):
        exported = module
    else:
        _check_call(module, inputs)
        exported = torch.export.export(module, tuple(inputs or ()), kwargs, dynamic_shapes=dynamic_shapes)
    called = {n.target for n in exported.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    if own := {op: rule for op, rule in decompositions().items() if op in called}:
        exported = exported.run_decompositions(own)
    for op in called:
        if op.namespace not in ("aten", "prims"):
            # So that Coil can read a call of it; what carries it out is found when the program is loaded.
            target_name(op)
    return _computed(exported)


def _check_call(module, inputs):
    """What is compiled, and the inputs that it is traced with."""
    import torch

    if not isinstance(module, torch.nn.Module):
        kind = type(module).__name__
        raise TypeError(f"a torch.nn.Module, an exported program or the path of a .pt2 is compiled, not a {kind}")
    if inputs is not None and not isinstance(inputs, (tuple, list)):
        raise TypeError(f"inputs are a tuple, as in compile(module, (x,)), not a {type(inputs).__name__}")


def with_user_kernels(exported, device="cpu", options=None):
    """An exported program whose calls of Triton kernels that users wrote hold the compiled kernels: torch.export.save
    writes it, and `coil compile` reads it where there is no Triton. `device`: what it is compiled for; `options` as
    compile() takes them (`cuda.arch` says for which GPU). A program without such calls comes back as it is.
    """
    import torch

    from . import triton_export, triton_kernels

    def calls(program):
        return [n for n in program.graph.nodes if triton_kernels.is_call(n)]

    wrapped = [n for n in exported.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    wrapped = {n.target for n in wrapped if n.target.namespace not in ("aten", "prims", "higher_order")}
    wrapped = [op for op in wrapped if triton_kernels.is_triton_op(op)]
    if not calls(exported) and not wrapped:
        return exported
    chosen = options if hasattr(options, "settings") else parse(options)
    compiler = triton_kernels.Compiler(chosen.settings, chosen.cache, device, exported=True)
    with triton_kernels.analysis(calls(exported)):
        with triton_export.decomposed():
            exported = exported.run_decompositions({})
        for node in calls(exported):
            triton_export.put_call(exported, node, compiler.call(node))
    exported.graph_module.recompile()
    return exported


def _computed(exported):
    """The program with the values of weights that torch has put off to negate or conjugate, which an archive would hold
    as they lie in memory.
    """
    import torch

    def computed(t):
        if not isinstance(t, torch.Tensor) or not (t.is_neg() or t.is_conj()):
            return t
        reach = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1 if t.numel() else 0
        return (
            torch.empty(reach, dtype=t.dtype, device=t.device)
            .as_strided(t.shape, t.stride(), t.storage_offset())
            .copy_(t)
        )

    tables = {
        name: {k: computed(t) for k, t in getattr(exported, name).items()} for name in ("_state_dict", "_constants")
    }
    if all(t is getattr(exported, name)[k] for name, table in tables.items() for k, t in table.items()):
        return exported
    exported = copy.copy(exported)
    for name, table in tables.items():
        setattr(exported, name, table)
    return exported


@contextlib.contextmanager
def _archive_of(module, inputs, kwargs, dynamic_shapes, device, chosen):
    """A module, an exported program or a file as a file, for as long as this lasts."""
    if isinstance(module, (str, os.PathLike)):
        yield os.fspath(module)
        return
    with _archive(with_user_kernels(_exported(module, inputs, kwargs, dynamic_shapes), device, chosen)) as path:
        yield path


@contextlib.contextmanager
def _archive(exported):
    """The program as a file, for as long as this lasts."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.pt2"
        torch.export.save(exported, path)
        yield str(path)
