"""Calls of ATen operators drawn at random: from an operator's schema alone, from the recipes of shape_cases.py, or from
recorded calls; then, mostly, with something in them changed.
"""

import dataclasses
import functools
import math
import re

import torch
from torch.utils import _pytree as pytree

import shape_cases
import text_graph

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
RARE = [torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn]
# How often each is drawn.
DTYPES = FLOATS * 5 + [torch.float32] * 15 + INTEGERS * 2 + [torch.int64] * 4 + [torch.bool] * 4 + RARE
MEMORY_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d]
INTS = [-1, 0, 1, 2, 3, -2, -3, 4, 5, 7, -7, 64, 2**31, -(2**63), 2**63 - 1]
NUMBERS = [0.0, 1.0, -1.0, 0.5, 2.5, -0.5, 1e-5, 1e30, math.inf, -math.inf, math.nan]
STRINGS = [
    "mean",
    "sum",
    "none",
    "floor",
    "trunc",
    "tanh",
    "reflect",
    "replicate",
    "circular",
    "constant",
    "same",
    "ij",
]
STRINGS += ["valid", "xy", "linear", "lower", "higher", "midpoint", "nearest", "amax", "amin", "prod", "left", "?", ""]

# What tensors of these names hold, whatever the others do.
INDEX_NAMES = {"index", "indices", "offsets", "ids", "target", "boundaries_index", "pivots", "sorter", "idx"}
MASK_NAMES = {"mask", "condition", "attn_mask"}
CHANNEL_NAMES = {"weight", "bias", "running_mean", "running_var", "mean", "var", "invstd", "scale", "zero_point"}


@dataclasses.dataclass
class Draw:
    """One call. `sizes`: those of the call's dense tensors that are symbols in Coil's graph. `symbols`,
    `floats`: places
    of ints and floats, in the flat list of arguments, that are inputs of the graph.
    """

    target: str
    args: list
    kwargs: dict
    source: str = "schema"
    sizes: tuple = ()
    symbols: tuple = ()
    floats: tuple = ()

    @property
    def operator(self):
        return text_graph.operator(self.target)

    def leaves(self):
        return flat((self.args, self.kwargs))

    def tensors(self):
        return [leaf for leaf in self.leaves() if isinstance(leaf, torch.Tensor)]

    def text(self):
        leaves = [shown(leaf) for leaf in self.leaves()]
        for places, mark in (self.symbols, "$"), (self.floats, "$"):
            for place in places:
                leaves[place] = mark + leaves[place]
        args, kwargs = unflat((self.args, self.kwargs), leaves)
        words = [bare(a) for a in args] + [f"{k}={bare(v)}" for k, v in kwargs.items()]
        symbolic = f" with {', '.join(f's{n} = {n}' for n in self.sizes)}" if self.sizes else ""
        return f"aten.{self.target.removeprefix('aten.')}({', '.join(words)}){symbolic}"


def is_leaf(value):
    return not isinstance(value, (list, tuple, dict))


def flat(value):
    return pytree.tree_leaves(value, is_leaf=is_leaf)


def unflat(like, leaves):
    return pytree.tree_unflatten(leaves, pytree.tree_structure(like, is_leaf=is_leaf))


def bare(value):
    return value if isinstance(value, str) else f"[{', '.join(map(bare, value))}]"


SHORT = text_graph.SHORT | {
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3fn",
}


def shown(leaf):
    if isinstance(leaf, torch.Tensor):
        dense = list(leaf.stride()) == list(torch.empty(leaf.shape, device="meta").stride())
        strides = "" if dense else "{" + ", ".join(map(str, leaf.stride())) + "}"
        offset = f"+{leaf.storage_offset()}" if leaf.storage_offset() else ""
        few = leaf.numel() <= 8 and not leaf.is_floating_point() and not leaf.is_complex()
        return f"{SHORT.get(leaf.dtype, str(leaf.dtype))}{list(leaf.shape)}{strides}{offset}" + (
            f"={leaf.tolist()}" if few else ""
        )
    return repr(leaf)


