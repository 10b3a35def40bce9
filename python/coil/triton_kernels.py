"""Kernels that users wrote in Triton, in graphs: each call as one of `coil::user_kernel`, with the compiled kernel."""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import operator as operator_module
import os
import pathlib
import re
import struct
import tempfile

import torch
from torch.fx import Node

from . import _native

CALLS = ("triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation")
_ALIGNED = 16  # bytes; also what an integer must be a multiple of to be told so
# Of a block, as CUDA's documentation has it; of a GPU that is there, it is asked.
_SHARED_BYTES = {80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 103: 232448, 120: 101376}


def is_call(node):
    return isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() in CALLS


def installed():
    """Triton, or an Error that says what is missing."""
    try:
        import triton
    except ImportError as error:
        raise _native.Error(
            "a user's Triton kernel is compiled by Triton, which is not installed; pip install triton"
        ) from error
    return triton


def is_triton_op(operator):
    """An operator made by torch.library.triton_op."""
    from torch._library.triton import triton_ops_to_kernels

    return operator._schema.name in triton_ops_to_kernels


@contextlib.contextmanager
def decomposed():
    """While this lasts, run_decompositions() takes such operators apart, as it does for torch.compile: torch.export
    leaves them whole, as archives of torch's own cannot hold kernels. Where torch's switch is not there they stay whole.
    """
    import torch.export._trace as trace

    switch = "custom_triton_ops_decomposition_disabled"
    before = getattr(trace, switch, None)
    if before is None:
        yield
        return
    setattr(trace, switch, lambda: False)
    try:
        yield
    finally:
        setattr(trace, switch, before)


