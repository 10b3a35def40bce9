"""Operands of products that gradients compute again: activations of what the gradients read in any case. The
partitioner would keep both, since a product reads the one and a loop the other. In the backward graph the loop makes
the one beside its own result, for a pass over memory more.
"""

import collections
import math

import torch
from torch.utils.checkpoint import CheckpointPolicy

from .nodes import count, hint, is_pointwise, is_view, memory_of, size_of

aten = torch.ops.aten

PRODUCTS = {
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.convolution_backward.default,
}
BY_ELEMENT = {aten._to_copy.default, aten.clone.default, aten.expand.default}
# Multiplications of each element in the product, for which writing it once more is little.
_LEAST = 64
# Part of a step's memory that a GPU's gradients give up for that: what is written again costs time there.
ENOUGH = 0.15
_MOST_STEPS = 16


def compute_again(joint, backward, enough):
    """`backward`: the nodes of that direction; `enough`: the part of a GPU's memory for which that is done."""
    choice = _Choice(joint, backward)
    found = choice.found()
    left = choice.worth(enough) if any(_is_on_gpu(value.meta["val"]) for value in found) else math.inf
    for value, (_, steps) in sorted(found.items(), key=lambda item: -item[1][0]):
        if left <= 0:
            break
        left -= size_of(value)
        for step in steps:
            step.meta["recompute"], step.meta["again"] = CheckpointPolicy.MUST_RECOMPUTE, True


class _Choice:
    def __init__(self, joint, backward):
        self.joint, self.backward = joint, backward
        self.products = [n for n in joint.graph.nodes if n in backward and n.target in PRODUCTS]
        self.read = _read_by_loops(backward)

    def found(self):
        """Of each value that can be computed again: how often a product multiplies each element, and the calls."""
        made, through = collections.Counter(), collections.Counter()
        for node in self.read:
            root, between = _root(node)
            if root is not None and root not in self.backward:
                made[root] += 1
                through.update((root, step) for step in between)
        found = {}
        for product in self.products:
            for operand in product.all_input_nodes:
                is_value = isinstance(operand.meta.get("val"), torch.Tensor) and operand.op == "call_function"
                if operand in self.backward or not is_value or _intensity(product, operand) < _LEAST:
                    continue
                value = memory_of(operand)
                # What loops read of the value itself asks for nothing beside it.
                is_kept = lambda node, value=value: node in self.read or made[node] > through[node, value]
                steps = _steps(operand, is_kept)
                if steps:
                    intensity, others = found.get(value, (0, ()))
                    found[value] = max(intensity, _intensity(product, operand)), (*others, *steps)
        return found

    def worth(self, enough):
        """Bytes whose absence lowers the peak: when the backward direction ends, all gradients are in memory, and
        nothing that was saved.
        """
        results = self.joint.graph.output_node().all_input_nodes
        gradients = {memory_of(node) for node in results if node in self.backward}
        at_end = sum(map(size_of, gradients))
        saved = sum(map(size_of, self.saved()))
        given = sum(map(size_of, self.joint.graph.find_nodes(op="placeholder")))
        return min(enough * (given + max(saved, at_end)), saved - at_end)

    def saved(self):
        """What the forward direction keeps where only loops compute again what they read: what products read, and of
        what loops read all that is not made, element by element, of other kept values.
        """
        by_products = {operand for product in self.products for operand in product.all_input_nodes}
        at_hand, kept = set(), set()
        for node in self.joint.graph.nodes:
            if node in self.backward or node.op == "output":
                continue
            memory = memory_of(node)
            by_element = node.op == "call_function" and (is_pointwise(node) or node.target in BY_ELEMENT)
            if node.op == "placeholder" or (by_element and at_hand.issuperset(node.all_input_nodes)):
                at_hand.add(node)
            elif node in self.read or (memory is not node and memory in at_hand):
                at_hand.add(node)
                kept.add(memory)
            if node in by_products:
                kept.add(memory)
        return [node for node in kept if node.op == "call_function"]


def forget(joint):
    """What was noted here is the partitioner's to decide again. Whether anything was."""
    noted = [node for node in joint.graph.nodes if node.meta.pop("again", False)]
    for node in noted:
        del node.meta["recompute"]
    return bool(noted)


def _read_by_loops(backward):
    """Tensors of the forward direction that the backward one reads otherwise than by products."""
    found = set()
    for node in backward:
        if node.target in PRODUCTS or node.op == "output":
            continue
        for value in node.all_input_nodes:
            while value not in backward and isinstance(value.meta.get("val"), torch.Tensor) and value not in found:
                found.add(value)
                if is_view(value) and value.all_input_nodes:  # torch traces some views of numbers
                    value = value.all_input_nodes[0]
    return found


def _root(value):
    """The one call as large that a value is made of element by element, which then is as good to keep, and the calls
    between; None, and none, where there are several or it is made otherwise.
    """
    most, seen, waiting, roots = count(value.meta["val"]), set(), [value], set()
    while waiting:
        node = waiting.pop()
        tensor = node.meta.get("val")
        if node in seen or not isinstance(tensor, torch.Tensor) or count(tensor) * 8 <= most:
            continue
        seen.add(node)
        if node.op == "call_function" and (is_pointwise(node) or is_view(node) or node.target in BY_ELEMENT):
            waiting += node.all_input_nodes
        else:
            roots.add(node)
        if len(seen) > _MOST_STEPS or len(roots) > 1:
            return None, ()
    return next(((root, seen) for root in roots if root.op == "call_function"), (None, ()))


def _intensity(product, operand):
    """How often the product multiplies each element of the operand; by hints."""
    if product.target is aten.convolution_backward.default:
        gradient, _, weight = (node.meta["val"] for node in product.args[:3])
        return count(gradient) * count(weight) / max(1, count(operand.meta["val"]) * hint(weight.shape[0]))
    a, b = (node.meta["val"] for node in product.args[-2:])
    return count(a) * hint(b.shape[-1]) / max(1, count(operand.meta["val"]))


def _widest(value):
    """Bytes of an element of what a value may be computed of again: a GPU's loops read that for the gradient, too."""
    return 8 if _is_on_gpu(value) else value.element_size()


def _is_on_gpu(value):
    return value.device.type != "cpu"


def _steps(value, is_kept):
    """The calls that make a value of what the backward direction reads by loops; None where something else as large is
    needed, something wider, or nothing of that kind. What loops read and can make of other things that they read is
    made again as well.
    """
    most, widest = count(value.meta["val"]), _widest(value.meta["val"])

    def below(node):
        """The calls for an operand, and whether they come to something large that loops read; None: they do not."""
        tensor = node.meta.get("val")
        if node.op == "placeholder" or not isinstance(tensor, torch.Tensor):
            return [], False
        is_large = count(tensor) * 8 > most
        made = made_of(node) if is_pointwise(node) or is_view(node) or node.target in BY_ELEMENT else None
        if is_kept(node):
            again = made if made and made[1] else ([], is_large)
            return None if is_large and not again[0] and tensor.element_size() > widest else again
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
