"""Indices of maxima, which gradients of pools read, in the fewest bytes: as places in their windows where a byte holds
those, else in the narrowest integers that hold all places of a picture.
"""

import math

import torch

from .adder import Adder, size_of

aten = torch.ops.aten

_STRIDED = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}  # picture's dimensions
_ADAPTIVE = {aten.adaptive_max_pool2d.default: 2, aten.adaptive_max_pool3d.default: 3}
_BYTE = 256


def narrow_indices(joint):
    """Rewrites the indices of maxima of a graph of both directions: I64 has eight times as many bytes as most need."""
    for node in list(joint.graph.nodes):
        if node.op != "call_function" or node.target not in _STRIDED | _ADAPTIVE:
            continue
        for item in [u for u in node.users if u.args[1] == 1]:
            if any(user.op == "output" for user in item.users):
                continue  # the caller has them in any case
            window = _window(node)
            if window is not None and (coding := _radices(window.lengths)) is not None:
                _keep_places(joint.graph, item, window, coding)
            else:
                _keep_narrow(joint.graph, node, item)
    joint.recompile()


def _places(sizes):
    """Of a picture; more than integers of 32 bits tell apart where a size is not known."""
    return math.prod(size if type(size) is int else 1 << 31 for size in sizes)


class _Window:
    """Where the windows of a pool begin, by dimension of a picture, and how far their places lie apart."""

    def __init__(self, node, lengths, steps):
        self.node, self.lengths, self.steps = node, lengths, steps
        self.rank = len(lengths)
        self.sizes = node.args[0].meta["val"].shape[-self.rank :]
        self.dtype = torch.int32 if _places(self.sizes) < 1 << 31 else torch.int64

    def begin(self, call, item, d):
        """A tensor of where the windows begin along a dimension, as large as the result there."""
        place = d - self.rank
        count = size_of(call, item, place)
        at = call(aten.arange.default, count, dtype=self.dtype, device=item.meta["val"].device)
        if self.node.target in _ADAPTIVE:
            at = call(aten.mul.Tensor, at, self.sizes[d])
            at = call(aten.div.Tensor_mode, at, count, rounding_mode="floor")
        else:
            stride, padding = (_of(self.node, k, d, self.rank) for k in (2, 3))
            at = call(aten.sub.Tensor, call(aten.mul.Tensor, at, stride), padding)
        return call(aten.view.default, at, [-1, *[1] * (self.rank - 1 - d)])


def _of(node, place, d, rank):
    """An argument that is one number for each dimension of a picture, one for all, or left out."""
    value = node.args[place] if len(node.args) > place else []
    if place == 2 and not value:
        place, value = 1, node.args[1]
    value = [value] if type(value) is int else list(value) or [{3: 0, 4: 1}[place]]
    return value[d if len(value) == rank else 0]


def _window(node):
    """How the pool's windows lie; None where that follows from sizes that are not known."""
    if node.target in _STRIDED:
        rank = _STRIDED[node.target]
        lengths = [_of(node, 1, d, rank) for d in range(rank)]
        return _Window(node, lengths, [_of(node, 4, d, rank) for d in range(rank)])
    rank = _ADAPTIVE[node.target]
    sizes, counts = node.args[0].meta["val"].shape[-rank:], node.args[1]
    if not all(type(n) is int and n > 0 for n in (*sizes, *counts)):
        return None
    return _Window(node, list(map(_longest, sizes, counts)), [1] * rank)


def _longest(size, count):
    """Of adaptive windows along a dimension, from floor(k * size / count) to ceil((k + 1) * size / count)."""
    return max(-(-(k + 1) * size // count) - k * size // count for k in range(count))


def _radices(lengths):
    """What a window's places are numbered by, dimension by dimension: powers of two if a byte holds those."""
    for radices in ([1 << (n - 1).bit_length() for n in lengths], lengths):
        if lengths[0] * math.prod(radices[1:]) <= _BYTE:
            return radices
    return None


def _keep_places(graph, item, window, radices):
    users = list(item.users)
    call = Adder(graph, item, item.meta)
    sizes = [size_of(call, window.node.args[0], d - window.rank) for d in range(window.rank)]
    begins = [window.begin(call, item, d) for d in range(window.rank)]
    index = call(aten._to_copy.default, item, dtype=window.dtype)
    kept = call(aten._to_copy.default, _place(call, index, window, sizes, begins, radices), dtype=torch.uint8)
    index = _index(call, kept, window, sizes, begins, radices)
    for user in users:
        user.replace_input_with(item, index)


def _place(call, index, window, sizes, begins, radices):
    """The number in its window of the element that an index in its picture names."""
    place, scale = None, 1
    for d in reversed(range(window.rank)):
        at = index
        if d:
            index = call(aten.div.Tensor_mode, at, sizes[d], rounding_mode="floor")
            at = call(aten.sub.Tensor, at, call(aten.mul.Tensor, index, sizes[d]))
        at = call(aten.sub.Tensor, at, begins[d])
        if window.steps[d] != 1:
            at = call(aten.div.Tensor_mode, at, window.steps[d], rounding_mode="floor")
        at = call(aten.mul.Tensor, at, scale) if scale != 1 else at
        place = at if place is None else call(aten.add.Tensor, place, at)
        scale *= radices[d]
    return place


def _index(call, place, window, sizes, begins, radices):
    """_place the other way round."""
    parts = []
    for d in reversed(range(1, window.rank)):
        parts.append(call(aten.remainder.Scalar, place, radices[d]))
        place = call(aten.div.Tensor_mode, place, radices[d], rounding_mode="floor")
    index = None
    for d, at in enumerate([place, *reversed(parts)]):
        at = call(aten._to_copy.default, at, dtype=window.dtype)
        at = call(aten.mul.Tensor, at, window.steps[d]) if window.steps[d] != 1 else at
        at = call(aten.add.Tensor, at, begins[d])
        index = at if index is None else call(aten.add.Tensor, call(aten.mul.Tensor, index, sizes[d]), at)
    return call(aten._to_copy.default, index, dtype=torch.int64)


def _keep_narrow(graph, node, item):
    """In the narrowest integers that hold all places of a picture."""
    places = _places(node.args[0].meta["val"].shape[-(_STRIDED | _ADAPTIVE)[node.target] :])
    if places > 1 << 31:
        return
    users = list(item.users)
    call = Adder(graph, item, item.meta)
    kept = call(aten._to_copy.default, item, dtype=torch.int16 if places <= 1 << 15 else torch.int32)
    wide = call(aten._to_copy.default, kept, dtype=torch.int64)
    for user in users:
        user.replace_input_with(item, wide)
