"""AOTAutograd's results in torch's cache, with Coil's graphs in them: a process that finds one neither traces a graph
through AOTAutograd nor compiles it. `torch.compiler.save_cache_artifacts` carries them, and so does standalone.py.
"""

import contextlib
import contextvars
import functools
import hashlib
import pathlib
import tempfile
import unittest.mock

import torch
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import autograd_cache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor import codecache
from torch._inductor.output_code import OutputCode
from torch.utils._sympy.symbol import SymT, symbol_is_type

from . import _native, artifacts
from .compiled import ready
from .entries import read_entry, write_entry
from .options import default_cache

artifacts.register()


class _Loading(list):
    """What a call of AOTAutograd found in the cache, in order; `folder`: Coil's own cache."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder


_loading = contextvars.ContextVar("loading", default=None)


def build():
    """Names this build of Coil, its Python files and the machine's instructions."""
    return f"{_native.build_and_machine()} {_sources()}"


@functools.cache
def _sources():
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:32]


class Output(OutputCode):
    """A compiled graph as AOTAutograd's cache wants one. Pickled, it holds its entry of Coil's cache, so that it can be
    loaded where that cache has nothing.
    """

    def __init__(self, graph, folder):
        super().__init__()
        self.graph = graph  # None: not loaded yet
        self.folder = folder  # where `graph` has its entry
        self.files = None  # the entry's files, once it is to be pickled
        self.pattern = None
        self.made_by = None
        self.record, self.recordings = getattr(graph, "record", False), getattr(graph, "recordings", 8)
        self.fixes_floats = _fixes_floats()
        self.has_tokens = _has_tokens()
        self.plain = False  # Dynamo may call the graph itself: nothing of AOTAutograd stands around it
        self._fx_graph_cache_key = getattr(graph, "entry", "") or None
        self._fx_graph_cache_debug_lines = []
        self._boxed_call = True

    @property
    def entry(self):
        return self._fx_graph_cache_key

    def __call__(self, inputs):
        return self.graph(inputs)

    def prepare_for_serialization(self):
        if not isinstance(self.graph, _native.CompiledGraph) or not self.graph.entry:
            raise autograd_cache.BypassAOTAutogradCache("the graph is not in Coil's cache")
        if getattr(self.graph, "meets", False):
            raise autograd_cache.BypassAOTAutogradCache("whether its exchanges are its own the ranks find out together")
        if self.fixes_floats:
            raise autograd_cache.BypassAOTAutogradCache("a float that the call is given is a constant of the graph")
        if self.has_tokens:  # what AOTAutograd keeps of a graph does not pass them
            raise autograd_cache.BypassAOTAutogradCache("tokens keep the graph's effects in order")
        try:
            self.files = read_entry(self.folder, self.graph.entry)
        except OSError as error:
            raise autograd_cache.BypassAOTAutogradCache(f"Coil's cache cannot be read: {error}") from error
        self.pattern = self.graph.pattern
        if not all(constant is None or type(constant) in (int, float, bool) for _, _, constant in self.pattern[1]):
            raise autograd_cache.BypassAOTAutogradCache("a result is an object of this process")
        self.made_by = build()
        self.graph, self.folder = None, None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """Loads the graph. Where that fails, to the cache nothing was there."""
        loading = _loading.get()
        if self.graph is None:
            if self.made_by != build():
                raise autograd_cache.FXGraphCacheMiss(
                    "the graph was compiled by another build of Coil or for another CPU"
                )
            self.graph = self._restored(loading.folder if loading is not None else default_cache())
            if self.graph is None:
                raise autograd_cache.FXGraphCacheMiss("the entry of Coil's cache is torn")
            counters["coil"]["graphs_loaded"] += 1
        if loading is not None:
            loading.append(self)

    def set_triton_bundle(self, triton_bundle):
        pass

    def _restored(self, folder):
        entry = self._fx_graph_cache_key
        if graph := _native.restore(folder, entry, self.pattern):
            self.folder = folder
        elif self.files is not None:
            graph = self._from_files(folder, entry)
        if graph:
            graph.advise = _advice
        return graph and ready(graph, self.record, self.recordings)

    def _from_files(self, folder, entry):
        try:
            self.write_entry(folder)
            self.folder = folder
            return _native.restore(folder, entry, self.pattern)
        except OSError:  # a cache that cannot be written; a loaded package needs its file no longer
            with tempfile.TemporaryDirectory() as aside:
                self.write_entry(pathlib.Path(aside))
                return _native.restore(pathlib.Path(aside), entry, self.pattern)

    def write_entry(self, folder):
        write_entry(folder, self._fx_graph_cache_key, self.files)


def _advice(needed):
    """As budget.Partitioner.advice, which only the process has that compiled the graph."""
    return (
        "; memory.budget below 1 in training and a smaller batch lower it; where the graph is compiled anew, with the "
        "option cache=none, the error says which budget would fit"
    )


def _fixes_floats():
    """Whether a Python float that comes with each call was taken for a constant, or was compared with one: AOTAutograd
    adds the guard for it as it traces, and its cache keeps guards of sizes alone.
    """
    env = codecache.FxGraphCache._get_shape_env()
    known = [*env.replacements, *(s for guard in env.guards for s in guard.expr.free_symbols)] if env else []
    return any(symbol_is_type(symbol, SymT.FLOAT) for symbol in known)


def _has_tokens():
    """Whether AOTAutograd gives the graph that is compiled tokens, which keep its effects in order."""
    context = torch._guards.TracingContext.try_get()
    return bool(context and context.fw_metadata and context.fw_metadata.tokens)