@functools.cache
def parameters(target):
    """[(name, type without `?` and `[]`, is a list, its length or None, may be None, default, keyword only)]."""
    found = []
    for a in text_graph.operator(target)._schema.arguments:
        kind = str(a.real_type)
        optional = kind.startswith("Optional[")
        if optional:
            kind = kind[len("Optional[") : -1]
        is_list = kind.startswith("List[")
        if is_list:
            kind = kind[len("List[") : -1]
        found.append(Parameter(a.name, kind, is_list, a.N, optional, a.default_value, a.kwarg_only))
    return found


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    is_list: bool
    length: int | None
    optional: bool
    default: object
    keyword: bool


def recipes_of(target):
    """Those of `add.Tensor` go for `add_.Tensor` too."""
    name, overload = target.removeprefix("aten.").split(".")
    return shape_cases.CASES.get(f"{name}.{overload}") or shape_cases.CASES.get(f"{name.removesuffix('_')}.{overload}")


class Drawer:
    """Draws the calls of one seed: the draw of a number is the same whatever was drawn before."""

    def __init__(self, seed, targets, recorded=None):
        self.seed, self.targets, self.recorded = seed, targets, recorded or {}

    def draw(self, number):
        target = self.targets[number % len(self.targets)]
        self.r = shape_cases.Random(f"{self.seed}:{number}")
        torch.manual_seed(self.r.getrandbits(60))
        call = self.call(target)
        for _ in range(self.r.choice([0, 1, 1, 1, 2, 3] if call.source != "schema" else [0, 0, 0, 1])):
            self.change(call)
        self.make_symbolic(call)
        return call

    def call(self, target):
        r, recorded, recipes = self.r, self.recorded.get(target), recipes_of(target)
        kinds = ["schema"] + ["recipe"] * 2 * bool(recipes) + ["recorded"] * 2 * bool(recorded)
        kind = r.choice(kinds)
        if kind == "recipe":
            args, kwargs = r.choice(recipes)(r)
            return Draw(target, list(args), dict(kwargs), kind)
        if kind == "recorded":
            args, kwargs = r.choice(recorded)
            leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in flat((args, kwargs))]
            return Draw(target, *unflat((list(args), dict(kwargs)), leaves), kind)
        return self.from_schema(target)

    # --- from the schema alone

    def from_schema(self, target):
        r = self.r
        self.base = [
            r.choice([0, 1, 2, 3, 4, 5, 7, 1, 2, 3, 4]) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]))
        ]
        self.dtype = r.choice(DTYPES)
        self.first = True
        args, kwargs, named = [], {}, False
        for p in parameters(target):
            if p.default is not None and r.random() < 0.4 or p.kind == "Generator":
                named = True
                continue
            if p.optional and r.random() < 0.5:
                value = None
            else:
                value = self.argument(p)
            if p.keyword or named:
                if value is not None:
                    kwargs[p.name] = value
            else:
                args.append(value)
        return Draw(target, args, kwargs)

    def argument(self, p):
        if not p.is_list:
            return self.single(p)
        length = p.length or self.r.choice([0, 1, 1, 2, 2, 3, len(self.base), len(self.base), 4])
        if p.length and self.r.random() < 0.1:
            return self.single(p)
        if p.kind in ("int", "SymInt") and "size" in p.name and self.r.random() < 0.5:
            return self.sizes()
        return [self.single(p) for _ in range(length)]

    def sizes(self):
        r = self.r
        sizes = list(self.base)
        if r.random() < 0.3:
            r.shuffle(sizes)
        if sizes and r.random() < 0.3:
            sizes[r.randrange(len(sizes))] = -1
        if r.random() < 0.3:
            sizes.insert(r.randint(0, len(sizes)), r.choice([1, 1, 2]))
        return sizes

    def single(self, p):
        r = self.r
        match p.kind:
            case "Tensor" | "Optional[Tensor]":
                return None if p.kind != "Tensor" and r.random() < 0.3 else self.tensor(p.name)
            case "int" | "SymInt":
                return self.integer(p.name)
            case "bool":
                return r.random() < 0.5
            case "float":
                return r.choice(NUMBERS + [0.5, 0.1, 1.0] * 4)
            case "number":
                return r.choice(NUMBERS + [2, 3, -1, 0, True, 0.5, 1.5] * 3)
            case "str":
                return r.choice(STRINGS)
            case "ScalarType":
                return r.choice(DTYPES)
            case "MemoryFormat":
                return r.choice(MEMORY_FORMATS)
            case "Layout":
                return torch.strided
            case "Device":
                return torch.device("cpu")
        return None

    def integer(self, name):
        r, rank = self.r, len(self.base)
        if "dim" in name or name in ("source", "destination", "axis", "start_dim", "end_dim"):
            return r.randint(-rank - 1, rank) if r.random() < 0.15 else r.randrange(-max(rank, 1), max(rank, 1))
        if name == "reduction":
            return r.choice([0, 1, 2, 1, 2, 3])
        if r.random() < 0.3 and rank:
            return r.choice(self.base)
        return r.choice(INTS[:8] * 3 + INTS)

    def tensor(self, name):
        r = self.r
        sizes, dtype, low, high = list(self.base), self.dtype, -3, 3
        first, self.first = self.first, False
        if not first:
            kind = r.random()
            if name in CHANNEL_NAMES and kind < 0.8:
                sizes = self.base[1:2] or self.base[:1]
            elif kind < 0.35:
                sizes = r.broadcast_from(self.base)
            elif kind > 0.9:
                sizes = r.sizes(low=0)
            if r.random() < 0.08:
                dtype = r.choice(DTYPES)
        if not first and any(name.startswith(n) for n in INDEX_NAMES):
            dtype, low, high = (
                r.choice([torch.int64] * 8 + [torch.int32, torch.bool]),
                0,
                max(0, min(self.base or [1]) - 1),
            )
        if name in MASK_NAMES and r.random() < 0.8:
            dtype = torch.bool
        return self.laid_out(self.values(sizes, dtype, low, high))

    def values(self, sizes, dtype, low=-3, high=3):
        if dtype.is_complex:
            return torch.complex(torch.rand(sizes) * 4 - 2, torch.rand(sizes) * 4 - 2).to(dtype)
        if dtype in (torch.uint16, torch.uint32, torch.uint64):
            return self.r.values(sizes, torch.int64, max(low, 0), max(high, 0)).to(dtype)
        return self.r.values(sizes, dtype, low, high)

    def laid_out(self, t):
        try:
            return self.r.layout(t)
        except RuntimeError:  # an element type that cannot be copied so
            return t

    # --- a change of something in a call

    def change(self, call):
        leaves = call.leaves()
        r = self.r
        if not leaves or r.random() < 0.1:
            return self.change_list(call)
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        place = r.choice(tensors) if tensors and r.random() < 0.5 else r.randrange(len(leaves))
        leaves[place] = self.changed(leaves[place])
        call.args, call.kwargs = unflat((call.args, call.kwargs), leaves)

    def changed(self, leaf):
        r = self.r
        if isinstance(leaf, torch.Tensor):
            return r.choice(TENSOR_CHANGES)(self, leaf)
        if isinstance(leaf, bool):
            return not leaf
        if isinstance(leaf, int):
            return r.choice([-leaf, leaf + 1, leaf - 1, *INTS])
        if isinstance(leaf, float):
            return r.choice(NUMBERS)
        if isinstance(leaf, str):
            return r.choice(STRINGS)
        if isinstance(leaf, torch.dtype):
            return r.choice(DTYPES)
        if isinstance(leaf, torch.memory_format):
            return r.choice(MEMORY_FORMATS)
        return leaf

    def change_list(self, call):
        r = self.r
        lists = [i for i, a in enumerate(call.args) if isinstance(a, (list, tuple))]
        optional = [i for i, p in enumerate(parameters(call.target)[: len(call.args)]) if p.optional]
        if optional and (not lists or r.random() < 0.5):
            i = r.choice(optional)
            self.base, self.dtype, self.first = [2, 3], torch.float32, False
            if tensors := call.tensors():
                self.base, self.dtype = list(tensors[0].shape), tensors[0].dtype
            call.args[i] = None if call.args[i] is not None else self.argument(parameters(call.target)[i])
        elif lists:
            i = r.choice(lists)
            items = list(call.args[i])
            call.args[i] = r.choice([items[:-1], items + items[-1:], items[::-1], items[:1] or items, []])

    # --- symbols

    def make_symbolic(self, call):
        r = self.r
        leaves, kinds = call.leaves(), kinds_of(call)
        if r.random() < 0.25:
            sizes = {
                n for leaf in leaves if isinstance(leaf, torch.Tensor) and dense(leaf) for n in leaf.shape if n > 1
            }
            call.sizes = tuple(n for n in sorted(sizes) if r.random() < 0.7)
            if r.random() < 0.5:
                call.symbols = tuple(
                    i
                    for i, leaf in enumerate(leaves)
                    if type(leaf) is int and kinds[i] in ("SymInt", "number") and abs(leaf) < 2**40 and r.random() < 0.6
                )
        if r.random() < 0.08:
            call.floats = tuple(
                i for i, leaf in enumerate(leaves) if type(leaf) is float and kinds[i] in ("number", "float", "Tensor")
            )


