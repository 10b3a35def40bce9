"""Which tensors of a user's kernel's call lie in one memory, as they do in eager: a kernel that writes to one of them
writes to the others.
"""

import torch
from torch.fx import Node

from .triton_code import Refusal

KEY = "coil_memories"  # in a node's metadata: what `together` said of its tensors


def end_of(value):
    """Behind the last element, in elements of the storage."""
    return value.storage_offset() + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) + 1


def _storage(value):
    try:
        return value.untyped_storage()._cdata
    except NotImplementedError:  # a tensor of a kind that has none
        return None


def _may_meet(a, b):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if _storage(a) is None or _storage(a) != _storage(b):
        return False
    if a.dtype != b.dtype:
        return True
    apart = lambda x, y: statically_known_true(end_of(x) <= y.storage_offset())  # noqa: E731
    return not apart(a, b) and not apart(b, a)


def together(tensors):
    """For each name the first of the names whose tensors it may share elements with. `tensors`: nodes by name."""
    first = {name: name for name in tensors}
    names = list(tensors)
    for k, name in enumerate(names):
        for other in names[:k]:
            if _may_meet(tensors[name].meta["val"], tensors[other].meta["val"]):
                old, new = first[name], first[other]
                first = {n: new if f == old else f for n, f in first.items()}
    return first


def note(node):
    """Before passes that compute equal tensors once: two that are equal and that a kernel writes to stay two."""
    tensors = {k: v for k, v in node.kwargs["kwargs"].items() if _is_tensor(v)}
    node.meta[KEY] = together(tensors)


def _is_tensor(value):
    return isinstance(value, Node) and isinstance(value.meta.get("val"), torch.Tensor)


def _root(node):
    """The value that this one is a view of."""
    while True:
        storage = _storage(node.meta["val"])
        source = next((a for a in node.args if _is_tensor(a) and _storage(a.meta["val"]) == storage), None)
        if node.op != "call_function" or source is None:
            return node
        node = source


def _same_place(a, b):
    facts = lambda t: (t.shape, t.stride(), t.storage_offset(), t.dtype)  # noqa: E731
    return a is b or facts(a.meta["val"]) == facts(b.meta["val"])


def memories(node, tensors, written):
    """(for each tensor the place of the one that it is a view of, those that stand behind the tensors for this alone).
    `tensors`: nodes by name in the kernel's order; `written`: names. What is not written to lies where it lies.
    """
    known = node.meta.get(KEY) or together(tensors)
    names, more = list(tensors), []
    places = {name: k for k, name in enumerate(names)}
    for first in dict.fromkeys(known[n] for n in names):
        members = [n for n in names if known[n] == first]
        if len(members) == 1 or not set(members) & set(written):
            continue
        one = tensors[members[0]]
        if all(_same_place(one, tensors[n]) for n in members):
            places |= {n: names.index(members[0]) for n in members}
            continue
        roots = {_root(tensors[n]): None for n in members}
        types = {tensors[n].meta["val"].dtype for n in members} | {r.meta["val"].dtype for r in roots}
        if len(roots) > 1 or len(types) > 1:
            what = "of several types" if len(roots) == 1 else "that come to the program apart"
            raise Refusal(
                f"writes to one of {', '.join(f'`{n}`' for n in members)}, which are views of one memory {what}; "
                "give it copies"
            )
        places |= dict.fromkeys(members, len(names) + len(more))
        more.extend(roots)
    return [*places.values(), *range(len(names), len(names) + len(more))], more


def offsets(node, tensors, written):
    """Where tensors begin in the memory that `memories` puts them in, by name, where they do not lie by themselves."""
    places, more = memories(node, tensors, written)
    every = [*tensors.values(), *more]
    begin = lambda n: n.meta["val"].storage_offset()  # noqa: E731
    shared = {k for k in places if places.count(k) > 1}
    return {name: begin(tensors[name]) - begin(every[place]) for name, place in zip(tensors, places) if place in shared}
