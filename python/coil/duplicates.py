"""Values of a graph that are computed twice, before torch's partitioner chooses among them. Its own pass does the same,
but brings half of Inductor into the process, which takes as long as the division of a small model.
"""

import numbers
import operator

import torch

aten = torch.ops.aten

# Memory that nobody has written to yet.
_UNWRITTEN = {
    aten.empty,
    aten.empty_like,
    aten.empty_strided,
    aten.new_empty,
    aten.new_empty_strided,
    aten.empty_permuted,
}


def share(graph):
    """What an operator gives of the same operands is computed once, between two calls that write to memory. Results
    keep memory of their own.
    """
    seen = {}
    apart = _memory_of(graph.output_node().all_input_nodes)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _may_write(node):
            seen.clear()
        elif not _memory_of([node]) & apart and (key := _key(node)) is not None:
            first = seen.setdefault(key, node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)


def _memory_of(nodes):
    """Of the tensors among the values of nodes."""
    found = set()
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            try:
                found.add(value.untyped_storage()._cdata)
            except NotImplementedError:
                pass  # it has no memory
    return found


def _is_on_numbers(target):
    return getattr(target, "__module__", None) in (operator.__name__, "_operator", "math") or target in (
        torch.sym_float,
        torch.sym_int,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
    )


def _may_write(node):
    """Of operators of higher order nobody says."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return not _is_on_numbers(node.target)


def _key(node):
    """Equal for calls that give the same; None for those that may not."""
    if isinstance(node.target, torch._ops.OpOverload):
        is_random = torch.Tag.nondeterministic_seeded in node.target.tags
        if is_random or node.target.overloadpacket in _UNWRITTEN:
            return None
    if _tells_size(node.meta.get("val")):
        return None
    try:
        key = node.target, _frozen(node.args), _frozen(node.kwargs)
        hash(key)
    except TypeError:
        return None
    return key


def _tells_size(value):
    """Whether data say a number that sizes behind it are made of."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and bool(free_unbacked_symbols(value))


def _frozen(argument):
    """Apart for numbers that are equal and not the same (1 and 1.0, 0.0 and -0.0)."""
    if isinstance(argument, tuple | list):
        return type(argument).__name__, *map(_frozen, argument)
    if isinstance(argument, dict):
        return tuple((name, _frozen(value)) for name, value in argument.items())
    if isinstance(argument, slice):
        return "slice", *map(_frozen, (argument.start, argument.stop, argument.step))
    if isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool):
        return type(argument), argument.node
    if isinstance(argument, numbers.Number):
        return type(argument), repr(argument)
    return argument