def analysed(gm):
    """`analysis` for a graph that has such kernels."""
    modules = [m for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
    called = [n for m in modules for n in m.graph.nodes if n.op == "call_function"]
    if any(map(is_call, called)) or any(
        isinstance(n.target, torch._ops.OpOverload) and n.target.namespace != "aten" and is_triton_op(n.target)
        for n in called
    ):
        return analysis()
    return contextlib.nullcontext()


@contextlib.contextmanager
def analysis():
    """While this lasts, torch can find out what kernels write to where there is no GPU: it asks Triton for their IR,
    and Triton asks a driver what to compile for.
    """
    triton = installed()
    driver = triton.runtime.driver
    try:
        driver.active.get_current_target()
    except RuntimeError:
        before = dict(vars(driver))
        driver.set_active(_Described(triton.backends.compiler.GPUTarget("cuda", 80, 32)))
        try:
            yield
        finally:
            vars(driver).clear()
            vars(driver).update(before)
        return
    yield


class _Described:
    """A driver that knows its target and no more."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        return self.target


@dataclasses.dataclass
class Call:
    """What `coil::user_kernel` takes; `names` of the tensors at the places `written`."""

    definition: str
    tensors: list
    numbers: list
    grid: list
    written: list
    names: list


class Compiler:
    """`device`: what a program is compiled for, where its tensors do not tell."""

    def __init__(self, settings=None, cache=None, device=None):
        self.settings, self.device = settings or {}, device
        self.cache = cache and pathlib.Path(cache) / "triton"

    def call(self, node):
        """A node of torch's graph as a Call. Raises Error with the kernel's name and line."""
        installed()
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

        given = node.kwargs
        kernel = kernel_side_table.get_kernel(given["kernel_idx"])
        constants = kernel_side_table.get_constant_args(given["constant_args_idx"])
        if "tensors_to_clone" in given:
            written = given["tensors_to_clone"]
        else:
            written = self._written(given)
        try:
            return _Described_call(self, kernel, constants, given, list(written)).run()
        except _Refusal as error:
            function = _function(kernel)
            raise _native.Error(f"the Triton kernel {function.fn.__name__} ({_place(function)}) {error}") from error

    @staticmethod
    def _written(given):
        from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors

        kwargs = torch.fx.node.map_arg(given["kwargs"], lambda n: n.meta["val"])
        return get_mutated_tensors(
            given["kernel_idx"], given["constant_args_idx"], kwargs, given["tma_descriptor_metadata"]
        )

    def target(self, tensors):
        """The compute capability to compile for: 90; None on the CPU."""
        device = self.device or next((str(t.device) for t in tensors if t.device.type != "cpu"), "cpu")
        if device.startswith("cpu"):
            return None
        arch = self.settings.get("cuda.arch")
        if arch:
            return int(re.search(r"\d+", arch).group())
        if torch.cuda.is_available():
            major, minor = torch.cuda.get_device_capability(device)
            return major * 10 + minor
        raise _Refusal("is compiled for no GPU that is here; say for which with the option cuda.arch")

    def cached(self, key, make):
        """A value that JSON holds, out of the cache or made; other processes find it there."""
        file = self.cache and self.cache / f"{key}.json"
        if file:
            try:
                digest, _, text = file.read_text().partition("\n")
                if hashlib.sha256(text.encode()).hexdigest() == digest:
                    return json.loads(text)
            except (OSError, ValueError):
                pass
        value = make()
        if file:
            text = json.dumps(value)
            try:
                self.cache.mkdir(parents=True, exist_ok=True)
                with tempfile.NamedTemporaryFile("w", dir=self.cache, delete=False) as aside:
                    aside.write(hashlib.sha256(text.encode()).hexdigest() + "\n" + text)
                os.replace(aside.name, file)
            except OSError:
                pass
        return value


class _Refusal(Exception):
    """Why a kernel cannot be compiled, in words that follow its name."""


def _function(kernel):
    """The jitted function inside decorators."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _place(function):
    from .triton_source import place

    return place(function)


def _value(argument):
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _is_multiple(number, of):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return number % of == 0 if type(number) is int else statically_known_true(number % of == 0)


def _is_narrow(number):
    """Whether 32 bits hold a size; of one that inputs tell the graph's guards then say so."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

    if statically_known_true(number <= 2**31 - 1) and statically_known_true(number >= -(2**31)):
        return True
    if free_unbacked_symbols(number):
        return False
    return bool(number <= 2**31 - 1) and bool(number >= -(2**31))


class _Described_call:
    def __init__(self, compiler, kernel, constants, given, written):
        self.compiler, self.kernel, self.given, self.written = compiler, kernel, given, written
        self.function = _function(kernel)
        self.arguments = dict(given["kwargs"]) | dict(constants)
        if given["tma_descriptor_metadata"]:
            raise _Refusal(
                "takes descriptors that the host makes for TMA, which are not supported; make them in the kernel"
            )
        self.tensors = [v for v in map(_value, self.arguments.values()) if isinstance(v, torch.Tensor)]

    def run(self):
        self.capability = self.compiler.target(self.tensors)
        configs = getattr(self.kernel, "configs", None)
        if configs is None:
            return self.configured(None, self.given["grid"][0], "")
        if not configs:
            raise _Refusal("has no configuration left after pruning")
        choice, why = self.choose(configs)
        note = f", {_config_text(configs[choice])}, {why}" if len(configs) > 1 else ""
        return self.configured(configs[choice], self.given["grid"][choice], note)

    def choose(self, configs):
        """The place of the configuration that is fastest on this machine's GPU, and a word on it."""
        if len(configs) == 1:
            return 0, ""
        count = f"of {len(configs)} configurations"
        if self.capability is None or not torch.cuda.is_available():
            return 0, f"the first {count}: there was no GPU to time them on"
        if torch.cuda.get_device_capability() != divmod(self.capability, 10):
            return 0, f"the first {count}: the GPU here is another than it is compiled for"
        from .triton_source import key
        from .triton_timing import fastest

        hints = [[*map(_hint, t.shape), str(t.dtype)] for t in self.tensors]
        texts = [_config_text(c) for c in configs]
        plain = {k: v for k, v in self.arguments.items() if not isinstance(v, Node)}
        name = key(self.function, plain, texts, hints, torch.cuda.get_device_name())
        try:
            return self.compiler.cached(f"choice-{name}", lambda: fastest(self, configs)), f"the fastest {count}"
        except RuntimeError as error:
            raise _Refusal(str(error)) from error

    def parameters(self, config):
        """(parameter, value) in the kernel's order; values are nodes, numbers or constants."""
        chosen = dict(config.kwargs) if config else {}
        out = []
        for p in self.function.params:
            if p.name in chosen:
                value = chosen[p.name]
            elif p.name in self.arguments:
                value = self.arguments[p.name]
            elif p.has_default:
                value = p.default
            else:
                if hasattr(self.kernel, "configs"):  # Triton itself puts an empty one in the place of none
                    raise _Refusal(f"has no configuration left after pruning, or none that gives `{p.name}`")
                raise _Refusal(f"is called without its argument `{p.name}`")
            if p.is_constexpr and isinstance(value, Node):
                raise _Refusal(f"is given a value that only the run tells for `{p.name}`, which is a tl.constexpr")
            out.append((p, value))
        return out

    def configured(self, config, grid, note):
        from . import triton_source

        facts = _Signature(self.parameters(config), self.capability)
        options = _options(config)
        key = triton_source.key(self.function, facts.constants, facts.types, facts.attributes, options, self.capability)
        name = self.function.fn.__name__
        symbol = f"{re.sub('[^A-Za-z0-9_]', '_', name)}_{key[:16]}"
        where = _place(self.function) + note
        program = {"name": name, "where": where, "options": options}
        program |= {"tensors": facts.tensor_names(), "numbers": facts.number_names()}
        try:
            source, constants = triton_source.program_text(self.function, facts.constants)
            program |= {"source": source, "constants": constants}
        except triton_source.NoText as problem:
            program["problem"] = str(problem)
            if self.capability is None:
                raise _Refusal(f"cannot be written as source text, which its interpreter runs: {problem}") from problem
        if self.capability is None:
            code = {"parameters": [p for p in facts.block()]}
        else:
            code = self.compiler.cached(
                key, lambda: _compile(self.function, symbol, key, facts, options, self.capability)
            )
        definition = {"symbol": symbol, "name": name, "where": where, "program": program} | code
        places = {n: k for k, n in enumerate(facts.tensor_names())}
        return Call(
            json.dumps(definition),
            [facts.values[n] for n in places],
            [facts.values[n] for n in facts.number_names()],
            list(grid),
            [places[n] for n in self.written],
            list(self.written),
        )


def _hint(number):
    """A size as it was when the graph was traced."""
    if type(number) is int:
        return number
    hint = getattr(number.node, "hint", None)
    return 4096 if hint is None else int(hint)


def _config_text(config):
    return ", ".join(f"{k}={v}" for k, v in config.all_kwargs().items() if v is not None)


def _options(config):
    if config is None:
        return {}
    given = {k: v for k, v in config.all_kwargs().items() if k not in config.kwargs and v is not None}
    return {k: v for k, v in given.items() if k not in ("ir_override", "pre_hook") or v}


class _Signature:
    """How Triton compiles a call: a type for each parameter, what is constant, what is known of the others."""

    def __init__(self, parameters, capability):
        self.types, self.attributes, self.constants, self.values = {}, {}, {}, {}
        self.kinds, self.bits, self.capability = {}, {}, capability
        for index, (p, value) in enumerate(parameters):
            seen = _value(value)
            if p.is_constexpr or seen is None:
                self.constant(p.name, value)
            elif isinstance(seen, torch.Tensor):
                self.tensor(index, p, value, seen)
            elif isinstance(seen, (bool, int, torch.SymInt)) and not (isinstance(value, Node) and type(seen) is bool):
                self.integer(index, p, value, seen)
            elif isinstance(seen, float):
                self.real(p, seen)
            elif isinstance(value, Node) or isinstance(seen, (torch.SymFloat, torch.SymBool)):
                raise _Refusal(f"takes a {type(seen).__name__} for `{p.name}`; give it as a tensor")
            elif p.annotation_type:
                raise _Refusal(f"takes a {type(seen).__name__} for `{p.name}`")
            else:
                self.constant(p.name, value)

    def tensor_names(self):
        return [n for n, kind in self.kinds.items() if kind == "tensor"]

    def number_names(self):
        return [n for n, kind in self.kinds.items() if kind == "number"]

    def constant(self, name, value):
        self.types[name] = "constexpr"
        self.constants[name] = value

    def tensor(self, index, p, value, seen):
        from triton._utils import canonicalize_dtype

        if not isinstance(value, Node):
            raise _Refusal(f"takes a tensor for `{p.name}` that is no value of the graph")
        if any(type(s) is int and s == 0 and n != 1 for s, n in zip(seen.stride(), seen.shape)):
            pass  # repeated elements: read as they lie
        try:
            dtype = canonicalize_dtype(seen.dtype)
        except KeyError:
            raise _Refusal(f"takes a tensor of {seen.dtype} for `{p.name}`, which Triton has no type for") from None
        self.types[p.name] = ("*k" if p.is_const else "*") + dtype
        aligned = value.op == "placeholder" or _is_multiple(seen.storage_offset() * seen.dtype.itemsize, _ALIGNED)
        if aligned and not p.do_not_specialize_on_alignment and not p.do_not_specialize:
            self.attributes[(index,)] = [["tt.divisibility", _ALIGNED]]
        self.kinds[p.name], self.values[p.name] = "tensor", value

    def integer(self, index, p, value, seen):
        fixed = not isinstance(seen, torch.SymInt)
        if fixed and seen == 1 and type(seen) is int and not p.do_not_specialize:
            return self.constant(p.name, 1)
        if p.annotation_type:
            self.types[p.name] = p.annotation_type
        elif type(seen) is bool:
            self.types[p.name] = "u1"
        elif fixed:
            self.types[p.name] = "i32" if -(2**31) <= seen < 2**31 else "i64" if seen < 2**63 else "u64"
        else:
            self.types[p.name] = "i32" if _is_narrow(seen) else "i64"
        if type(seen) is not bool and not p.do_not_specialize and not p.do_not_specialize_on_alignment:
            if _is_multiple(seen, _ALIGNED):
                self.attributes[(index,)] = [["tt.divisibility", _ALIGNED]]
        if fixed:
            self.kinds[p.name], self.constants[p.name] = "constant", seen
            self.bits[p.name] = int(seen) if int(seen) < 2**63 else int(seen) - 2**64
        else:
            self.kinds[p.name], self.values[p.name] = "number", value

    def real(self, p, seen):
        kind = p.annotation_type or "fp32"
        if kind not in ("fp32", "fp64"):
            raise _Refusal(f"takes a float for `{p.name}`, which is a {kind}")
        self.types[p.name] = kind
        form = ("<f", "<i") if kind == "fp32" else ("<d", "<q")
        self.kinds[p.name], self.constants[p.name] = "constant", seen
        try:
            self.bits[p.name] = struct.unpack(form[1], struct.pack(form[0], seen))[0]
        except OverflowError:
            raise _Refusal(f"takes {seen} for `{p.name}`, which 32 bits do not hold") from None

    def block(self, widths=None):
        """The argument block, but for scratch memory; `widths` in bytes, as the compiled kernel has them."""
        out = []
        for index, name in enumerate(self.types):
            kind = self.kinds.get(name)
            if kind is None:
                continue
            entry = {"name": name, "kind": kind}
            if kind == "tensor":
                entry["aligned"] = (index,) in self.attributes and self.capability is not None
            else:
                entry["bytes"] = widths[len(out)] if widths else 8
            if kind == "constant":
                entry["bits"] = self.bits[name]
            out.append(entry)
        return out


_PARAMETER = re.compile(r"\.param \.(?:align \d+ )?\.?([a-z])(\d+)[^,\n)]*_param_(\d+)")


def _widths(ptx, symbol):
    """Bytes of each parameter of the entry point, from its head."""
    head = ptx[ptx.index(f".entry {symbol}(") :]
    head = head[: head.index(")")]
    return [int(bits) // 8 for _, bits, _ in _PARAMETER.findall(head)]


def _compile(function, symbol, key, facts, options, capability):
    """The compiled kernel as a part of its definition."""
    import copy

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    # Of another name for each of its compiled forms, which one program may hold side by side.
    named = copy.copy(function)
    setattr(named, "_repr" if hasattr(named, "_repr") else "repr", lambda _: symbol)
    named.hash = key
    held = set(facts.kinds)
    constants = {k: v for k, v in facts.constants.items() if k not in held}
    source = ASTSource(named, dict(facts.types), constants, dict(facts.attributes))
    try:
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except Exception as error:
        raise _Refusal(f"does not compile: {_complaint(function, error)}") from error
    m = made.metadata
    for what, refused in (
        ("clusters of blocks (num_ctas)", getattr(m, "num_ctas", 1) != 1),
        ("scratch memory (descriptors that it makes itself, for instance)", getattr(m, "global_scratch_size", 0)),
        ("a profiler's memory", getattr(m, "profile_scratch_size", 0)),
        ("a cooperative grid", getattr(m, "launch_cooperative_grid", False)),
        ("a launch ahead of the kernel before it", getattr(m, "launch_pdl", False)),
    ):
        if refused:
            raise _Refusal(f"needs {what}, which is not supported")
    limit = _SHARED_BYTES.get(capability)
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == divmod(capability, 10):
        limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    if limit is not None and m.shared > limit:
        raise _Refusal(
            f"needs {m.shared} bytes of shared memory, but a block of sm_{capability} has {limit}; take smaller blocks or fewer stages"
        )
    widths = _widths(made.asm["ptx"], symbol)
    block = facts.block(widths)
    block += [{"name": "scratch", "kind": "constant", "bytes": w, "bits": 0} for w in widths[len(block) :]]
    return {
        "arch": f"sm_{capability}",
        "binary": made.asm["cubin"].hex(),
        "ptx": made.asm["ptx"],
        "block": m.num_warps * 32,
        "shared_bytes": m.shared,
        "parameters": block,
    }


def _complaint(function, error):
    """What Triton's compiler says, with the user's line."""
    lines = []
    cause = error
    while cause is not None and hasattr(cause, "node"):
        if getattr(cause.node, "lineno", None) is not None:
            file, begin = inspect.getsourcefile(function.fn), _first_line(function)
            if getattr(cause, "src", None) in (None, function.src):
                lines.append(f"{file}:{begin + cause.node.lineno - 1}")
        error, cause = cause, cause.__cause__
    if cause is not None:
        error = cause
    message = str(getattr(error, "error_message", None) or error).strip() or type(error).__name__
    return f"{message.splitlines()[-1]}{' (at ' + lines[0] + ')' if lines else ''}"


def _first_line(function):
    """The line of `def`."""
    text, first = inspect.getsourcelines(function.fn)
    return first + next((i for i, line in enumerate(text) if line.lstrip().startswith("def ")), 0)


@functools.cache
def operator():
    """`torch.ops.coil.user_kernel`, by which exported programs call such kernels: in torch it runs the kernel on copies
    of what it writes to.
    """
    library = torch.library.Library("coil", "FRAGMENT")
    library.define(
        "user_kernel(str kernel, Tensor[] tensors, SymInt[] numbers, SymInt[] grid, int[] written) -> Tensor[]"
    )

    def copy(t):
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t)

    def run(kernel, tensors, numbers, grid, written):
        from .host import user_kernel

        given = [copy(t) if k in written else t for k, t in enumerate(tensors)]
        user_kernel(json.dumps(json.loads(kernel)["program"]))(given, numbers, grid)
        return [given[k] for k in written]

    library.impl("user_kernel", run, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "coil::user_kernel",
        lambda kernel, tensors, numbers, grid, written: [
            torch.empty_strided(tensors[k].shape, tensors[k].stride(), dtype=tensors[k].dtype, device=tensors[k].device)
            for k in written
        ],
        lib=library,
    )
    return library, torch.ops.coil.user_kernel.default


def put_call(exported, node, call):
    """In the place of a node of torch's, one that archives hold."""
    graph = exported.graph
    with graph.inserting_before(node):
        made = graph.call_function(
            operator()[1], (call.definition, call.tensors, call.numbers, call.grid, call.written)
        )
        values = [node.meta["val"][name] for name in call.names]
        made.meta = dict(node.meta) | {"val": values}
        for user in list(node.users):
            place = call.names.index(user.args[1])
            item = graph.call_function(operator_module.getitem, (made, place))
            item.meta = dict(user.meta) | {"val": values[place]}
            user.replace_all_uses_with(item)
            graph.erase_node(user)
            for spec in exported.graph_signature.output_specs:
                if spec.arg.name == user.name:
                    spec.arg.name = item.name
    graph.erase_node(node)
