"""`coil.standalone_compile`: a graph module compiled by itself, for hosts that cut graphs up and keep what is compiled
(in the sense of `torch._inductor.standalone_compile`).
"""

import contextlib
import copy
import dataclasses
import hashlib
import json
import os
import pathlib
import pickle
import shutil
import tempfile
import threading

import torch
from torch._functorch._aot_autograd import autograd_cache
from torch._functorch._aot_autograd.aot_autograd_result import deserialize_bundled_cache_entry
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.compiler._cache import CacheArtifactManager
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from . import _native, kept
from .dynamo import compile_dynamo_graph
from .entries import read_entry, write_file
from .options import default_cache, parse

_SHAPES = ("from_graph", "from_tracing_context", "from_example_inputs")
_FORMATS = ("binary", "unpacked")
_MAGIC = b"coil artifact 1\n"
_RESULT, _HEADER = "result.pickle", "artifact.json"  # files of an unpacked one
_lock = threading.RLock()  # torch's list of new cache artifacts is one for all threads


class CompiledArtifact:
    """A compiled graph: called with the graph's flat inputs, it gives what the graph returns. What `load` reads is
    unpickled: load only files that you trust.
    """

    def __init__(self, call, saved, why="", folder=None):
        self._call, self._saved, self._why = call, saved, why
        self._folder = folder  # of an unpacked one, where its graphs are

    def __call__(self, *args):
        return self._call(*args)

    def save(self, *, path, format="binary"):
        """Writes the artifact: one file, or, `unpacked`, a folder in which each compiled graph is a package. Raises
        coil.Error where the artifact cannot be saved, and says why.
        """
        _check_format(format)
        if self._saved is None:
            raise _native.Error(f"this artifact cannot be saved: {self._why}")
        path, saved = pathlib.Path(path), self._whole()
        if format == "binary":
            if path.is_dir():
                raise _native.Error(f"{path} is a folder; an artifact of format binary is a file")
            header, content = saved.packed()
            write_file(path, _MAGIC + json.dumps(header).encode() + b"\n" + content)
            return
        if path.exists() and not _is_ours_or_empty(path):
            raise _native.Error(f"{path} is there and is no unpacked artifact; it is left alone")
        aside = pathlib.Path(tempfile.mkdtemp(dir=path.absolute().parent, prefix=path.name))
        try:
            saved.unpack(aside)
            aside.chmod(0o755)
            shutil.rmtree(path, ignore_errors=True)
            os.replace(aside, path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _whole(self):
        """What is saved, with the graphs in it."""
        if self._folder is None:
            return self._saved
        try:
            return self._saved.filled(self._folder)
        except OSError as error:
            raise _native.Error(f"{self._folder}, where this artifact's graphs are, cannot be read: {error}") from None

    @staticmethod
    def load(*, path, format="binary"):
        """What `save` wrote, in this process or another; nothing is compiled. Raises coil.Error for a file that is
        torn, or of another build of Coil, another version of torch or another CPU.
        """
        _check_format(format)
        path = pathlib.Path(path)
        try:
            header, content = _read_file(path) if format == "binary" else _read_folder(path)
        except OSError as error:
            raise _native.Error(f"{path} cannot be read: {error.strerror or error}") from None
        _check_header(path, header, content)
        return _loaded(path, pickle.loads(content), None if format == "binary" else path)


@dataclasses.dataclass
class _Saved:
    """What an artifact is on disk."""

    result: bytes  # AOTAutograd's, with the graphs in it
    weights: list  # parameters and buffers of the graph module, the first arguments of every call
    bare: bool  # the graph returns one value, and no list of them

    def packed(self):
        content = pickle.dumps(self)
        return _header(content), content

    def filled(self, folder):
        entry = pickle.loads(self.result)
        for output in _outputs(entry):
            output.files = read_entry(folder, output.entry)
        return dataclasses.replace(self, result=pickle.dumps(entry))

    def unpack(self, folder):
        entry = pickle.loads(self.result)
        for output in _outputs(entry):
            output.write_entry(folder)
            output.files = None
        header, content = dataclasses.replace(self, result=pickle.dumps(entry)).packed()
        (folder / _RESULT).write_bytes(content)
        (folder / _HEADER).write_text(json.dumps(header) + "\n")


def _outputs(entry):
    return [half.result for half in (entry.compiled_fw, entry.compiled_bw) if half is not None]


def _is_ours_or_empty(path):
    return path.is_dir() and ((path / _HEADER).is_file() or not any(path.iterdir()))


def _check_format(format):
    if format not in _FORMATS:
        raise _native.Error(f"there is no format {format!r} of artifacts; there are {' and '.join(_FORMATS)}")


def _header(content):
    return {
        "build": kept.build(),
        "torch": torch.__version__,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _read_file(path):
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        raise _native.Error(f"{path} is no artifact of coil.standalone_compile")
    header, _, content = data[len(_MAGIC) :].partition(b"\n")
    return header, content


def _read_folder(path):
    if not (path / _HEADER).is_file():
        raise _native.Error(f"{path} is no unpacked artifact of coil.standalone_compile")
    return (path / _HEADER).read_bytes(), (path / _RESULT).read_bytes()


def _check_header(path, text, content):
    try:
        header = json.loads(text)
        build, version, digest = header["build"], header["torch"], header["sha256"]
    except (ValueError, KeyError, TypeError):
        raise _native.Error(f"{path} is damaged: its header cannot be read") from None
    if version != torch.__version__:
        raise _native.Error(f"{path} was made with torch {version}, and this is {torch.__version__}; compile it anew")
    if build != kept.build():
        raise _native.Error(f"{path} was made by another build of Coil or on another kind of CPU; compile it anew")
    if digest != hashlib.sha256(content).hexdigest():
        raise _native.Error(f"{path} is damaged: it is cut short or was altered")


def _loaded(path, saved, folder):
    entry = pickle.loads(saved.result)
    with torch._functorch.config.patch(bundled_autograd_cache=True), kept.loading(folder or default_cache()):
        try:
            compiled = deserialize_bundled_cache_entry(entry)
        except autograd_cache.FXGraphCacheMiss as error:
            raise _native.Error(f"{path} is damaged: {error}") from None
    return CompiledArtifact(_calling(compiled, saved.weights, saved.bare), saved, folder=folder)


def _calling(compiled, weights, bare):
    if not weights and not bare:
        return compiled

    def call(*args):
        results = compiled(*weights, *args)
        return results[0] if bare else results

    return call


def _fake_mode(gm, dynamic_shapes):
    """Whose sizes are the graph's symbols."""
    if dynamic_shapes == "from_tracing_context":
        context = torch._guards.TracingContext.try_get()
        if context is None or context.fake_mode is None:
            raise _native.Error(
                "dynamic_shapes='from_tracing_context' is for calls within a backend of torch.compile, and no graph "
                "is being traced here"
            )
        return context.fake_mode
    if dynamic_shapes == "from_graph":
        for node in reversed(gm.graph.nodes):
            for value in (node.meta.get("example_value"), node.meta.get("val")):
                if isinstance(value, FakeTensor):
                    return value.fake_mode
    return FakeTensorMode(shape_env=ShapeEnv())


def _returns_list(gm):
    """Makes a graph of one bare result give a list of it, which AOTAutograd wants; whether it was so before. Refuses
    results that nest.
    """
    output = next(node for node in reversed(gm.graph.nodes) if node.op == "output")
    (results,) = output.args
    if isinstance(results, (list, tuple)):
        if any(isinstance(r, (list, tuple, dict)) for r in results):
            raise _native.Error("standalone_compile takes graphs whose results are a flat list; these nest")
        return True
    if isinstance(results, dict):
        raise _native.Error("standalone_compile takes graphs whose results are a flat list; these are a dictionary")
    output.args = ((results,),)
    gm.recompile()
    return False


def standalone_compile(
    gm, example_inputs, *, dynamic_shapes="from_graph", options=None, mode=None, donate_graph_module=False
):
    """A CompiledArtifact of a graph module (of Dynamo or make_fx), to be called with its flat inputs and to be saved.

    `dynamic_shapes`: which sizes are free. `from_graph`: those that are symbols in the graph's metadata;
    `from_tracing_context`: those of the torch.compile whose backend calls this; `from_example_inputs`: none, sizes are
    those of the example inputs. `options` and `mode` as torch.compile takes them. The graph module is copied first
    unless it is donated. Parameters and buffers of the graph module are used as they are, and saved with the artifact.
    """
    if dynamic_shapes not in _SHAPES:
        raise _native.Error(f"dynamic_shapes is one of {', '.join(_SHAPES)}, not {dynamic_shapes!r}")
    if not isinstance(gm, torch.fx.GraphModule):
        raise _native.Error(f"standalone_compile takes a torch.fx.GraphModule, not a {type(gm).__name__}")
    chosen = parse(options, mode)
    if not donate_graph_module:
        gm = copy.deepcopy(gm)
    bare = not _returns_list(gm)
    context = torch._guards.TracingContext(_fake_mode(gm, dynamic_shapes))
    weights = [t.detach() for t in (*gm.parameters(), *gm.buffers())]
    found = "by key" if chosen.cache is not None else "never"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_lock)
        if chosen.cache is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            chosen = dataclasses.replace(chosen, cache=pathlib.Path(folder))
        stack.enter_context(torch._guards.tracing(context))
        stack.enter_context(CacheArtifactManager.with_fresh_cache())
        stack.enter_context(
            torch._functorch.config.patch(force_non_lazy_backward_lowering=True, bypass_autograd_cache_key=True)
        )
        compiled = compile_dynamo_graph(
            gm,
            example_inputs,
            chosen,
            standalone=found,
            ignore_shape_env=dynamic_shapes == "from_example_inputs",
        )
        results = _recorded()
    call = _calling(compiled, [], bare)
    if len(results) != 1:
        return CompiledArtifact(call, None, _why_not(chosen))
    return CompiledArtifact(call, _Saved(results[0], weights, bare))


def _recorded():
    """AOTAutograd's results that were saved or found since the recorder is fresh."""
    saved = torch.compiler.save_cache_artifacts()
    artifacts = CacheArtifactManager.deserialize(saved[0]) if saved is not None else {}
    return [artifact.content for artifact in artifacts.get("aot_autograd", ())]


def _why_not(options):
    if options.log or options.debug_dir is not None:
        return "with the options log and debug_dir nothing is kept; compile without them"
    if options.freeze:
        return "with the option freeze the program holds weights; pass freeze=False"
    return (
        "the compiled program, or what AOTAutograd knows of it, cannot be written to a file; "
        "TORCH_LOGS=+torch._functorch._aot_autograd.autograd_cache says why"
    )
