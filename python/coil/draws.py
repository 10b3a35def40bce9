"""Random numbers of a graph of both directions, so that the backward one can draw them again: of a seed, which is kept
in their place, each operator's numbers follow (docs/random.md).
"""

import math

import torch
from torch.utils.checkpoint import CheckpointPolicy

from .adder import Adder, dense_order, same, sizes_of
from .nodes import is_random

aten = torch.ops.aten

_library = torch.library.Library("coil", "FRAGMENT")
_library.define("draw_seed(*, Device? device=None) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.define(
    "draw(Tensor seed, SymInt[] size, int[] physical_layout, str kind, float a, float b, int number, *, "
    "ScalarType? dtype=None) -> Tensor",
    tags=(torch.Tag.pointwise,),
)
draw_seed, draw = torch.ops.coil.draw_seed.default, torch.ops.coil.draw.default

_GIVEN, _WORDS = 1 << 30, 4  # src/lowering/elementwise/random.cpp numbers draws by these


@torch.library.register_fake("coil::draw_seed", lib=_library)
def _(*, device=None):
    return torch.empty((), dtype=torch.int64, device=device)


@torch.library.register_fake("coil::draw", lib=_library)
def _(seed, size, physical_layout, kind, a, b, number, *, dtype=None):
    return torch.empty_permuted(size, physical_layout, dtype=dtype, device=seed.device)


@torch.library.impl("coil::draw_seed", "CompositeExplicitAutograd", lib=_library)
def _(*, device=None):
    return torch.randint(-(2**63), 2**63 - 1, ()).to(device or "cpu")


@torch.library.impl("coil::draw", "CompositeExplicitAutograd", lib=_library)
def _(seed, size, physical_layout, kind, a, b, number, *, dtype=None):
    """As Coil's kernels draw, where torch runs a graph."""
    made = torch.empty_permuted(size, physical_layout, dtype=dtype, device=seed.device)
    at = torch.arange(made.numel(), device=seed.device).as_strided(made.shape, made.stride())

    def bits(word):
        return _bits(seed, _GIVEN + _WORDS * number + word, at)

    if kind == "bernoulli":
        drawn = bits(0) < round(a * 2**32) if 0 < a < 1 else torch.full_like(at, a >= 1)
    elif kind == "uniform":
        drawn = _uniform(bits, made.dtype) * (b - a) + a
    else:
        drawn = _normal(bits, made.dtype) * b + a
    return made.copy_(drawn)


def _bits(seed, salt, at):
    """32 bits of each place: word `at` mod 4 of Philox 4x32-10, as integers in 64 bits."""
    mask = (1 << 32) - 1
    block = at >> 2
    a, b, c, d = block & mask, block >> 32, torch.full_like(at, salt), torch.zeros_like(at)
    k0, k1 = seed & mask, (seed >> 32) & mask
    for _ in range(10):
        (high, low), (upper, lower) = _product(a, 0xD2511F53), _product(c, 0xCD9E8D57)
        a, b, c, d = upper ^ b ^ k0, lower, high ^ d ^ k1, low
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return torch.stack((a, b, c, d), -1).gather(-1, (at & 3).unsqueeze(-1)).squeeze(-1)


def _product(x, by):
    """The high and the low 32 bits."""
    high, low = by >> 16, by & 0xFFFF
    return (x * high + (x * low >> 16)) >> 16, x * by & ((1 << 32) - 1)


def _uniform(bits, dtype, word=0):
    if dtype is torch.float64:
        return ((bits(word) >> 5).double() * 2**26 + (bits(word + 1) >> 6)) * 2**-53
    count = {torch.float16: 11, torch.bfloat16: 8}.get(dtype, 24)
    return (bits(word) >> 32 - count).float() * 2**-count


def _normal(bits, dtype):
    if dtype is torch.float64:
        above = (_uniform(bits, dtype) + 2**-54).clamp(max=1 - 2**-53)
    else:
        above = (bits(0).float() * 2**-32 + 2**-33).clamp(max=1 - 2**-24)
    return (above.log() * -2).sqrt() * (_uniform(bits, dtype, 2) * (2 * math.pi)).cos()


