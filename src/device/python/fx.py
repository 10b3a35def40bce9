"""What FX graphs call (torch operators, which fake tensors and proxies take as well), and the graph being written."""

import contextlib
import itertools
import json
import operator
import sys
import types

import torch

from .failures import check_failures, new_failures, status_of
from .program import SCHEMAS, TORCH_OPS
from .tensors import bits_of_float, float_of_bits, lay_out, take, write_back

# @piece fx
# ---- What graphs call: torch operators, which fake tensors and proxies can take as well ----


def operators(**calls):
    """Defines torch.ops.coil_wrapper, each operator once in a process; gives the table of kernels that it looks
    into. `calls`: for each type of device what a call site of a library operation is there."""
    if "_coil_wrapper" not in sys.modules:
        shared = sys.modules["_coil_wrapper"] = types.ModuleType("_coil_wrapper")
        shared.kernels, shared.libraries, shared.defined = {}, {}, set()
        shared.library = torch.library.Library("coil_wrapper", "DEF")
    shared = sys.modules["_coil_wrapper"]
    for device, call in calls.items():
        known = shared.libraries.setdefault(device, (call, TORCH_OPS, {}))[1]
        known.update({op: run for op, run in TORCH_OPS.items() if op not in known})

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

    def maps_of(numbers):
        """Descriptions of tensors, as launches of kernels take them, from their numbers one after another."""
        numbers = iter(numbers)
        for buffer in numbers:
            offset, element, swizzle, rank = (next(numbers) for _ in range(4))
            sizes, strides, box = ([next(numbers) for _ in range(rank)] for _ in range(3))
            yield buffer, offset, sizes, strides, element, box, swizzle

    def launch(name, reads, writes, scalars, grid, block, shared_bytes=0, failures=None, site=0, maps=()):
        """The same on a GPU."""
        run, written = shared.kernels[name]
        sides = (iter(reads), iter(writes))
        run(
            [next(sides[w]) for w in written],
            scalars,
            grid,
            block,
            shared_bytes,
            0 if failures is None else status_of(failures, site),
            list(maps_of(maps)),
        )

    def user_kernel(name, reads, writes, numbers, grid, failure="", failures=None, site=0):
        run = shared.kernels[name]
        sides = (iter(reads), iter(writes))
        status = failure if failures is None else status_of(failures, site)
        run([next(sides[w]) for w in run.written], numbers, grid, status)

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
    define(
        "lay_out",
        lambda t, name, dtype, sizes, strides, device=None: lay_out(
            name, take(name, t, dtype, len(sizes), on(device)), sizes, strides
        ),
    )
    define("write_back", write_back, nothing)
    define("delete", nothing)
    define("launch", launch, nothing)
    define("user_kernel", user_kernel, nothing)
    define(
        "new_failures",
        lambda like, count: new_failures(count, like.device),
        lambda like, count: like.new_empty(5 * count, dtype=torch.int64),
    )
    define("check_failures", check_failures, nothing)
    for name in ("delete", "library", "launch", "user_kernel", "check_failures"):  # what stays though nothing reads it
        torch.fx.node.has_side_effect(getattr(torch.ops.coil_wrapper, name).default)
    return shared.kernels


def typed(node, type):
    """What is known of the node's value, in the words of coil's text form: `f32[s0, 16]`."""
    if type:
        node.meta["type"] = type
    return node


def split_parts(module):
    """A module of load() with each part that a graph of a device can hold as a module of its own, `submod_part_0` and
    so on, which asks nothing of the host."""
    from torch.fx.passes.split_module import split_module

    between = itertools.count()
    last = [None, None]  # the part of the node before, and the name of where that lies

    def place(node):
        part = node.meta.get("part")
        if last[1] is None or part != last[0]:
            last[:] = part, f"rest_{next(between)}" if part is None else f"part_{part}"
        return last[1]

    return split_module(module, None, place, keep_original_order=True)


class Block:
    """A graph inside another, as one side of a branch or one turn of a loop. What it uses of the graphs around it
    becomes its operands; it gives its results by writing to them."""

    def __init__(self, program, carried=()):
        self.program, self.graph, self.around, self.operands = (
            program,
            torch.fx.Graph(),
            program.stack[-1] if program.stack else None,
            {},
        )
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
        """Placeholders in the order that the call has; the graph becomes a module of the program's, of which the node
        is returned."""
        for node in reversed([*self.carried, *map(self.own, operands)]):
            if node is not (first := next(iter(self.graph.nodes))):
                first.prepend(node)
        self.graph.output(results)
        self.program.root.add_module(name, torch.fx.GraphModule(self.program.root, self.graph))
        return self.program.stack[-1].graph.get_attr(name)


class Program:
    """The graph being written, and what belongs to it."""

    def __init__(self):
        self.root, self.stack, self.part = torch.nn.Module(), [], None
        self.stack.append(Block(self))
        self.graph = self.stack[0].graph

    def node(self, name, target, *args, type=None, origins=None, **kwargs):
        args, kwargs = torch.fx.node.map_arg((args, kwargs), self.stack[-1].own)
        made = self.stack[-1].graph.create_node("call_function", target, args, kwargs, name)
        if origins:
            made.meta["origins"] = origins
        if self.part is not None:
            made.meta["part"] = self.part
        return typed(made, type)

    def branch(self, name, condition, yes, no=None, gives=()):
        """Nodes for what both sides give: names and types."""
        no = no or Block(self)
        operands = list({**yes.operands, **no.operands})
        made = self.node(
            name,
            torch.ops.higher_order.cond,
            condition,
            yes.finish(name + "_yes", operands, yes.results),
            no.finish(name + "_no", operands, no.results),
            tuple(operands),
            type=f"[{', '.join(type for _, type in gives)}]" if gives else None,
        )
        return [self.node(given, operator.getitem, made, k, type=type) for k, (given, type) in enumerate(gives)]

    def turn(self, counter, type, more):
        """A loop's body; it counts its turns. Types of its counter and of what says whether it goes on."""
        return Block(self, ((counter, type), ("more", more)))

    def end_turn(self, turn, more, extent):
        """Written at the body's end: what the next turn begins with."""
        count = self.node("next", operator.add, turn.carried[0], 1)
        below = True if extent is None else self.node("below", operator.lt, count, extent)
        turn.results = (
            count,
            below if more is True else more if below is True else self.node("more", operator.and_, more, below),
        )

    def loop(self, name, turn, extent):
        operands, first = list(turn.operands), True if extent is None else self.node("below", operator.lt, 0, extent)
        test = Block(self, [(name, node.meta.get("type")) for name, node in zip(("counter", "more"), turn.carried)])
        self.node(
            name,
            torch.ops.higher_order.while_loop,
            test.finish(name + "_test", operands, test.carried[1]),
            turn.finish(name + "_turn", operands, turn.results),
            (0, first),
            tuple(operands),
        )
