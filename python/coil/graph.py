"""torch.fx graphs, as AOTAutograd makes them, for Coil: node by node, with the metadata that tracing recorded."""

import functools
import itertools
import math
import operator

import sympy
import torch
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2
from torch._higher_order_ops.effects import with_effects
from torch._library.fake_class_registry import FakeScriptObject
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from . import _native, collectives, recurrent, triton_kernels
from ._native import Literal
from .nodes import value_of
from .refusal import refuse
from .writing_graphs import WritingGraphs


@functools.cache
def _literal(value):
    """A dtype, device, memory format or layout; refuses other things by name."""
    match value:
        case torch.dtype():
            return Literal.dtype(str(value).removeprefix("torch."))
        case torch.device():
            return Literal.device(str(value))
        case torch.memory_format():
            return Literal.memory_format(str(value).removeprefix("torch."))
        case torch.layout():
            return Literal.layout(str(value).removeprefix("torch."))
    raise _native.Error(f"an argument of type {type(value).__name__} is not supported")


@functools.cache
def _dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


@functools.cache
def target_name(target, effect=False):
    """`aten.add.Tensor`, `_operator.getitem`, `torch.sym_max`; registers the schema of an operator that Coil has none
    of.
    """
    if isinstance(target, torch._ops.OpOverload):
        name = str(target)
        schema = target._schema
        random = torch.Tag.nondeterministic_seeded in target.tags
        # What returns nothing is called for its effect: a check, mostly.
        effect = effect or schema.is_mutable or not schema.returns or collectives.is_collective(target)
        _native.declare_operator(name, str(schema), random, effect)
        return name
    if isinstance(target, torch._ops.HigherOrderOperator):
        if target.name() not in _HIGHER_ORDER:
            raise _native.Error(f"the higher-order operator {target.name()} is not supported")
        return f"higher_order.{target.name()}"
    return f"{target.__module__}.{target.__name__}"


def _is_read_float(symbol):
    """A float that data tell, as item() reads it."""
    return symbol.name.startswith("zuf")


def _is_narrow(value):
    """Tensors of 8-bit floats, somewhere in a value."""
    if isinstance(value, torch.Tensor):
        return value.dtype.is_floating_point and value.dtype.itemsize == 1
    return isinstance(value, (list, tuple)) and any(map(_is_narrow, value))


def _is_coils_own(operation):
    """An operator that is Coil's to carry out for tensors of every type: the new value of an input, which the program
    writes back, and questions about sizes.
    """
    return operation is torch.ops.aten.copy_.default or str(operation).startswith("aten.sym_")


def _is_complex(value):
    """Complex tensors, somewhere in a value."""
    if isinstance(value, torch.Tensor):
        return value.dtype.is_complex
    return isinstance(value, (list, tuple)) and any(map(_is_complex, value))


def all_nodes(gm):
    """Those of a graph and of the graphs that it calls."""
    return [n for m in gm.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes]


def holds_complex(gm):
    """Whether a graph, or one that it calls, has complex numbers in it."""
    return any(_is_complex(n.meta.get("val")) or _has_complex(n.args) for n in all_nodes(gm))


def _transforms_for_torch(node):
    """Whether a node is a Fourier transform of a tensor on a GPU for which Coil has products of matrices alone, and
    torch a library: of free sizes, or of complex numbers in 16 bits.
    """
    result = node.meta.get("val")
    if "_fft_" not in str(node.target) or not isinstance(result, torch.Tensor) or result.device.type == "cpu":
        return False
    x = node.args[0].meta["val"]
    lengths = [t.shape[d] for t in (x, result) for d in node.args[1]]
    return torch.complex32 in (x.dtype, result.dtype) or not all(isinstance(n, int) for n in lengths)


def transforms_on_gpu(gm):
    """Whether a graph, or one that it calls, has Fourier transforms that are rather torch's."""
    return any(_transforms_for_torch(n) for n in all_nodes(gm))


def _is_view(operation):
    """An operator whose results see the memory that it is given, and reads no element."""
    returns = operation._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def views_in_results(gm, name):
    """Whether results of the graph are views that the operator of this name makes, or views of such."""

    def is_one(node):
        return isinstance(node.target, torch._ops.OpOverload) and _is_view(node.target)

    reached = [*gm.graph.output_node().all_input_nodes]
    while reached:
        node = reached.pop()
        if is_one(node) or node.target is operator.getitem:
            if str(node.target) == name:
                return True
            reached += node.all_input_nodes[:1]
    return False


