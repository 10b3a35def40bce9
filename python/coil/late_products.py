"""Where products go whose operands the backward direction computes again (operands.py): behind the gradient's loops
that read the same values, so that one kernel does both.
"""

import torch

from .adder import Adder, dense_order, sized_like
from .nodes import count, memory_of
from .operands import PRODUCTS

aten = torch.ops.aten

_FAR = 8  # products between one and where it would go


def postpone(backward, is_loop):
    """Products whose operands are computed again go behind the gradient's loops that read the same values, so that one
    kernel does both: in front of the next product that needs what those loops make. What computes operands again goes
    in front of who reads it first.
    """
    again = [node for node in backward.graph.nodes if node.meta.get("again")]
    if not again or any(map(_writes, backward.graph.nodes)):
        return
    for product in [node for node in backward.graph.nodes if node.target in PRODUCTS]:
        if product.target is aten.convolution_backward.default:
            _part(product)
        leaves = _leaves(product)
        following, late = _behind_loops(product, leaves, is_loop) if leaves else (None, ())
        for node in late if following else ():
            following.prepend(node)
    for node in reversed(again):
        users = set(node.users)
        following = node.next
        while following not in users and following.op != "output":
            following = following.next
        following.prepend(node)


def _writes(node):
    """Whether a call changes an operand: what reads that keeps its place. (Inputs get their new values last of all.)"""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and node.target is not aten.copy_.default


def _part(product):
    """Takes the gradient of a convolution's operand, which only asks how large that is, out of the call that gives that
    of its weight as well, where it is computed again.
    """
    operand, mask = product.args[1], product.args[-1]
    if not operand.meta.get("again") or not mask[0] or not any(mask[1:]):
        return
    order = dense_order(operand.meta["val"])
    if order is None or any(type(size) is not int for size in operand.meta["val"].shape):
        return
    with product.graph.inserting_before(product):
        alone = product.graph.node_copy(product)
    stand_in = sized_like(operand, order, Adder(product.graph, alone.prev, product.meta))
    alone.args = (product.args[0], stand_in, *product.args[2:-1], [True, False, False])
    alone.meta["val"] = (product.meta["val"][0], None, None)
    product.args = (*product.args[:-1], [False, *mask[1:]])
    product.meta["val"] = (None, *product.meta["val"][1:])
    for item in [user for user in product.users if user.args[1] == 0]:
        item.replace_input_with(product, alone)
        alone.append(item)


def _leaves(product):
    """Large values that operands of a product are computed of again."""
    leaves, seen = set(), set()
    for operand in product.all_input_nodes:
        most, waiting = count(operand.meta.get("val")), [operand] if operand.meta.get("again") else []
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.meta.get("again"):
                waiting += node.all_input_nodes
            elif count(node.meta.get("val")) * 8 > most:
                leaves.add(memory_of(node))
    return leaves


def _behind_loops(product, leaves, is_loop):
    """The next call that is no loop and needs what loops make of the leaves, and what goes in front of it: the product
    and what has been made of it. None where that call needs the product or is far away.
    """
    behind, late, between = set(), [product], 0
    node = product.next
    while node.op != "output":
        operands = node.all_input_nodes
        is_product = node.target in PRODUCTS
        if any(operand in late for operand in operands):
            late.append(node)
        elif behind.intersection(operands) and not is_loop(node):
            return node, late
        elif is_loop(node) and (behind.intersection(operands) or _reads(node, leaves)):
            behind.add(node)
        between += is_product
        if between > _FAR or late[-1].target in PRODUCTS and late[-1] is not product:
            return None, ()
        node = node.next
    return (node, late) if behind else (None, ())


def _reads(node, leaves):
    """Whether a call reads one of the values, and is of the gradients' own."""
    return not node.meta.get("again") and any(memory_of(operand) in leaves for operand in node.all_input_nodes)
