"""One drawn call by eager and by Coil, down to the text of its kernels, and what the two say of it."""

import functools
import re
import sys

import torch

from coil_harness import ROOT

sys.path.insert(0, str(ROOT / "build/python"))

import coil.graph
from coil import _native
from schema_draws import unflat
from schema_eager import plain

# Categories of draws; those of BUGS are faults of Coil's.
RIGHT = "right"
BOTH = "refused by both"
REFUSED = "refused by name"  # eager computes
AT_RUN = "left to the run"  # eager refuses these values, and takes others of the same types and sizes
BEYOND = "no kernel in eager"  # eager lacks the operator for a floating type or an unsigned one, and Coil has it
MEMORY = "out of memory"
ELSEWHERE = "of another device"  # eager refuses it on the CPU alone
NO_CALL = "no such call"  # torch does not make it of these arguments, so that no graph has it
EAGER_CRASH = "eager crashed"
WRONG = "wrong"
CRASH = "crash"
INTERNAL = "internal error"
NAMELESS = "refusal without a name"
COMPUTED = "computed where eager refuses"
METADATA = "other metadata"
BUGS = (WRONG, CRASH, INTERNAL, COMPUTED, METADATA, NAMELESS)
CATEGORIES = (RIGHT, BOTH, REFUSED, AT_RUN, BEYOND, MEMORY, ELSEWHERE, NO_CALL, EAGER_CRASH, *BUGS)

# No host's compiler and no host's operators: what is compiled is Coil's own, and the rest is refused by name.
SETTINGS = {"fallback": "false", "fold_constants": "false", "verify": "true"}


# --- Coil


def symbol(name):
    return f"Symbol('{name}', integer=True)"


class Build:
    """A draw as a graph of Coil's, or as a part of one."""

    def __init__(self, draw, shape, graph=None, prefix=""):
        self.draw, self.prefix = draw, prefix
        self.graph = graph or _native.TracedGraph("main")
        self.places, self.nodes = [], {}
        for n in draw.sizes:
            self.graph.symbol(f"{prefix}s{n}", n, 2, None, False)
        args, kwargs = unflat((draw.args, draw.kwargs), [self.leaf(i, leaf) for i, leaf in enumerate(draw.leaves())])
        coil.graph.target_name(draw.operator)  # declares what Coil has no schema of
        self.node = self.graph.call(draw.target, args, kwargs, f"{prefix}call", None, "")
        self.results = self.items(self.node, by_schema(draw.operator._schema) if shape is None else shape)

    def size(self, n):
        return symbol(f"{self.prefix}s{n}") if n in self.draw.sizes else n

    def metadata(self, t):
        sizes = t.shape
        strides = t.stride()
        if self.draw.sizes and t.is_contiguous() and t.numel():
            sizes = [self.size(n) for n in sizes]
            strides = [
                product([self.size(n) for n in t.shape[d + 1 :]]) if t.shape[d] > 1 else s
                for d, s in enumerate(strides)
            ]
        return str(t.dtype).removeprefix("torch."), tuple(sizes), tuple(strides), t.storage_offset(), "cpu"

    def leaf(self, i, leaf):
        name = f"{self.prefix}x{i}"
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in self.nodes:
                self.nodes[id(leaf)] = self.placeholder(name, self.metadata(leaf), i)
            return self.nodes[id(leaf)]
        if i in self.draw.symbols:
            self.graph.symbol(name, leaf, None, None, False)
            return self.placeholder(name, symbol(name), i)
        if i in self.draw.floats:
            return self.placeholder(name, {"float": name}, i)
        if isinstance(leaf, complex):
            held = torch.tensor(leaf)
            return self.graph.constant(name, held, self.metadata(held))
        if leaf is None or isinstance(leaf, (bool, int, float, str)):
            return leaf
        return coil.graph._literal(leaf)

    def placeholder(self, name, meta, place):
        self.places.append(place)
        return self.graph.placeholder(name, meta)

    def chosen(self, leaves):
        """What a call of the graph takes, of the draw's flat arguments."""
        return [leaves[place] for place in self.places]

    def items(self, node, shape):
        """The nodes of the single values of a result."""
        if not isinstance(shape, list):
            return [node]
        found = []
        for k, inner in enumerate(shape):
            if inner is not None:
                name = f"{node.name}_{k}"
                found += self.items(self.graph.call("_operator.getitem", [node, k], {}, name, None, ""), inner)
        return found


def by_schema(schema):
    """The results of a call that eager refuses, as schema_eager.shape_of has them."""
    shapes = [[True] if str(r.type).startswith("List") else True for r in schema.returns]
    return shapes[0] if len(shapes) == 1 else shapes