def _is_opaque(value):
    """An object that only operators look into, such as the mesh of a DTensor or a process group."""
    return isinstance(value, (FakeScriptObject, torch.ScriptObject))


def _is_exact(value):
    """Tensors of doubles, or of complex numbers made of them."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)


# Operators that take graphs: branches, loops, and regions that Coil puts in the place of their calls.
_HIGHER_ORDER = {
    *("cond", "while_loop", "while_loop_stack_output", "scan", "map_impl", "associative_scan"),
    *("invoke_subgraph", "wrap_with_set_grad_enabled", "wrap_with_autocast"),
}


def _has_complex(args):
    """Complex numbers among arguments."""
    return any(isinstance(a, complex) or (isinstance(a, (list, tuple)) and _has_complex(a)) for a in args)


# Random operators that look at their data first, and raise.
_CHECKED = {"aten.multinomial.default"}

# Kernels that tracing on a GPU picks for attention, with where their arguments have the mask, the rate of dropout and
# whether it is causal.
_ATTENTION = {
    "aten._scaled_dot_product_flash_attention.default": (None, 3, 4),
    "aten._scaled_dot_product_efficient_attention.default": (3, 5, 6),
    "aten._scaled_dot_product_cudnn_attention.default": (3, 5, 6),
}


def _plain_attention(node):
    """(query, key, value, mask, causal, scale) when a node is such a kernel of which nothing but the output is wanted;
    else None.
    """
    places = _ATTENTION.get(str(node.target))
    if places is None or any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
        return None
    mask, rate, causal = (
        node.args[p] if p is not None and p < len(node.args) else default
        for p, default in zip(places, (None, 0.0, False))
    )
    return None if rate else (*node.args[:3], mask, causal, node.kwargs.get("scale"))


def _plain_state(state):
    """The state of a generator with its number of bytes, which tracing makes a symbol that nothing defines."""
    bytes = state.shape[0] if type(state.shape[0]) is int else state.shape[0].node.hint
    return torch.empty(bytes, dtype=state.dtype, device="cpu")


class Translator:
    """`frozen`: tensors by placeholder that become constants of the program; the input stays one of the graph's, and is
    not read. `hand_over`: operators on 8-bit floats are torch's to carry out, and with `hand_over_complex` those on
    complex numbers; else Coil compiles what it can of them. `fallback_random`: so are all that draw random numbers.
    `strides`: by placeholder, those of memory that does not come as the graph has it. `free`: positions of results
    whose strides Coil may choose. `kernels`: compiles what users wrote in Triton. `assumed`: conditions on sizes, as
    sympy has them, that hold in every call. `taker`: says which exchanges the program carries out (exchanges.Taker);
    else torch does. `handed`: names of operators that are torch's to carry out.
    """

    def __init__(
        self,
        gm,
        name,
        frozen=None,
        hand_over=True,
        fallback_random=False,
        strides=None,
        free=(),
        kernels=None,
        assumed=(),
        taker=None,
        handed=(),
        hand_over_complex=False,
    ):
        self.gm = gm
        self.taker = taker
        self.taken = set()  # nodes of exchanges that the program carries out
        self.kernels = kernels or triton_kernels.Compiler()
        self.native = _native.TracedGraph(name)
        self.frozen = frozen or {}
        self.hand_over = hand_over
        self.hand_over_complex = hand_over_complex
        self.fallback_random = fallback_random
        self.strides = strides or {}
        self.free = free
        self.assumed = assumed
        self.handed = handed
        self.nodes = {}
        self.effects = {}  # node of with_effects: (the token as it came, whether the operator gives several results)
        self.inside = False  # a graph that an operator takes is walked, not the program's own
        self.written = {}  # of the graph that is walked: placeholders that it writes to, with what it leaves in them
        self.walked = set()  # names of such graphs in the one that is walked
        # node of run_and_save_rng_state, or of its second item: (what was made of it, whether the operator gives
        # several results)
        self.saving = {}
        self.objects = set()  # nodes that are no values of the program, but may be results of the graph
        self.symbols = set()
        self.numbers = itertools.count()
        self.exact = False  # the call that is walked has numbers of 64 bits

    def run(self, order=None):
        """`order`: of the placeholders, by their positions."""
        nodes = list(self.gm.graph.nodes)
        if order:
            placeholders = [node for node in nodes if node.op == "placeholder"]
            nodes = [*(placeholders[i] for i in order), *(node for node in nodes if node.op != "placeholder")]
        if not self.inside and collectives.waits_for_inputs(self.gm):
            self.native.before_calls(collectives.wait_for_inputs)
        for node in nodes:
            getattr(self, node.op)(node)
        if not self.inside:
            for condition in self.assumed:
                if condition.free_symbols <= self.symbols:
                    self.native.assume(sympy.srepr(condition), "an option asked for it")
        return self.native

    # --- symbolic numbers

    def expression(self, number):
        """A SymInt, SymBool or the like as an int or as `srepr` text."""
        expr = number.node.expr
        if expr.is_Integer:
            return int(expr)
        for symbol in expr.free_symbols:
            if symbol not in self.symbols:
                self.symbols.add(symbol)
                self.declare(symbol, number.node.shape_env)
        return sympy.srepr(expr)

    def declare(self, symbol, env):
        bounds = env.var_to_range.get(symbol)

        def bound(value):
            return None if value is None or not value.is_Integer or not math.isfinite(value) else int(value)

        hint = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
        unbacked = torch.fx.experimental.symbolic_shapes.free_unbacked_symbols(symbol)
        value = None if _is_read_float(symbol) else hint.get(symbol)
        self.native.symbol(
            symbol.name,
            None if value is None else int(value),
            bound(bounds and bounds.lower),
            bound(bounds and bounds.upper),
            bool(unbacked),
        )

    def size(self, s):
        return s if type(s) is int else self.expression(s)

    # --- metadata

    def tensor(self, t):
        if t.layout is not torch.strided or t.is_quantized:
            raise _native.Error(f"{t.layout} tensors are not supported")
        return (
            _dtype_name(t.dtype),
            tuple(map(self.size, t.shape)),
            tuple(map(self.size, t.stride())),
            self.size(t.storage_offset()),
            str(t.device),
        )

    def meta(self, value, name):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.meta(v, name) for v in value]
        if isinstance(value, torch.SymInt):
            return self.expression(value)
        if isinstance(value, torch.SymBool):
            return {
                "bool": str(self.expression(value)) if not value.node.expr.is_Boolean else sympy.srepr(value.node.expr)
            }
        if isinstance(value, torch.SymFloat):
            # Where sizes, or floats read from data, tell the float, say how.
            told = all(symbol.is_integer or _is_read_float(symbol) for symbol in value.node.expr.free_symbols)
            return {"float": name} | ({"value": self.expression(value)} if told else {})
        if value is None or isinstance(value, (int, float, bool)):
            return value
        raise _native.Error(f"%{name}: a value of type {type(value).__name__} is not supported")

    # --- nodes

    def argument(self, a):
        if isinstance(a, Node):
            return self.nodes[a]
        if a is None or isinstance(a, (bool, int, float, str)):
            return a
        if isinstance(a, complex):
            return self.complex_number(a)
        if isinstance(a, (list, tuple)):
            return [self.argument(x) for x in a]
        if isinstance(a, torch.SymInt):
            number = self.expression(a)
            return number if type(number) is int else self.native.number(number)
        if isinstance(a, (torch.SymBool, torch.SymFloat)):
            raise _native.Error("a symbolic number that no node computes is not supported")
        return _literal(a)

    def complex_number(self, value):
        """A constant of no dimensions, which counts as a number beside tensors that have some. It is no less exact than
        the call's tensors, and no wider: beside others without dimensions its type counts.
        """
        with _disable_current_modes():
            held = torch.tensor(value, dtype=torch.complex128 if self.exact else torch.complex64)
            return self.native.constant(f"complex_number_{next(self.numbers)}", held, self.tensor(held))

    def placeholder(self, node):
        if is_token(node):
            self.nodes[node] = self.native.placeholder(node.name, None)
        elif _is_opaque(node.meta.get("val")):
            self.objects.add(node)
            self.nodes[node] = self.native.placeholder(node.name, None)
        elif self.inside:
            self.nodes[node] = self.native.placeholder(node.name, self.meta(node.meta["val"], node.name))
        elif node.name in self.frozen:
            with _disable_current_modes():
                self.nodes[node] = self.native.frozen(
                    node.name, self.frozen[node.name].detach(), self.tensor(node.meta["val"])
                )
        else:
            value = node.meta.get("val")
            # Dynamo's guards tell a tensor that is put off to negate from one that is not; gradients, which autograd
            # makes as it likes, have none.
            lazy = isinstance(value, torch.Tensor) and (
                value.is_neg() or value.is_conj() or node.name.startswith("tangents_")
            )
            self.nodes[node] = self.native.placeholder(
                node.name, self.meta(value, node.name), self.strides.get(node.name), lazy, node.meta.get("goes")
            )

    def get_attr(self, node):
        value = functools.reduce(getattr, node.target.split("."), self.gm)
        if all(
            user.target is auto_functionalized_v2 and isinstance(user.args[0], torch._ops.HigherOrderOperator)
            for user in node.users
        ):
            return  # told there
        if isinstance(value, torch.fx.GraphModule):
            self.nodes[node] = self.nested(node.target.replace(".", "_"), value)
            return
        if _is_opaque(value):
            self.objects.add(node)
            self.nodes[node] = getattr(value, "real_obj", value)
            return
        if not isinstance(value, torch.Tensor):
            raise _native.Error(f"the attribute {node.target} is a {type(value).__name__}, which is not supported")
        with _disable_current_modes():  # AOTAutograd compiles under a fake mode; this tensor is real
            self.nodes[node] = self.native.constant(
                node.name, value.detach().resolve_neg().resolve_conj(), self.tensor(value)
            )

    def nested(self, name, gm, written=(), order=None):
        """A graph that an operator takes: walked once where it stands, however many calls there are. What it leaves in
        the placeholders at positions `written` are further results.
        """
        if name not in self.walked:
            self.walked.add(name)
            outside = self.gm, self.inside, self.walked, self.written
            self.gm, self.inside, self.walked = gm, True, set()
            placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
            self.written = {placeholders[i]: placeholders[i] for i in written}
            self.native.begin_graph(name)
            self.run(order)
            self.gm, self.inside, self.walked, self.written = outside
        return Literal.graph(name)

    def attention(self, node, query, key, value, mask, causal, scale):
        meta = self.tensor(node.meta["val"][0])
        args = [self.argument(a) for a in (query, key, value, mask, 0.0, causal)]
        shares_keys = value_of(query).shape[1] != value_of(key).shape[1]
        made = self.native.call(
            "aten.scaled_dot_product_attention.default",
            args,
            {"scale": scale, "enable_gqa": shares_keys},
            node.name,
            meta,
            node.meta.get("stack_trace") or "",
        )
        for item in node.users:
            self.nodes[item] = made

    def call_function(self, node):
        if node in self.nodes:
            return  # told with the node that it is a result of
        if node.target is torch.ops.aten.copy_.default and node.args[0] in self.written and not node.users:
            self.written[node.args[0]] = node.args[1]
            return
        if plain := _plain_attention(node):
            return self.attention(node, *plain)
        if collectives.is_wait(node.target):
            return self.wait(node)
        if node.target is with_effects:
            return self.effectful(node)
        if node.target is auto_functionalized_v2:
            return self.writing(node, *node.args)
        if triton_kernels.is_call(node):
            return self.user_kernel(node)
        if node.target is run_and_save_rng_state:
            return self.save_random(node)
        if node.target is run_with_rng_state:
            return self.repeat_random(node)
        if node.target is operator.getitem and node.args[0] in self.saving:
            return self.saved_item(node, *node.args)
        if node.target is operator.getitem and node.args[0] in self.effects:
            return self.result_of_effect(node, *node.args)
        self.nodes[node] = self.call(node, node.target, node.args, node.meta.get("val"))

    def user_kernel(self, node):
        """A kernel that the user wrote: what it writes to comes as results; where torch's graph writes in place, it is
        written back.
        """
        call = self.kernels.call(node)
        where = node.meta.get("stack_trace") or ""
        metas = [self.fresh(call.tensors[k].meta["val"]) for k in call.written]
        made = self.native.call(
            "coil.user_kernel.default",
            [*map(self.argument, call.arguments())],
            {},
            node.name,
            metas,
            where,
        )
        items = {
            name: self.native.call("_operator.getitem", [made, i], {}, f"{node.name}_{name}", meta, "")
            for i, (name, meta) in enumerate(zip(call.names, metas))
        }
        items |= {name: self.nodes[given] for name, given in call.left.items()}
        if node.target.name() == "triton_kernel_wrapper_functional":
            for user in node.users:
                self.nodes[user] = items[user.args[1]]
            return
        for k, name in zip(call.written, call.names):
            target = call.tensors[k]
            self.native.call(
                "aten.copy_.default",
                [self.nodes[target], items[name], False],
                {},
                f"{node.name}_{name}_copy",
                self.meta(target.meta["val"], node.name),
                where,
            )

    def fresh(self, t):
        """The metadata of memory of its own with a tensor's layout."""
        dtype, sizes, strides, _, device = self.tensor(t)
        return dtype, sizes, strides, 0, device

    def wait(self, node):
        """The tensor that is waited for, which has its values by now (collectives.py) unless the program exchanges
        them itself.
        """
        tensor, value = node.args[0], node.meta["val"]
        if collectives.source(tensor) in self.taken:
            self.nodes[node] = self.call(node, node.target, node.args, value)
            return
        made = self.nodes[tensor]
        if self.tensor(value_of(tensor)) != self.tensor(value):  # eager's gives back the tensor as it lies in memory
            made = self.native.call(
                "aten.clone.default",
                [made],
                {},
                node.name,
                self.meta(value, node.name),
                node.meta.get("stack_trace") or "",
            )
        self.nodes[node] = made

    def call(self, node, operation, args, value):
        collectives.refuse_point_to_point(node)
        if operation is torch.ops.aten._efficientzerotensor.default:
            operation = torch.ops.aten.zeros.default  # with memory, which results must have
        operation = recurrent.OPERATORS.get(operation, operation)
        if (
            self.taker
            and operation is node.target
            and str(operation) not in self.handed
            and (taken := self.taker(node, operation))
        ):
            self.taken.add(node)
            args = taken
        for given in self.objects.intersection(node.all_input_nodes):
            refuse(node, f"takes an object, %{given.name}, which is not supported")
        self.exact = (
            torch.get_default_dtype() is torch.float64
            or _is_exact(value)
            or any(_is_exact(n.meta.get("val")) for n in node.all_input_nodes)
        )
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
        meta = self.meta(value, node.name)
        target = target_name(operation, node.target is with_effects)
        if (
            self.hand_over
            and isinstance(operation, torch._ops.OpOverload)
            and not _is_coils_own(operation)
            and self.is_foreign(node, operation, value, args)
        ):
            target = "host." + target  # torch's to carry out, whatever Coil has of that name
        elif (
            self.fallback_random
            and isinstance(operation, torch._ops.OpOverload)
            and torch.Tag.nondeterministic_seeded in operation.tags
        ):
            target = "host." + target
            _native.leave_to_host(target)
        elif target in self.handed or (
            self.hand_over and node not in self.taken and (target in _CHECKED or collectives.is_collective(operation))
        ):
            target = "host." + target
        return self.native.call(
            target, self.argument(args), kwargs, node.name, meta, node.meta.get("stack_trace") or ""
        )

    def is_foreign(self, node, operation, value, args):
        """Whether a call takes or gives tensors of a type that Coil has no kernels for."""
        values = [value, *map(value_of, node.all_input_nodes)]
        if _is_complex(values) or _has_complex((*args, *node.kwargs.values())):
            return self.hand_over_complex
        return _is_narrow(values) and not _is_view(operation)

    def host_random(self, what, node, args, value):
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
        return self.native.call(
            "host.random." + what,
            args,
            kwargs,
            node.name,
            self.meta(value, node.name),
            node.meta.get("stack_trace") or "",
        )

    def save_random(self, node):
        """A draw of a forward graph that the backward graph repeats (activation checkpointing): torch carries out both,
        from the state that the first leaves. Gives the state, then the operator's results.
        """
        operation, *args = node.args
        # The partitioner tells its items alone.
        state, value = ({user.args[1]: user.meta["val"] for user in node.users}[k] for k in (0, 1))
        results = list(value) if isinstance(value, (list, tuple)) else [value]
        self.saving[node] = (
            self.host_random(
                "save", node, [str(operation), *map(self.argument, args)], [_plain_state(state), *results]
            ),
            isinstance(value, (list, tuple)),
        )

    def repeat_random(self, node):
        state, operation, *args = node.args
        if "val" not in node.meta:  # the partitioner leaves it out
            given = torch.fx.node.map_arg((args, node.kwargs), lambda n: n.meta["val"])
            with torch._guards.detect_fake_mode(
                [n.meta.get("val") for n in self.gm.graph.nodes if n.op == "placeholder"]
            ):
                node.meta["val"] = operation(*given[0], **given[1])
        value = node.meta["val"]
        results = list(value) if isinstance(value, (list, tuple)) else value
        self.nodes[node] = self.host_random(
            "repeat", node, [self.nodes[state], str(operation), *map(self.argument, args)], results
        )

    def saved_item(self, node, saving, index):
        made, several = self.saving[saving]
        if several and saving.target is run_and_save_rng_state and index == 1:
            self.saving[node] = made, several
            return
        at = index if saving.target is run_and_save_rng_state else index + 1
        self.nodes[node] = self.native.call(
            "_operator.getitem",
            [made, at],
            {},
            node.name,
            self.meta(_plain_state(node.meta["val"]) if at == 0 else node.meta["val"], node.name),
            "",
        )

    def effectful(self, node):
        """`with_effects(token, op, ...)` is the operator itself, in program order; its token is handed on as it
        came.
        """
        token, operation, *args = node.args
        _, *results = node.meta["val"]
        several = (
            len(operation._schema.returns) > 1 if isinstance(operation, torch._ops.OpOverload) else len(results) > 1
        )
        self.nodes[node] = self.call(node, operation, args, results if several else results[0] if results else None)
        self.effects[node] = (self.nodes[token], several)

    def writing(self, node, operation):
        """An operator that writes to its arguments, as torch's functionalization wraps it; Coil's passes take the
        wrapping off.
        """
        if isinstance(operation, torch._ops.HigherOrderOperator):
            WritingGraphs(self, node, operation).run()
            return
        kwargs = {k: self.argument(v) for k, v in node.kwargs.items()}
        meta = self.meta(node.meta["val"], node.name)
        target = target_name(operation)
        if self.hand_over and collectives.is_collective(operation):
            _native.leave_to_host(target)
        self.nodes[node] = self.native.call(
            "higher_order.auto_functionalized_v2",
            [target],
            kwargs,
            node.name,
            meta,
            node.meta.get("stack_trace") or "",
        )

    def result_of_effect(self, node, effect, index):
        token, several = self.effects[effect]
        if index == 0:
            self.nodes[node] = token
        elif not several:
            self.nodes[node] = self.nodes[effect]
        else:
            self.nodes[node] = self.native.call(
                "_operator.getitem",
                [self.nodes[effect], index - 1],
                {},
                node.name,
                self.meta(node.meta.get("val"), node.name),
                "",
            )

    def output(self, node):
        results = node.args[0]
        bare = not isinstance(results, (list, tuple))
        values = [self.argument(a) for a in ([results] if bare else results)]
        if self.inside:
            self.native.end_graph([*values, *(self.nodes[n] for n in self.written.values())], bare)
        else:
            self.native.output(values, set(self.free))


def is_token(node):
    """A placeholder by which AOTAutograd orders operators with effects; nothing comes in by it when the graph is
    called.
    """
    return node.op == "placeholder" and any(user.target is with_effects and user.args[0] is node for user in node.users)


def translate(gm, name="main", frozen=None, hand_over=True, fallback_random=False, **more):
    """The native graph of a module whose nodes carry `meta["val"]`. Raises coil.Error naming what Coil has no form
    for. The arguments are Translator's.
    """
    return Translator(gm, name, frozen, hand_over, fallback_random, **more).run()