def _given(kind):
    """Of an operator whose parameters come behind the operand whose sizes the result has."""

    def described(node):
        parameters = (*node.args[1:3], *(0.0, 1.0)[len(node.args) - 1 :])
        return kind, *parameters, node.args[0]

    return described


# What is drawn: a kind, two parameters, and the operand whose sizes the result has; None where it is given sizes.
_DRAWN = {
    aten.bernoulli.p: lambda node: ("bernoulli", node.args[1], 0.0, node.args[0]),
    aten.rand_like.default: lambda node: ("uniform", 0.0, 1.0, node.args[0]),
    aten.randn_like.default: lambda node: ("normal", 0.0, 1.0, node.args[0]),
    aten.rand.default: lambda node: ("uniform", 0.0, 1.0, None),
    aten.randn.default: lambda node: ("normal", 0.0, 1.0, None),
    aten.uniform.default: _given("uniform"),
    aten.normal_functional.default: _given("normal"),
}


class _Drawing:
    """Puts `coil.draw` in the place of a graph's random operators."""

    def __init__(self, graph):
        self.graph = graph
        self.seeds = {}  # by device
        self.count = 0

    def take(self, node):
        """Whether the node was one of them."""
        if node.kwargs.get("generator") is not None:
            return False
        if node.target is aten.native_dropout.default:
            return self.dropout(node)
        if node.target not in _DRAWN or (order := dense_order(node.meta["val"])) is None:
            return False
        kind, a, b, operand = _DRAWN[node.target](node)
        call = Adder(self.graph, node.prev, node.meta)
        sizes = node.args[0] if operand is None else sizes_of(call, operand)
        node.replace_all_uses_with(self.draw(call, sizes, order, (kind, a, b), node.meta["val"]))
        return True

    def dropout(self, node):
        """x * where(mask, 1 / (1 - p), 0), so that what is dropped of infinity is NaN, as in eager."""
        x, p, train = node.args
        out, mask = node.meta["val"]
        order = dense_order(mask)
        if (
            not train
            or order is None
            or not same(x.meta["val"].stride(), out.stride())
            or not same(out.stride(), mask.stride())
        ):
            return False
        call = Adder(self.graph, node.prev, node.meta)
        drawn = self.draw(call, sizes_of(call, x), order, ("bernoulli", 1.0 - p, 0.0), mask)
        scaled = call(aten.mul.Tensor, x, 0.0 if p == 1 else 1 / (1 - p))
        made = call(aten.where.self, drawn, scaled, call(aten.mul.Tensor, x, 0.0))
        for item in list(node.users):
            item.replace_all_uses_with((made, drawn)[item.args[1]])
            self.graph.erase_node(item)
        return True

    def draw(self, call, sizes, order, described, like):
        seed, self.count = self.seed(call, like), self.count + 1
        return call(draw, seed, sizes, order, *map(_float, described), self.count - 1, dtype=like.dtype)

    def seed(self, call, like):
        """Kept for the backward graph, whatever its budget."""
        device = like.device
        if device not in self.seeds:
            with like.fake_mode:
                self.seeds[device] = call(draw_seed, device=device)
            _keep(self.seeds[device])
        return self.seeds[device]


def _float(value):
    return float(value) if isinstance(value, int) else value


def _keep(node):
    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    node.meta.pop("ac_graph_id", None)


def draw_again(joint):
    """Has each random operator that Coil can draw again draw from a seed. Whether its numbers are kept all the same is
    the partitioner's choice; they are the same numbers in both graphs.
    """
    drawing = _Drawing(joint.graph)
    for node in list(joint.graph.nodes):
        if node.op == "call_function" and drawing.take(node):
            joint.graph.erase_node(node)
    joint.recompile()


def keep_other_draws(joint):
    """What no seed tells is kept, unless it is part of a region that is computed again with its random state. Gives
    whether the graph draws anything.
    """
    drawn = False
    for node in joint.graph.nodes:
        if is_random(node):
            drawn = True
            if "recompute" not in node.meta:
                _keep(node)
    return drawn
