"""Operands of products that gradients compute again: activations of what the gradients read in any case. The
partitioner would keep both, since a product reads the one and a loop the other. In the backward graph the loop makes
the one beside its own result, for a pass over memory more.
"""

import collections
import functools
import math
import operator

import torch
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten

_PRODUCTS = {
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.convolution_backward.default,
}
_BY_ELEMENT = {aten._to_copy.default, aten.clone.default, aten.expand.default}
# Multiplications of each element in the product, for which writing it once more is little.
_LEAST_ON_CPU = 64
_LEAST = 768
_MOST_STEPS = 16


def compute_again(joint, backward, is_pointwise, is_view):
    """`backward`: the nodes of that direction."""
    is_view = functools.partial(_is_view_of_one, is_view)
    read = _read_by_loops(backward, is_view)
    made, through = collections.Counter(), collections.Counter()
    for node in read:
        root, between = _root(node, is_pointwise, is_view)
        if root is not None and root not in backward:
            made[root] += 1
            through.update((root, step) for step in between)
    for product in backward:
        if product.target not in _PRODUCTS:
            continue
        for operand in product.all_input_nodes:
            is_value = isinstance(operand.meta.get("val"), torch.Tensor) and operand.op == "call_function"
            if operand in backward or not is_value or not _is_worth_it(product, operand):
                continue
            value = operand
            while is_view(value):
                value = value.all_input_nodes[0]
            # What loops read of the value itself asks for nothing beside it.
            is_kept = lambda node, value=value: node in read or made[node] > through[node, value]
            for step in _steps(operand, is_kept, is_pointwise, is_view) or ():
                step.meta["recompute"], step.meta["again"] = CheckpointPolicy.MUST_RECOMPUTE, True


def forget(joint):
    """What was noted here is the partitioner's to decide again. Whether anything was."""
    noted = [node for node in joint.graph.nodes if node.meta.pop("again", False)]
    for node in noted:
        del node.meta["recompute"]
    return bool(noted)


def _is_view_of_one(is_view, node):
    """One of several results is as it is: who would make it again makes all of them."""
    return node.target is not operator.getitem and is_view(node)


def _read_by_loops(backward, is_view):
    """Tensors of the forward direction that the backward one reads otherwise than by products."""
    found = set()
    for node in backward:
        if node.target in _PRODUCTS or node.op == "output":
            continue
        for value in node.all_input_nodes:
            while value not in backward and isinstance(value.meta.get("val"), torch.Tensor) and value not in found:
                found.add(value)
                if is_view(value):
                    value = value.all_input_nodes[0]
    return found


def _root(value, is_pointwise, is_view):
    """The one call as large that a value is made of element by element, which then is as good to keep, and the calls
    between; None, and none, where there are several or it is made otherwise.
    """
    most, seen, waiting, roots = _count(value.meta["val"]), set(), [value], set()
    while waiting:
        node = waiting.pop()
        tensor = node.meta.get("val")
        if node in seen or not isinstance(tensor, torch.Tensor) or _count(tensor) * 8 <= most:
            continue
        seen.add(node)
        if node.op == "call_function" and (is_pointwise(node) or is_view(node) or node.target in _BY_ELEMENT):
            waiting += node.all_input_nodes
        else:
            roots.add(node)
        if len(seen) > _MOST_STEPS or len(roots) > 1:
            return None, ()
    return next(((root, seen) for root in roots if root.op == "call_function"), (None, ()))


def _is_worth_it(product, operand):
    if operand.meta["val"].device.type == "cpu":
        return _intensity(product, operand) >= _LEAST_ON_CPU
    # In front of convolutions there are mostly norms, which take a pass of their own there.
    return product.target is not aten.convolution_backward.default and _intensity(product, operand) >= _LEAST


def _intensity(product, operand):
    """How often the product multiplies each element of the operand; by hints."""
    if product.target is aten.convolution_backward.default:
        gradient, _, weight = (node.meta["val"] for node in product.args[:3])
        return _count(gradient) * _count(weight) / max(1, _count(operand.meta["val"]) * _hint(weight.shape[0]))
    a, b = (node.meta["val"] for node in product.args[-2:])
    return _count(a) * _hint(b.shape[-1]) / max(1, _count(operand.meta["val"]))


def _count(tensor):
    return math.prod(map(_hint, tensor.shape))


def _hint(size):
    return size if type(size) is int else size.node.hint or 1


def _steps(value, is_kept, is_pointwise, is_view):
    """The calls that make a value of what the backward direction reads by loops; None where something else as large is
    needed, something wider, or nothing of that kind. What loops read and can make of other things that they read is
    made again as well.
    """
    most, width = _count(value.meta["val"]), value.meta["val"].element_size()

    def below(node):
        """The calls for an operand, and whether they come to something large that loops read; None: they do not."""
        tensor = node.meta.get("val")
        if node.op == "placeholder" or not isinstance(tensor, torch.Tensor):
            return [], False
        is_large = _count(tensor) * 8 > most
        made = made_of(node) if is_pointwise(node) or is_view(node) or node.target in _BY_ELEMENT else None
        if is_kept(node):
            again = made if made and made[1] else ([], is_large)
            return None if is_large and not again[0] and tensor.element_size() > width else again
        return made if made or is_large else ([], False)

    def made_of(node):
        steps.append(node)
        if "recompute" in node.meta or len(steps) > _MOST_STEPS:
            return None
        parts = [below(operand) for operand in node.all_input_nodes]
        if None in parts:
            return None
        return [node, *(step for part in parts for step in part[0])], any(part[1] for part in parts)

    steps = []
    found = None if is_kept(value) or not (is_pointwise(value) or is_view(value)) else made_of(value)
    return found[0] if found and found[1] else None