def product(factors):
    number, symbols = 1, []
    for f in factors:
        if isinstance(f, int):
            number *= f
        else:
            symbols.append(f)
    if not symbols:
        return number
    parts = [f"Integer({number})"] * (number != 1) + symbols
    return parts[0] if len(parts) == 1 else f"Mul({', '.join(parts)})"


def lowered(draw, by_eager):
    """([metadata of each result], None), or (None, the error): `Error: …` for those of Coil's own."""
    try:
        build = Build(draw, by_eager.shape)
        build.graph.infer()
        build.graph.output(build.results)
        return build.graph.lower(SETTINGS, "cpu"), None
    except _native.Error as error:
        return None, f"Error: {error}"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


# --- the verdict


def with_known(made, want):
    """What Coil says of a result, with eager's sizes, strides and offset for those that only the run tells."""
    if not isinstance(want, tuple) or len(made[1]) != len(want[1]):
        return made
    if made[3] is None:
        made = *made[:3], want[3], *made[4:]
    if None not in made[1]:
        return made
    sizes = tuple(w if s is None else s for w, s in zip(want[1], made[1]))
    strides = tuple(w if s is None else s for w, s in zip(want[2], made[2]))
    return made[0], sizes, strides, *made[3:]


def metadata_differences(want, made):
    if len(want) != len(made):
        return f"{len(made)} results, expected {len(want)}"
    for k, (w, m) in enumerate(zip(want, made)):
        g = plain(*with_known(m, w)) if isinstance(m, tuple) else m
        if isinstance(w, tuple) != isinstance(g, tuple) and not (isinstance(w, (int, float)) and isinstance(g, tuple)):
            return f"result {k}: {g}, expected {w}"
        if isinstance(w, tuple) and g != w:
            return f"result {k}: {g}, expected {w}"
    return ""


def differences_of_written(want, made):
    """Of results that are arguments, whose strides and memory the run has from those."""
    found = [plain(*with_known(m, w))[:2] if isinstance(m, tuple) else m for w, m in zip(want, made)]
    expected = [w[:2] if isinstance(w, tuple) else w for w in want]
    return "" if found == expected else f"{found}, expected {expected}"


FLOATING_KERNELS = re.compile(
    r"(?:not implemented for|but got:?) '?(Half|BFloat16|Float8\w+|ComplexHalf|ComplexFloat|ComplexDouble|UInt\d+)\b"
)
OTHER_DEVICES = re.compile(
    r"pinned memory allocator|cudaGetDeviceCount|re-initialize CUDA|half to float conversion is not supported on CPU"
    r"|Could not run 'aten::\w+\.dtype' with arguments from the 'CPU' backend"
)
LARGE = re.compile(
    r"not enough memory|overflow|can't allocate|Storage size|MemoryError|bad_alloc|INT_MAX|too large"
    r"|std::length_error|vector::_M"
)


@functools.cache
def names(target):
    """How a refusal may name an operator: itself, or its name without the overload."""
    return target, "aten." + target.split(".")[1]


def refusal_category(draw, error):
    if not error.startswith("Error: ") or "internal error" in error:
        return INTERNAL
    if "is recorded as" in error or "was lowered to" in error:
        return INTERNAL
    return None if any(name in error for name in names(draw.target)) or "aten." in error else NAMELESS


def verdict(draw, number, eager, phase=lambda phase: None):
    """(category, what eager said, what Coil said). `eager` answers for the draw's number; `phase` is told before each
    side is tried.
    """
    phase(phase="eager")
    by_eager = eager.ask("answer", number)
    phase(phase="coil")
    made, error = lowered(draw, by_eager)
    phase(phase="verdict")
    refused = by_eager.refused
    if by_eager.crashed:
        return (error and refusal_category(draw, error)) or EAGER_CRASH, by_eager.crashed, error
    if error:
        return refusal_category(draw, error) or (BOTH if refused else REFUSED), refused or "computes", error
    if not refused:
        wrong = differences_of_written if draw.operator._schema.is_mutable else metadata_differences
        wrong = wrong(by_eager.results, made)
        return (METADATA if wrong else RIGHT), "computes", wrong
    if LARGE.search(refused):
        return MEMORY, refused, ""
    if OTHER_DEVICES.search(refused):
        return ELSEWHERE, refused, ""
    if "Expected a value of type" in refused:
        return NO_CALL, refused, ""
    if FLOATING_KERNELS.search(refused):
        return BEYOND, refused, ""
    if eager.ask("other", number) is True:
        return AT_RUN, refused, ""
    return COMPUTED, refused, str(made)
