"""The backend of `torch.compile(model, backend="coil")`: graphs go through AOTAutograd, and forward, backward and
inference graphs to Coil.
"""

import contextlib
import dataclasses
import functools

import torch

from . import (
    _native,
    aliases,
    artifacts,
    budget,
    calls,
    collectives,
    exchanges,
    facts,
    masks,
    offload,
    recompiles,
    recurrent,
    triton_kernels,
    whole,
)
from .attention import DECOMPOSITIONS as ATTENTION
from .compiled import inner, ready
from .graph import all_nodes, holds_complex, is_token, transforms_on_gpu, translate, views_in_results
from .options import parse
from .transformer_layers import DECOMPOSITIONS as TRANSFORMER_LAYERS
from .triton_memory import end_of

try:
    from . import kept
except (ImportError, AttributeError):  # a torch whose cache of AOTAutograd's results is another one: nothing is kept
    kept = None

recurrent.register()

# Operators that Coil knows, but torch's partitioner only in parts. It keeps what goes in and out of them for the
# backward graph, in f32 under autocast, where it computes pointwise parts again.
_IN_PARTS = {
    f"aten.{name}.default"
    for name in (
        *(
            "detach",
            "_log_softmax",
            "_log_softmax_backward_data",
            "_softmax",
            "_softmax_backward_data",
            "_safe_softmax",
            "nll_loss_backward",
        ),
        *("native_layer_norm", "native_layer_norm_backward", "native_dropout_backward"),
        *("native_group_norm", "native_group_norm_backward"),
        *(
            f"{f}_backward"
            for f in (
                "elu",
                "hardsigmoid",
                "hardswish",
                "hardtanh",
                "leaky_relu",
                "log_sigmoid",
                "mish",
                "sigmoid",
                "silu",
                "softplus",
                "tanh",
                "threshold",
            )
        ),
    )
}


def _nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight):
    """Element by element, where torch's own scatters into zeros as large as the scores."""
    classes = self.dim() - 1
    target = target.unsqueeze(classes)
    if reduction == 0:
        grad = grad.unsqueeze(classes)
    elif reduction == 1:
        grad = grad / total_weight
    value = -grad if weight is None else -grad * weight
    hit = (torch.arange(self.shape[classes], device=self.device) == target) & (target != ignore_index)
    return torch.where(hit, value, 0.0)


def _threshold_backward(grad, self, threshold):
    """On a CPU eager's compares 16-bit floats with a bound in f32, which is not that of their own type."""
    narrow = self.dtype in (torch.float16, torch.bfloat16) and self.device.type == "cpu" and threshold != 0
    return torch.where((self.float() if narrow else self) <= threshold, 0, grad)


def _hardtanh_backward(grad, self, low, high):
    """Eager compares 16-bit floats with bounds in f32; torch's own before 2.13 rounds those to 16 bits."""
    wide = self.float() if self.dtype in (torch.float16, torch.bfloat16) else self
    return torch.where((wide <= low) | (wide >= high), 0, grad)


def _safe_softmax(self, dim, dtype=None):
    """0 in rows of nothing but -inf, which the maxima tell that a softmax has in any case."""
    made = torch.softmax(self, dim, dtype)
    if type(self.shape[dim]) is not int or self.shape[dim] == 0:
        return torch.where((self == -torch.inf).all(dim, keepdim=True), 0.0, made)
    return torch.where((self if dtype is None else self.to(dtype)).amax(dim, keepdim=True) == -torch.inf, 0.0, made)


