"""New calls in a torch.fx graph, with the metadata that tracing would give them."""

import operator

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true


class Adder:
    """Adds calls to a graph, one behind the other, with what a node that they stand for has in its metadata."""

    def __init__(self, graph, behind, meta):
        self.graph, self.last = graph, behind
        self.meta = {key: value for key, value in meta.items() if key not in ("val", "tensor_meta")}

    def __call__(self, target, *args, **kwargs):
        values, named = torch.fx.node.map_arg((args, kwargs), lambda node: node.meta["val"])
        made = target(*values, **named)
        with self.graph.inserting_after(self.last):
            self.last = self.graph.call_function(target, args, kwargs)
        self.last.meta = dict(self.meta) | {"val": made}
        return self.last


def same(strides, others):
    """Whether they are equal whatever the free sizes are."""
    return all(map(statically_known_true, map(operator.eq, strides, others)))


def dense_order(value):
    """The dimensions from the outermost one in memory to the innermost one, of memory without gaps; else None."""
    dims = range(value.dim())
    for order in ([*dims], [0, *dims[2:], 1], sorted(dims, key=lambda d: (-_hint(value.stride(d)), d))):
        if len(order) != len(dims):
            continue
        expected, step = {}, 1
        for d in reversed(order):
            expected[d], step = step, step * value.shape[d]
        if same(value.stride(), [expected[d] for d in dims]):
            return order
    return None


def _hint(size):
    return size if type(size) is int else size.node.hint if size.node.hint is not None else 0


def sizes_of(call, operand):
    """The sizes of an operand as arguments of calls: numbers, or calls that ask for them."""
    shape = operand.meta["val"].shape
    return [size_of(call, operand, d) for d in range(len(shape))]


def size_of(call, operand, d):
    size = operand.meta["val"].shape[d]
    known = size if type(size) is int else size.node.maybe_as_int()  # a guard may have fixed it since
    return call(torch.ops.aten.sym_size.int, operand, d) if known is None else known


def sized_like(operand, order, call):
    """Zeros in the place of an operand that is only asked how large it is and in which order its dimensions lie."""
    value, sizes = operand.meta["val"], sizes_of(call, operand)
    with value.fake_mode:
        zeros = call(torch.ops.aten.full.default, [sizes[d] for d in order], 0, dtype=value.dtype, device=value.device)
    return call(torch.ops.aten.permute.default, zeros, [order.index(d) for d in range(value.dim())])
