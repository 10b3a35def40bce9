"""Attention masks that a graph makes of nothing but sizes (libraries build them of `arange`): none where they let
everything through, `is_causal` where they are the lower triangle.

Attention kernels skip what a causal flag rules out, and some of PyTorch's refuse masks altogether. Those for GPUs
refuse masks whose rows do not lie side by side, as those have that were repeated along the keys; such a mask is copied.
This runs on Dynamo's graph, before AOTAutograd chooses kernels by the arguments.
"""

import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_LARGEST = 1 << 28  # elements
_DRAWS = ("rand", "bernoulli", "multinomial", "normal", "dropout", "uniform", "exponential", "seed")


def simplify(gm):
    """Rewrites the attention calls of a Dynamo graph in place."""
    values = {}
    changed = False
    for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.scaled_dot_product_attention):
        given = dict(zip(_ARGUMENTS, node.args)) | dict(node.kwargs)
        mask, query, key = given.get("attn_mask"), _example(given.get("query")), _example(given.get("key"))
        if not isinstance(mask, torch.fx.Node) or query is None or key is None or given.get("is_causal"):
            continue
        kind = _kind(_value(mask, values), query.shape[-2], key.shape[-2])
        if kind is None:
            continue
        given["attn_mask"], given["is_causal"] = None, kind == "causal"
        node.args, node.kwargs = (given.pop("query"), given.pop("key"), given.pop("value")), given
        changed = True
    if changed:
        # Only what masks were made of: other nodes without users may be there for what they write.
        for node in reversed(list(gm.graph.nodes)):
            if node in values and not node.users:
                gm.graph.erase_node(node)
        gm.recompile()


def lay_out(gm):
    """Gives the attention calls of a Dynamo graph masks that kernels for GPUs take."""
    changed = False
    for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.scaled_dot_product_attention):
        mask = dict(zip(_ARGUMENTS, node.args)).get("attn_mask", node.kwargs.get("attn_mask"))
        example = mask.meta.get("example_value") if isinstance(mask, torch.fx.Node) else None
        if not isinstance(example, torch.Tensor) or example.device.type != "cuda" or example.dim() < 2:
            continue
        if type(example.stride(-1)) is int and example.stride(-1) == 1:
            continue
        # What was repeated for all of a dimension is copied once.
        once = tuple(slice(0, 1) if _is_repeated(example, d) else slice(None) for d in range(example.dim() - 2))
        with gm.graph.inserting_before(node):
            part = gm.graph.call_function(operator.getitem, (mask, once))
            dense = gm.graph.call_method("contiguous", (part,))
        node.replace_input_with(mask, dense)
        changed = True
    if changed:
        gm.recompile()


def _is_repeated(tensor, dim):
    return type(tensor.stride(dim)) is int and tensor.stride(dim) == 0


def _example(node):
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) and all(type(s) is int for s in value.shape) else None


def _value(mask, values):
    """The mask as a tensor, or None where it depends on an input, on a size that is not known, or on chance."""
    example = _example(mask)
    if example is None or example.numel() > _LARGEST:
        return None
    order, seen, pending = [], set(), [mask]
    while pending:
        node = pending.pop()
        if node in values or node in seen:
            continue
        seen.add(node)
        if node.op not in ("call_function", "call_method") or not _is_pure(node):
            return None
        order.append(node)
        pending.extend(node.all_input_nodes)
    index = {node: i for i, node in enumerate(mask.graph.nodes)}
    try:
        with unset_fake_temporarily(), torch.no_grad():
            for node in sorted(order, key=index.__getitem__):
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = (
                    node.target(*args, **kwargs)
                    if node.op == "call_function"
                    else getattr(args[0], node.target)(*args[1:], **kwargs)
                )
    except Exception:  # what cannot be computed ahead is left as it is
        return None
    return values[mask] if isinstance(values[mask], torch.Tensor) else None


def _is_pure(node):
    """Computes a value from its arguments: draws nothing and writes to no argument, and nobody writes to what it
    gives.
    """
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return not any(word in name for word in _DRAWS) and not _writes(node) and not any(map(_writes, node.users))


def _writes(node):
    if node.op == "call_method":
        return node.target.endswith("_") and not node.target.endswith("__")
    if getattr(node.target, "__module__", "") == "_operator":
        return node.target is operator.setitem or node.target.__name__ in (
            "iadd",
            "isub",
            "imul",
            "iand",
            "ior",
            "ixor",
            "itruediv",
        )
    return getattr(node.target, "__name__", "").endswith("_") or "out" in node.kwargs


def _kind(mask, rows, columns):
    """`none` for a mask that changes nothing, `causal` for the lower triangle, else None. Additive masks are 0 where
    they let through, and -inf or their type's lowest number elsewhere.
    """
    if mask is None or mask.dim() < 2 or mask.shape[-1] not in (1, columns) or mask.shape[-2] not in (1, rows):
        return None
    if mask.dtype is torch.bool:
        allowed = mask
    elif mask.dtype.is_floating_point:
        allowed = mask == 0
        if not bool((allowed | (mask <= torch.finfo(mask.dtype).min)).all()):
            return None
    else:
        return None
    if bool(allowed.all()):
        return "none"
    if tuple(mask.shape[-2:]) != (rows, columns):
        return None
    return (
        "causal"
        if bool((allowed == torch.ones(rows, columns, dtype=torch.bool, device=mask.device).tril()).all())
        else None
    )