def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """With the dimensions of a picture left apart, where torch's own makes one of channels and places, which lie far
    from each other in channels-last memory.
    """
    wide = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
    x = input.to(wide).unflatten(1, (group, -1))
    variance, mean = torch.var_mean(x, dim=list(range(2, x.dim())), correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    y = ((x - mean) * rstd).flatten(1, 2)
    ones = [1] * (input.dim() - 2)
    if weight is not None:
        y = y * weight.view(C, *ones)
    if bias is not None:
        y = y + bias.view(C, *ones)
    return y.to(input.dtype), mean.reshape(N, group).to(input.dtype), rstd.reshape(N, group).to(input.dtype)


def _decompositions(differentiated, deterministic):
    """Those of coil.Library, and torch's of operators that Coil knows nothing of; of a graph that is `differentiated`,
    also those of _IN_PARTS and, unless it is to be `deterministic`, of attention.
    """
    from .library import decompositions

    return (
        _torch_decompositions(differentiated)
        | (ATTENTION if differentiated and not deterministic else {})
        | decompositions()
    )


def _core_decompositions():
    """Torch's, without those of composite operators, which tracing takes apart in any case: they take long to list."""
    if own := getattr(torch._decomp, "_core_aten_decompositions_post_autograd", None):
        return own()
    return torch._decomp.core_aten_decompositions()


@functools.cache
def _torch_decompositions(differentiated):
    known = set(_native.operators()) - (_IN_PARTS if differentiated else set())
    table = (
        _core_decompositions()
        | {op: f for op, f in torch._decomp.decomposition_table.items() if str(op) in _IN_PARTS}
        | {
            torch.ops.aten.nll_loss_backward.default: _nll_loss_backward,
            torch.ops.aten.native_group_norm.default: _native_group_norm,
            torch.ops.aten._safe_softmax.default: _safe_softmax,
            torch.ops.aten.threshold_backward.default: _threshold_backward,
            torch.ops.aten.hardtanh_backward.default: _hardtanh_backward,
        }
        | TRANSFORMER_LAYERS
    )
    return {
        op: f for op, f in table.items() if str(op) not in known and torch.Tag.nondeterministic_seeded not in op.tags
    }


def compile_graph(gm, options, name="main", **layouts):
    """A callable for one functional graph: takes a list, which it empties, or the inputs one by one. `layouts`: strides
    and free results (graph.Translator).
    """
    if (moved := _moving(gm)) is not None:
        if not options.hands_over:
            node, what = moved
            raise _native.Error(f"%{node.name}: {node.target}, which {what}, is not compiled, and fallback is off")
        return _named(_InTorch(gm), options)
    return _named(_translated(gm, options, name, **layouts), options)


def _translated(gm, options, name, **more):
    """The graph, compiled. Exchanges that Coil has no form for after all are torch's."""
    nodes = collectives.nodes_of(gm) if options.own_exchanges else []
    taker = exchanges.Taker(options.device)
    if any(taker(node, node.target) for node in nodes):
        graph = _exchanging(gm, options, name, taker, more)
    else:
        graph = _compiled(gm, options, name, **more)
    if nodes:
        graph.meets = True  # what it became depends on the groups that are there now
    return graph


def _exchanging(gm, options, name, taker, more):
    """The graph, compiled, with what `taker` takes as exchanges of its own, unless the ranks find otherwise."""
    with exchanges.compiling():
        try:
            graph = _compiled(gm, options, name, taker=taker, **more)
        except _native.Error:
            if not options.hands_over:
                raise
            return _compiled(gm, options, name, **more)
    if graph.exchanges[0]:
        by_torch = (lambda: _named(_compiled(gm, options, name, **more), options)) if options.hands_over else None
        graph.choose = exchanges.Choice(graph, taker.device, by_torch)
    return graph


def _compiled(gm, options, name, frozen=None, keep_graph=True, taker=None, **layouts):
    """Free sizes that the compile must have the values of are fixed by guards, and an operator of the graph that it
    refuses is left to torch, where the options allow it; first of all operators on complex numbers are, together.
    """
    handed, refusal, hand_over_complex = set(), None, options.hands_over and transforms_on_gpu(gm)
    assumed = facts.wanted(gm, options.size_facts) if options.size_facts else []
    while True:
        try:
            traced = translate(
                gm,
                name,
                frozen,
                options.hands_over,
                options.fallback_random,
                kernels=_kernels(options),
                assumed=assumed,
                taker=taker,
                handed=handed,
                hand_over_complex=hand_over_complex,
                **layouts,
            )
            return _compile(traced, options, name, keep_graph=keep_graph)
        except _native.NeedsValue as error:
            if not facts.fix(gm, error.symbols):
                raise
        except _native.Error as error:
            refusal = refusal or error
            if options.hands_over and not hand_over_complex and holds_complex(gm):
                hand_over_complex = True
                continue
            operator = _refused_operator(gm, error)
            if not options.hands_over or operator is None or operator in handed:
                raise refusal from None
            if not views_in_results(gm, operator):
                handed.add(operator)
            elif not facts.fix(gm, facts.names_in(n for n in all_nodes(gm) if str(n.target) == operator)):
                raise refusal from None  # what torch gives is copied, which is a view no more


def _refused_operator(gm, error):
    """The operator of the graph that an error is about, by name, if torch has it."""
    name = str(error).partition(":")[0].partition(" ")[0]
    targets = {n.target for n in all_nodes(gm)}
    plain = lambda op: isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable
    return name if any(plain(op) and str(op) == name for op in targets) else None


def _kernels(options):
    return triton_kernels.Compiler(options.settings, options.cache)


def _moving(gm):
    """(node, what it does) of one that only torch can carry out, since it is about memory and not about elements: it
    gives an input another tensor's (`x.data = y`, `x.set_(y)`; AOTAutograd leaves it in its graphs), or sees what lies
    around an input's own elements (`x[1].as_strided(...)`). None where there is none.
    """
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if node.target.overloadpacket is torch.ops.aten.set_:
            return node, "gives a tensor another's memory"
        if node.target is torch.ops.aten.as_strided.default and _sees_more(node.args[0], node.meta["val"]):
            return node, "sees memory around an input's own elements"
    return None


def _sees_more(given, view):
    """Whether a view with strides of its own leaves what an input has, as far as sizes are numbers."""
    own = given.meta["val"]
    known = all(type(n) is int for t in (own, view) for n in facts.numbers_of(t))
    if given.op != "placeholder" or not known or not view.numel():
        return False
    return view.storage_offset() < own.storage_offset() or end_of(view) > end_of(own)


class _InTorch:
    """A graph that torch runs, called as compiled ones are."""

    host_calls = True
    exchanges = [], ""
    arguments = -1  # AOTAutograd stays around it

    def __init__(self, gm):
        self.gm = gm

    def __call__(self, *args):
        if len(args) == 1 and isinstance(args[0], list):
            given, args = args[0], tuple(args[0])
            given.clear()
        return self.gm(*args)

    def constant_strides(self, result):
        return None


def _compile_seeing(gm, options, name, **layouts):
    """As compile_graph for a graph whose results AOTAutograd sees anew."""
    left = aliases.leave_to_torch(gm)
    graph = compile_graph(gm, options, name, **layouts)
    return aliases.SeenInTorch(graph, *left) if left else graph


def _compile_forward(gm, options):
    """As compile_graph for a graph that saves tensors for its backward graph: those may lie in memory as Coil likes,
    which AOTAutograd is told, and tells the backward graph's compiler.
    """
    context = torch._guards.TracingContext.try_get()
    if context is None or context.output_strides is None or context.fw_metadata is None or context.fw_metadata.tokens:
        return offload.moving_forward(gm, _compile_seeing(gm, options, "forward"))[0]
    results = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    saved = range(*context.fw_metadata.tensors_saved_for_backwards_slice.indices(len(results)))
    if options.own_exchanges and collectives.nodes_of(gm):
        saved = range(0)  # the graph may yet be run in another form (exchanges.Choice), whose strides must be the same
    graph = _compile_seeing(gm, options, "forward", free=saved)
    made, moved = offload.moving_forward(gm, graph)
    told = [graph.constant_strides(i) if i in saved and i not in moved else None for i in range(len(results))]
    context.output_strides[:] = [strides and tuple(strides) for strides in told]
    return made


def _compile_backward(gm, options, inputs):
    """As compile_graph for a graph whose saved tensors come in strides of their own: `inputs` have them, and the
    graph's nodes those that tracing saw.
    """
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(inputs):
        raise _native.Error(f"a backward graph has {len(placeholders)} inputs and was given {len(inputs)}")
    strides = {}
    for node, given in zip(placeholders, inputs):
        if (
            isinstance(given, torch.Tensor)
            and all(type(s) is int for s in given.stride())
            and not _same(given.stride(), node.meta["val"].stride())
        ):
            strides[node.name] = given.stride()
    return offload.moving_backward(gm, compile_graph(gm, options, "backward", strides=strides))


def _same(strides, traced):
    return all(type(t) is int and s == t for s, t in zip(strides, traced))


def _place(device, options):
    """Where a graph runs whose tensors lie on this device."""
    if options.device and device not in ("cpu", options.device):
        raise _native.Error(f"the option device is {options.device}, but the graph's tensors lie on {device}")
    return options.device or device


def _compile(traced, options, name, **keep):
    return traced.compile(
        options.settings,
        options.cache,
        options.log,
        _place(traced.device, options),
        debug_dir=options.debug_folder(name),
        **keep,
    )


def _named(graph, options):
    return ready(graph, options.record, options.recordings)


def _compile_frozen(gm, options, inputs):
    """As compile_graph for an inference graph, with the parameters and buffers among its inputs as constants: packed
    and folded at compile time, and again when one of them was written to.
    A plain graph where there are none."""
    from torch._functorch._aot_autograd.schemas import MutationType

    context = torch._guards.TracingContext.try_get()
    meta = context and context.fw_metadata
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    tokens = sum(map(is_token, placeholders))
    if meta is None or len(placeholders) - tokens != len(inputs) or len(meta.input_info) != len(inputs):
        return compile_graph(gm, options, "inference")

    def can_hold(node, tensor):
        val = node.meta["val"]
        return (
            isinstance(tensor, torch.Tensor)
            and not isinstance(tensor, torch._subclasses.FakeTensor)
            and not tensor.is_inference()
            and not tensor.is_neg()
            and not tensor.is_conj()
            and (tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride())
            == (val.dtype, val.device, tuple(val.shape), val.stride())
        )

    if _moving(gm) is not None:
        return compile_graph(gm, options, "inference")
    held = [
        i
        for i in sorted(set(meta.static_input_indices))
        if meta.input_info[i].mutation_type is MutationType.NOT_MUTATED
        and can_hold(placeholders[tokens + i], inputs[i])
    ]
    nodes = [placeholders[tokens + i] for i in held]
    if not held:
        return compile_graph(gm, options, "inference")

    def compile_holding(tensors):
        if not all(map(can_hold, nodes, tensors)):
            return compile_graph(gm, options, "inference"), False
        frozen = {node.name: t for node, t in zip(nodes, tensors)}
        return _named(_translated(gm, options, "inference", frozen=frozen, keep_graph=False), options), True

    frozen = _native.FrozenGraph([tokens + i for i in held], compile_holding)
    frozen.prepare([inputs[i] for i in held])
    return _named(frozen, options)


def _is_plain(graph, inputs):
    """Whether AOTAutograd has nothing to do around an inference graph, so that Dynamo may call it directly: no result
    to alias anew, no write of its own to make, no tensor subclass to unwrap, no pending collective among its inputs.
    """
    from torch._functorch._aot_autograd.schemas import MutationType, OutputType, PlainTensorMeta
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    context = torch._guards.TracingContext.try_get()
    meta = context and context.fw_metadata
    return (
        meta is not None
        and graph.arguments == len(inputs)
        # (Up to torch 2.11 the metadata describes what the subclasses hold.)
        and not any(map(is_traceable_wrapper_subclass, inputs))
        and not meta.tokens
        and not getattr(meta, "act_input_indices", ())
        and all(i.mutation_type in (MutationType.NOT_MUTATED, MutationType.MUTATED_IN_GRAPH) for i in meta.input_info)
        and all(o.output_type in (OutputType.non_alias, OutputType.unsafe_view_alias) for o in meta.output_info)
        and all(isinstance(m, PlainTensorMeta) for m in (*meta.subclass_inp_meta, *meta.subclass_fw_graph_out_meta))
        and not ((graph.host_calls or graph.exchanges[0]) and torch._C._is_any_autocast_enabled())
    )


def coil(gm, example_inputs, *, options=None, mode=None):
    """What Dynamo calls for each graph. `options` are those of coil.settings()."""
    return compile_dynamo_graph(gm, example_inputs, parse(options, mode))


def _bypasses():
    """How many graphs AOTAutograd's cache has had no key for."""
    return torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_bypass"]


class _Compilers:
    """What AOTAutograd has compile the graphs that it makes of one of Dynamo's."""

    def __init__(self, options, example_inputs, keeps):
        self.options, self.example_inputs, self.keeps = options, example_inputs, keeps
        self.made = None  # the graph of inference
        self.bypasses, self.alone = _bypasses(), None
        self.watch = recompiles.Watch() if options.recompiles else None
        self.partitioner = budget.Partitioner(options)

    def _kept(self, compile):
        recorded = functools.partial(self._record, compile)
        return kept.compiler(recorded, self.options.cache) if self.keeps else recorded

    def _record(self, compile, gm, inputs):
        """Without AOTAutograd's result around it a graph is saved by itself."""
        if self.alone is None:  # the first graph; AOTAutograd has looked into its cache by now
            self.alone = not self.keeps or _bypasses() > self.bypasses
        made = compile(gm, inputs)
        entry = getattr(inner(made), "entry", "")
        if self.alone and self.options.cache is not None and entry:
            artifacts.record(self.options.cache, entry)
        return made

    def _watched(self, name, compile):
        def compile_watched(gm, inputs):
            advice = functools.partial(self.partitioner.advice, name)
            try:
                made = compile(gm, inputs)
            except _native.OutOfMemory as error:
                raise _native.OutOfMemory(f"{error}{advice(error.needed)}") from None
            graph = inner(made)
            if isinstance(graph, _native.CompiledGraph):
                graph.advise = advice
            if self.watch is not None and isinstance(graph, _native.CompiledGraph):
                self.watch.graphs.append((name, graph))
            return made

        return self._kept(compile_watched)

    def forward(self):
        return self._watched("forward", lambda gm, inputs: _compile_forward(gm, self.options))

    def backward(self):
        return self._watched("backward", lambda gm, inputs: _compile_backward(gm, self.options, inputs))

    def inference(self):
        return self._watched("inference", self._compile_inference)

    def _compile_inference(self, gm, inputs):
        aliases.view_written_inputs(gm)
        self.made = graph = (
            _compile_frozen(gm, self.options, self.example_inputs)
            if self.options.freeze
            else _compile_seeing(gm, self.options, "inference")
        )
        if not self.keeps:
            return graph
        output = kept.Output(graph, self.options.cache)
        output.plain = _is_plain(graph, self.example_inputs)
        return output


def compile_dynamo_graph(gm, example_inputs, options, standalone=None, **aot):
    """A callable for a graph of Dynamo's, through AOTAutograd, which gets the arguments `aot` too. `standalone`:
    AOTAutograd's result is made to be saved by the caller, and found in torch's cache `by key` or `never`; its
    exchanges are torch's.
    """
    from torch._dynamo.backends.common import aot_autograd

    differentiated = torch.is_grad_enabled() and any(
        isinstance(t, torch.Tensor) and t.requires_grad for t in example_inputs
    )
    masks.simplify(gm)
    masks.lay_out(gm)
    if standalone is not None:
        options = dataclasses.replace(options, own_exchanges=False, offload=0.0)
    calls.replace(gm)
    recurrent.replace(gm)
    named = kept is not None and standalone != "never" and kept.has_key(gm)
    keeps = kept is not None and kept.can_keep(options) and (named or standalone is not None)
    compilers = _Compilers(options, example_inputs, keeps)
    backend = aot_autograd(
        fw_compiler=compilers.forward(),
        bw_compiler=compilers.backward(),
        inference_compiler=compilers.inference(),
        partition_fn=compilers.partitioner,
        decompositions=_decompositions(differentiated, options.settings.get("deterministic") in ("true", "batch")),
        keep_inference_input_mutations=True,
        **aot,
    )
    if keeps:
        kept.name(gm, example_inputs, options)
    # Random states travel between graphs as tensors, not as generators.
    with (
        torch._functorch.config.patch(
            {k: False for k in ["graphsafe_rng_functionalization"] if hasattr(torch._functorch.config, k)}
        ),
        triton_kernels.analysed(gm),
        aliases.sound(),
        whole.operators(),
        kept.loading(options.cache, named) if keeps else contextlib.nullcontext([]) as loaded,
    ):
        wrapped = backend(gm, example_inputs)
    if compilers.watch is not None:
        compilers.watch.told(gm, len(loaded))
    if (made := compilers.made) and _is_plain(inner(made), example_inputs):
        return made
    return loaded[0].graph if loaded and loaded[0].plain else wrapped
