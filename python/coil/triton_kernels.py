"""Kernels that users wrote in Triton, in graphs: each call as one of `coil::user_kernel`, with the compiled kernel."""

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import pathlib
import re

import sympy
import torch
from torch.fx import Node

from . import _native, triton_memory
from .entries import write_file
from .triton_code import Refusal, Signature, compile_kernel, value_of

CALLS = ("triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation")


def is_call(node):
    return isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() in CALLS


def installed(node=None):
    """Triton, or an Error that says what is missing. `node`: a call of a kernel that asks for it."""
    try:
        import triton
    except ImportError as error:
        who = f"the Triton kernel {_name(_kernel_of(node))}" if node else "a user's Triton kernel"
        raise _native.Error(f"{who} is compiled by Triton, which is not installed; pip install triton") from error
    return triton


def _kernel_of(node):
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.get_kernel(node.kwargs["kernel_idx"])


def _name(kernel):
    """`add_kernel (model.py:12)`."""
    function = _function(kernel)
    return f"{function.fn.__name__} ({place(function)})"


def is_triton_op(operator):
    """An operator made by torch.library.triton_op."""
    from torch._library.triton import triton_ops_to_kernels

    return operator._schema.name in triton_ops_to_kernels


def analysed(gm):
    """`analysis` for a graph that has such kernels."""
    modules = [m for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
    called = [n for m in modules for n in m.graph.nodes if n.op == "call_function"]
    kernels = list(filter(is_call, called))
    if kernels or any(
        isinstance(n.target, torch._ops.OpOverload) and n.target.namespace != "aten" and is_triton_op(n.target)
        for n in called
    ):
        return analysis(kernels)
    return contextlib.nullcontext()


_DESCRIPTORS = "has_triton_tensor_descriptor_host_tma"


@contextlib.contextmanager
def analysis(calls=()):
    """While this lasts, torch can find out what kernels write to where there is no GPU, and where calls leave defaults
    out: else it takes them to write to all that they are given. `calls`: those that are known, for the words of an
    Error.
    """
    triton = installed(*calls[:1])
    with _with_defaults(), _with_target(triton):
        yield


@contextlib.contextmanager
def _with_defaults():
    from torch._higher_order_ops import triton_kernel_wrap as wrap

    known = wrap.generate_ttir

    def of_all(kernel, kwargs, descriptors):
        defaults = {p.name: p.default for p in _function(kernel).params if p.has_default}
        return known(kernel, defaults | kwargs, descriptors)

    wrap.generate_ttir = of_all
    try:
        yield
    finally:
        wrap.generate_ttir = known


@contextlib.contextmanager
def _with_target(triton):
    """Torch asks Triton for kernels' IR, and Triton asks a driver what to compile for."""
    driver = triton.runtime.driver
    try:
        driver.active.get_current_target()
    except RuntimeError:
        before, asked = dict(vars(driver)), torch.utils._triton
        known = getattr(asked, _DESCRIPTORS, None)
        driver.set_active(_Described(triton.backends.compiler.GPUTarget("cuda", 90, 32)))
        setattr(asked, _DESCRIPTORS, _has_descriptors)
        try:
            yield
        finally:
            setattr(asked, _DESCRIPTORS, known)
            vars(driver).clear()
            vars(driver).update(before)
        return
    yield


def _has_descriptors():
    """What torch asks of the GPU that is here, and only Triton must have."""
    return importlib.util.find_spec("triton.tools.tensor_descriptor") is not None


class _Described:
    """A driver that knows its target and no more."""

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        return self.target


@dataclasses.dataclass
class Call:
    """What `coil::user_kernel` takes; `names` of the tensors at the places `written`, and those that torch took the
    kernel to write to though it does not, with what it was given for them.
    """

    definition: str
    tensors: list
    numbers: list
    grid: list
    written: list
    memories: list
    names: list
    left: dict

    def arguments(self):
        return self.definition, self.tensors, self.numbers, self.grid, self.written, self.memories


class Compiler:
    """`device`: what a program is compiled for, where its tensors do not tell; `exported`: torch may have looked at the
    graph's kernels without `analysis`.
    """

    def __init__(self, settings=None, cache=None, device=None, exported=False):
        self.settings, self.device, self.exported = settings or {}, device, exported
        self.cache = cache and pathlib.Path(cache) / "triton"

    def call(self, node):
        """A node of torch's graph as a Call. Raises Error with the kernel's name and line."""
        installed(node)
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

        given = node.kwargs
        kernel = kernel_side_table.get_kernel(given["kernel_idx"])
        constants = kernel_side_table.get_constant_args(given["constant_args_idx"])
        told = given.get("tensors_to_clone")
        written = self._written(given) if told is None or self.exported else list(told)
        left = {name: given["kwargs"][name] for name in told or () if name not in written}
        try:
            return _Description(self, kernel, constants, node, [n for n in written if n not in left], left).run()
        except Refusal as error:
            raise _native.Error(f"the Triton kernel {_name(kernel)} {error}") from error

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
        raise Refusal("is compiled for no GPU that is here; say for which with the option cuda.arch")

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
                write_file(file, (hashlib.sha256(text.encode()).hexdigest() + "\n" + text).encode())
            except OSError:
                pass
        return value


def _function(kernel):
    """The jitted function inside decorators."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def place(function):
    """`file.py:12`, where a jitted function is defined."""
    code = function.fn.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


class _Description:
    def __init__(self, compiler, kernel, constants, node, written, left):
        given = node.kwargs
        self.compiler, self.kernel, self.node, self.given = compiler, kernel, node, given
        self.written, self.left = written, left
        self.function = _function(kernel)
        self.arguments = dict(given["kwargs"]) | dict(constants)
        self.descriptors = {}
        for name, (interface, facts) in (given["tma_descriptor_metadata"] or {}).items():
            if interface != "stable":
                raise Refusal(
                    f"takes a descriptor of Triton's old interface (create_1d_tma_descriptor and the like) "
                    f"for `{name}`, which Triton has up to 3.3 alone; make it by TensorDescriptor.from_tensor, "
                    "which it has from 3.4 on"
                )
            self.descriptors[name] = [int(n) for n in facts[0]]
        self.tensors = [v for v in map(value_of, self.arguments.values()) if isinstance(v, torch.Tensor)]

    def run(self):
        self.capability = self.compiler.target(self.tensors)
        configs = getattr(self.kernel, "configs", None)
        if configs is None:
            return self.configured(None, self.given["grid"][0], "")
        if not configs:
            raise Refusal("has no configuration left after pruning")
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
            raise Refusal(str(error)) from error

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
                    raise Refusal(f"has no configuration left after pruning, or none that gives `{p.name}`")
                raise Refusal(f"is called without its argument `{p.name}`")
            value = self.fixed(value)
            if p.is_constexpr and isinstance(value, Node):
                raise Refusal(f"is given a value that only the run tells for `{p.name}`, which is a tl.constexpr")
            out.append((p, value))
        return out

    def fixed(self, value):
        """A float that sizes of inputs tell is a constant, as a guard says from now on; exported programs have none."""
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        seen = value_of(value)
        if not isinstance(seen, torch.SymFloat) or self.compiler.exported or seen.node.shape_env.frozen:
            return value
        return value if free_unbacked_symbols(seen) else float(seen)

    def configured(self, config, grid, note):
        from . import triton_source

        tensors = self.tensors_of(config)
        begin = triton_memory.offsets(self.node, tensors, self.written)
        facts = Signature(self.parameters(config), self.capability, self.descriptors, begin)
        options = _options(config) | ({"debug": True} if getattr(self.function, "debug", None) else {})
        key = triton_source.key(self.function, facts.constants, facts.types, facts.attributes, options, self.capability)
        name = self.function.fn.__name__
        symbol = f"{re.sub('[^A-Za-z0-9_]', '_', name)}_{key[:16]}"
        where = place(self.function) + note
        program = {"name": name, "where": where, "options": options}
        program |= {"tensors": facts.tensor_names(), "numbers": facts.number_names()}
        if facts.descriptors:
            program["descriptors"] = facts.descriptors
        try:
            source, constants = triton_source.program_text(self.function, facts.constants)
            program |= {"source": source, "constants": constants}
        except triton_source.NoText as problem:
            program["problem"] = str(problem)
            if self.capability is None:
                raise Refusal(f"cannot be written as source text, which its interpreter runs: {problem}") from problem
        if self.capability is None:
            code = {"parameters": list(facts.block())}
        else:
            code = self.compiler.cached(
                key, lambda: compile_kernel(self.function, symbol, key, facts, options, self.capability)
            )
        definition = {"symbol": symbol, "name": name, "where": where, "program": program} | code
        places = {n: k for k, n in enumerate(facts.tensor_names())}
        memories, more = triton_memory.memories(self.node, tensors, self.written)
        return Call(
            json.dumps(definition),
            [*tensors.values(), *more],
            [facts.values[n] for n in facts.number_names()],
            list(grid),
            [places[n] for n in self.written],
            memories,
            list(self.written),
            self.left,
        )

    def tensors_of(self, config):
        """Nodes of the tensors that the kernel is given, by parameter in its order."""
        given = {p.name: v for p, v in self.parameters(config) if not p.is_constexpr and isinstance(v, Node)}
        return {name: v for name, v in given.items() if isinstance(value_of(v), torch.Tensor)}


def _hint(number):
    """A size as it was when the graph was traced; what data decides is taken for 4,096, or what bounds leave of it."""
    if type(number) is int:
        return number
    hint = getattr(number.node, "hint", None)
    if hint is not None:
        return int(hint)
    env = number.node.shape_env
    known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val

    def value(symbol):
        if known.get(symbol) is not None:
            return int(known[symbol])
        bounds = env.var_to_range.get(symbol)
        least, most = (bounds.lower, bounds.upper) if bounds is not None else (0, 4096)
        return int(min(max(4096, least), most))

    return int(number.node.expr.xreplace({s: sympy.Integer(value(s)) for s in number.node.expr.free_symbols}))


def _config_text(config):
    return ", ".join(f"{k}={v}" for k, v in config.all_kwargs().items() if v is not None)


def _options(config):
    if config is None:
        return {}
    given = {k: v for k, v in config.all_kwargs().items() if k not in config.kwargs and v is not None}
    return {k: v for k, v in given.items() if k not in ("ir_override", "pre_hook") or v}