def dense(t):
    return t.is_contiguous() and t.numel() > 0 and list(t.stride()) == text_graph.dense_strides(t.shape)


def kinds_of(call):
    """The type that the schema has for each of the flat arguments."""
    by_name = {p.name: p.kind for p in parameters(call.target)}
    kinds = [p.kind for p in parameters(call.target)]
    args = [unflat(a, [kinds[i] if i < len(kinds) else ""] * len(flat(a))) for i, a in enumerate(call.args)]
    kwargs = {k: unflat(v, [by_name.get(k, "")] * len(flat(v))) for k, v in call.kwargs.items()}
    return flat((args, kwargs))


def resized(drawer, t):
    """With another size in one dimension."""
    if not t.dim():
        return t
    sizes = list(t.shape)
    sizes[drawer.r.randrange(len(sizes))] = drawer.r.choice([0, 1, 2, 3, 5, 0])
    return similar(drawer, t, sizes)


def similar(drawer, t, sizes, dtype=None):
    """Values of the same range in other sizes."""
    dtype = dtype or t.dtype
    if t.dtype in INTEGERS and t.numel():
        return drawer.values(sizes, dtype, t.min().item(), max(t.max().item(), t.min().item()))
    return drawer.values(sizes, dtype)


def with_special(drawer, t):
    """With values at the edges of the type."""
    if not t.numel() or not (t.is_floating_point() or t.dtype in INTEGERS):
        return t
    special = (
        [math.nan, math.inf, -math.inf, 0.0, -0.0]
        if t.is_floating_point() and t.dtype.itemsize > 1
        else [torch.iinfo(t.dtype).min, torch.iinfo(t.dtype).max, 0]
        if not t.is_floating_point()
        else [0.0]
    )
    out = t.contiguous().clone()
    out.view(-1)[drawer.r.randrange(out.numel())] = drawer.r.choice(special)
    return out