def _unwrapped(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


@functools.cache
def install():
    """Lets AOTAutograd's cache keep whole graphs of Coil's, where it otherwise asks Inductor's cache for them. A
    backward graph is compiled, and kept, only when it first runs, out of reach of any setting around the compile.
    """
    make_entry = autograd_cache.AOTAutogradCache.make_entry

    @functools.wraps(make_entry)
    def make(compiled_fw_func, *args, **kwargs):
        if not isinstance(_unwrapped(compiled_fw_func), Output):
            return make_entry(compiled_fw_func, *args, **kwargs)
        with torch._functorch.config.patch(bundled_autograd_cache=True):
            return make_entry(compiled_fw_func, *args, **kwargs)

    autograd_cache.AOTAutogradCache.make_entry = staticmethod(make)


def compiler(function, folder):
    """`function(gm, inputs)`, which gives a compiled graph, as a compiler whose results AOTAutograd's cache keeps."""

    def compile_output(gm, inputs):
        graph = function(gm, inputs)
        return graph if isinstance(graph, Output) else Output(graph, folder)

    return SerializableAOTDispatchCompiler(Output, compile_output)


def can_keep(options):
    """Whether anything of a compile is kept: nothing where its stages are to be seen, or where Python stands around its
    graphs (offload.py).
    """
    seen = options.log or options.debug_dir is not None
    return options.cache is not None and not seen and not options.freeze and options.offload == 0


def has_key(gm):
    """Whether the cache's key names all that the compile of a Dynamo graph depends on."""
    from .library import decompositions

    return (
        not decompositions()  # functions of the user's
        and not _native.has_symm_mem_args()  # which the key does not name
        and not _holds_tensors(gm)
        and not any(map(_runs_triton, gm.modules()))
    )


def _holds_tensors(gm):
    """A tensor that is neither parameter nor buffer: the key has its type and sizes, and not its values."""
    return any(isinstance(value, torch.Tensor) for module in gm.modules() for value in vars(module).values())


def _runs_triton(module):
    """Calls kernels of the user's, whose sources the key would have to name."""
    return isinstance(module, torch.fx.GraphModule) and any(
        isinstance(node.target, torch._ops.HigherOrderOperator) and "triton" in node.target.name()
        for node in module.graph.nodes
    )


def _machine(inputs):
    """The GPUs that inputs lie on."""
    devices = {t.device for t in inputs if isinstance(t, torch.Tensor) and t.device.type == "cuda"}
    return sorted((str(d), torch.cuda.get_device_name(d), torch.cuda.get_device_capability(d)) for d in devices)


def _place_among_ranks():
    """This process's rank and how many there are: what a rank has of a DTensor differs where all ranks' graphs and
    inputs look alike to Dynamo.
    """
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def name(gm, inputs, options):
    """Puts into a graph what its compile depends on besides; AOTAutograd's key takes all attributes."""
    folder = None if options.cache == default_cache() else str(options.cache)
    gm._coil_options = repr(
        (
            *(build(), _native.libraries_hash(), options.key(), options.record, options.recordings),
            *(options.fallback_random, options.size_facts, folder, _machine(inputs), _place_among_ranks()),
        )
    )


class _Details(autograd_cache.AOTAutogradCacheDetails):
    """What a result depends on. Inductor's own part of it (its settings, all of torch's sources, the C++ compiler, its
    lowerings) takes longer to find than the rest of a warm start.
    """

    def get_triton_source_codes_from_gm(self, gm):
        """As torch's, which imports Inductor's code generator also where no operator is made of Triton kernels."""
        nodes = (n for m in gm.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes)
        made_of_triton = any(True for node in nodes for _ in self._iter_triton_kernels_from_node(node))
        return super().get_triton_source_codes_from_gm(gm) if made_of_triton else []

    def _init_fx_graph_hash_details(self, gm, example_inputs, fx_config):
        try:
            codecache.FxGraphCache._check_can_cache(gm, example_inputs, fx_config)
        except codecache.BypassFxGraphCache as error:
            raise autograd_cache.BypassAOTAutogradCache(str(error)) from error
        self.gm = gm  # with its _coil_options
        self.example_inputs = list(example_inputs)
        self.torch = (torch.__version__, torch.version.git_version)
        self.default_dtype = torch.get_default_dtype()
        self.warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
        self.ranges = _ranges()


def _ranges():
    """Between which bounds sizes lie: programs are compiled for those, and the key else has sizes by name alone."""
    env = codecache.FxGraphCache._get_shape_env()
    return sorted((str(symbol), str(r.lower), str(r.upper)) for symbol, r in env.var_to_range.items())


class _NoKey:
    """In the place of _Details: a result that nobody finds again."""

    def __init__(self, *args):
        raise autograd_cache.BypassAOTAutogradCache("nothing names all that the result depends on")


@contextlib.contextmanager
def loading(folder, named=True):
    """While AOTAutograd runs. Gives the list of what came out of its cache. What is not `named` is neither looked for
    nor written there; with torch's setting `bypass_autograd_cache_key` it is made all the same.
    """
    install()
    token = _loading.set(_Loading(folder))
    with contextlib.ExitStack() as stack:
        stack.callback(_loading.reset, token)

        def put(holder, name, value):
            stack.enter_context(unittest.mock.patch.object(holder, name, value))

        put(autograd_cache, "AOTAutogradCacheDetails", _Details if named else _NoKey)
        if not named:
            put(autograd_cache.AOTAutogradCache, "_write_to_local_cache", lambda key, content: None)
            put(autograd_cache.AOTAutogradCache, "_lookup", lambda *args, **kwargs: None)
        yield _loading.get()
