"""What the nodes of a graph of both directions are: pointwise, views, items; the memory of values, and its bytes."""

import math
import operator

import torch


def value_of(a):
    """What tracing saw of an argument."""
    return a.meta["val"] if isinstance(a, torch.fx.Node) else a


def is_pointwise(node):
    return node.op == "call_function" and torch.Tag.pointwise in getattr(node.target, "tags", ())


def is_view(node):
    """Whether the result, or each of several, lies in the memory of the first operand."""
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(r.alias_info is not None for r in returns)


def is_random(node):
    """Whether a node draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def is_item(node):
    """Whether a node is one of the results of its operand."""
    return node.target is operator.getitem


def memory_of(node):
    """The node whose memory a node's value lies in, through views."""
    while node.op == "call_function" and node.all_input_nodes:
        whole = node.args[0] if is_item(node) else node
        if not is_view(whole):
            break
        node = whole.all_input_nodes[0]
    return node


def owners(graph_module):
    """By node the one whose memory its value lies in; an item's is all of which it is one."""
    owner = {}
    for node in graph_module.graph.nodes:
        lies_in_first = node.op == "call_function" and node.all_input_nodes and (is_view(node) or is_item(node))
        owner[node] = owner[node.all_input_nodes[0]] if lies_in_first else node
    return owner


def bytes_of(value):
    """Of the memory that a value lies in, where dimensions that repeat take nothing."""
    if isinstance(value, torch.Tensor):
        repeats = lambda stride: type(stride) is int and stride == 0
        sizes = (hint(n) for n, stride in zip(value.shape, value.stride()) if not repeats(stride))
        return value.element_size() * math.prod(sizes)
    return sum(map(bytes_of, value)) if isinstance(value, (tuple, list)) else 0


def size_of(node):
    """Bytes of the memory that a node's value takes."""
    return bytes_of(node.meta.get("val"))


def count(value):
    """Elements of a tensor, by hints; none of anything else."""
    return math.prod(map(hint, value.shape)) if isinstance(value, torch.Tensor) else 0


def hint(size):
    return size if type(size) is int else size.node.hint if size.node.hint is not None else 1


def reached(nodes):
    """The nodes, and all whose values are made of theirs; what is written to an input is none of them."""
    found, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [u for u in node.users if u.op != "output" and u.target is not torch.ops.aten.copy_.default]
    return found