def cast(drawer, t):
    dtype = drawer.r.choice(DTYPES)
    return t.to(dtype) if not t.is_complex() or dtype.is_complex else t.real.to(dtype)


TENSOR_CHANGES = [
    cast,
    cast,
    cast,
    resized,
    resized,
    lambda d, t: d.laid_out(t),
    lambda d, t: d.laid_out(t),
    lambda d, t: t[0] if t.dim() and t.shape[0] else t,
    lambda d, t: t.unsqueeze(d.r.randint(0, t.dim())) if t.dim() < 6 else t,
    lambda d, t: similar(d, t, []),
    lambda d, t: similar(d, t, d.r.sizes(low=0)),
    lambda d, t: t.expand([2, *t.shape]) if t.dim() < 5 else t,
    lambda d, t: torch.zeros_like(t),
    with_special,
    lambda d, t: d.r.choice([2, -1, 0.5, 3.0, True]),
    lambda d, t: t.contiguous().as_strided([2] * t.dim(), [1] * t.dim())
    if 0 < t.dim() < t.numel()
    else t,  # overlapping
]


def targets_of(names, pattern=""):
    """The operators of these that torch has, and can be drawn for, that match a pattern."""
    found = []
    for name in names:
        if not name.startswith("aten.") or not re.search(pattern, name):
            continue
        try:
            schema = text_graph.operator(name)._schema
        except AttributeError:  # of another version of torch
            continue
        if not any(str(a.real_type) in ("Storage", "Stream") for a in schema.arguments):
            found.append(name)
    return found
