"""Programs as users write them, each run in several ways and compared with eager: values, types, sizes, strides, which
tensors share memory, what arguments hold afterwards, gradients.

`@program(make, ...)` puts a function or a class of modules into PROGRAMS; `judge(name, way)` says what differs.
"""

import dataclasses
import logging
import pathlib
import tempfile
import warnings

import torch
from torch import nn
from torch.utils import _pytree as pytree

PROGRAMS = {}
WAYS = ("compile", "dynamic", "grad", "bf16", "package")
# Of values relative to the largest of a result: programs are many operators deep.
TOLERANCE = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.float16: 2e-2, torch.bfloat16: 4e-2}


@dataclasses.dataclass
class Program:
    """What to run, its arguments (one maker for each call, of different sizes), and the ways in which to run it."""

    run: object
    makers: tuple
    ways: tuple
    tolerance: float = None


def program(*makers, grad=False, bf16=False, package=True, dynamic=True, tolerance=None):
    """`makers`: functions that make the arguments of a call; those after the first have other sizes. The flags say in
    which ways the program is run."""

    def put(run):
        ways = ("compile", *(w for w, on in zip(WAYS[1:], (dynamic, grad, bf16, package)) if on))
        assert run.__name__ not in PROGRAMS, run.__name__
        PROGRAMS[run.__name__] = Program(run, makers, ways, tolerance)
        return run

    return put


class Called(nn.Module):
    """A function as a module, which torch.export wants."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def module_of(each):
    """The module, the same weights at each call."""
    torch.manual_seed(1)
    return each.run() if isinstance(each.run, type) else Called(each.run)


def tensors_of(value):
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def arguments_of(make, dtype=None, grad=False):
    """Made from a seed; floats of 32 bits in `dtype`, and wanting gradients where `grad`."""
    torch.manual_seed(2)
    args = make()
    wide = lambda t: t.dtype == torch.float32
    if dtype:
        args = pytree.tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and wide(x) else x, args)
    for t in tensors_of(args) if grad else ():
        if (t.is_floating_point() or t.is_complex()) and t.is_leaf:
            t.requires_grad_()
    return args


def sharing(tensors):
    """For each tensor the first of them that is the same object, and the first that lies in the same memory."""
    memory = [t.untyped_storage().data_ptr() if t.numel() else -k - 1 for k, t in enumerate(tensors)]
    objects = [id(t) for t in tensors]
    return [(objects.index(o), memory.index(m)) for o, m in zip(objects, memory)]


def outcome(call, module, args, grad=False):
    """All that a call leaves behind, by name."""
    torch.manual_seed(3)
    got = call(*args)
    results, given = tensors_of(got), tensors_of(args)
    left = {"structure": str(pytree.tree_structure(got)), "sharing": sharing([*given, *results])}
    left["numbers"] = [x for x in pytree.tree_leaves(got) if not isinstance(x, torch.Tensor)]
    shared = [m for _, m in left["sharing"]]
    # A result that sees memory of its own alone may begin where it likes.
    offset = lambda k, t: t.storage_offset() if shared.count(shared[len(given) + k]) > 1 else 0
    left["layout"] = [(t.shape, t.stride(), offset(k, t)) for k, t in enumerate(results)]
    left["argument layout"] = [(t.shape, t.stride(), t.storage_offset()) for t in given]
    left["asks for gradients"] = [t.requires_grad for t in results]
    left["result"] = [t.detach().clone() for t in results]
    left["argument"] = [t.detach().clone() for t in given]
    if grad:
        graded = [t for t in results if t.requires_grad]
        real = lambda t: torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        weights = lambda t: torch.linspace(0.1, 1, t.numel(), dtype=t.dtype).reshape(t.shape)
        sum((real(t) * weights(real(t))).sum().double() for t in graded).backward()
        left["gradient"] = [t.grad for t in [*given, *module.parameters()] if t.is_leaf]
    left["buffer"] = [b.detach().clone() for b in module.buffers()]
    return left


def far(got, want, tolerance):
    """How the tensors differ, in words; an empty string where they do not."""
    if got is None or want is None:
        return "" if got is want else "one of them is None"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    if want.is_conj() or got.is_conj() or want.is_neg() or got.is_neg():
        got, want = got.resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg()
    if want.is_floating_point() and want.element_size() == 1:
        got, want = got.view(torch.uint8), want.view(torch.uint8)
    if not (want.is_floating_point() or want.is_complex()):
        return "" if torch.equal(got, want) else f"{(got != want).sum()} of {want.numel()} elements differ"
    limit = tolerance or TOLERANCE.get(want.dtype, 2e-4)
    finite = want[want.isfinite()].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    try:
        torch.testing.assert_close(got, want, rtol=limit, atol=limit * scale, equal_nan=True)
    except AssertionError as e:
        return " ".join(str(e).split())
    return ""


def compared(got, want, tolerance=None, exact=None):
    """What differs, as lines. Where `exact` has the same in f64, a value that is no farther from it than `want` by much
    is right."""
    lines = []
    for kind in want:
        if kind in ("result", "argument", "gradient", "buffer"):
            if len(got[kind]) != len(want[kind]):
                lines.append(f"{len(got[kind])} of kind {kind}, not {len(want[kind])}")
                continue
            for k, (g, w) in enumerate(zip(got[kind], want[kind])):
                why = far(g, w, tolerance)
                if why and not (exact and is_as_near(g, w, exact[kind][k])):
                    lines.append(f"{kind} {k}: {why}")
        elif isinstance(want[kind], list) and len(got[kind]) == len(want[kind]):
            pairs = enumerate(zip(got[kind], want[kind]))
            lines += [f"{kind} {k}: {g}, not {w}" for k, (g, w) in pairs if g != w]
        elif got[kind] != want[kind]:
            lines.append(f"{kind}: {got[kind]}, not {want[kind]}")
    return lines


def is_as_near(got, want, exact):
    if exact is None or got is None or got.shape != exact.shape or not exact.is_floating_point():
        return False
    distance = lambda t: (t.double() - exact).norm().item()
    return distance(got) <= 1.5 * distance(want) + 2e-3 * exact.norm().item()


def through_compile(each, dtype=None, grad=False, dynamic=None):
    """What differs over all calls of one compiled module."""
    torch._dynamo.reset()
    module, other, third = module_of(each), module_of(each), None
    if dtype:
        module, other, third = module.to(dtype), other.to(dtype), module_of(each).double()
    compiled, lines = torch.compile(other, backend="coil", dynamic=dynamic, fullgraph=False), []
    for number, make in enumerate(each.makers):
        module.zero_grad(), other.zero_grad()
        want = outcome(module, module, arguments_of(make, dtype, grad), grad)
        got = outcome(compiled, other, arguments_of(make, dtype, grad), grad)
        exact = outcome(third, third, arguments_of(make, torch.float64, grad), grad) if third else None
        lines += [f"call {number}: {line}" for line in compared(got, want, each.tolerance, exact)]
    return lines


def free_sizes(args, makers):
    """Which sizes of the tensors in `args` differ between the calls, as torch.export takes it."""
    shapes = torch.export.ShapesCollection()
    for own, *others in zip(tensors_of(args), *(tensors_of(arguments_of(make)) for make in makers)):
        if free := [d for d in range(own.dim()) if any(t.shape[d] != own.shape[d] for t in others)]:
            shapes[own] = dict.fromkeys(free, torch.export.Dim.AUTO)
    return shapes


def is_taken(exported, args):
    """Whether the exported program is for these sizes: export may fix some that it was to leave free."""
    try:
        exported.module()(*args)
    except Exception:
        return False
    return True


def through_package(each):
    """What differs in a package that was saved and loaded."""
    import coil

    module, lines = module_of(each), []
    args = arguments_of(each.makers[0])
    shapes = free_sizes(args, each.makers[1:]) if len(each.makers) > 1 else None
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(module_of(each), args, dynamic_shapes=shapes)
        path = pathlib.Path(folder) / "m.coil"
        coil.compile(exported).save(path)
        model = coil.load(path)
        for number, make in enumerate(each.makers):
            if number and not is_taken(exported, arguments_of(make)):
                continue
            want = outcome(module, module, arguments_of(make))
            got = outcome(model, module, arguments_of(make))
            for kind in ("sharing", "asks for gradients", "structure", "argument layout", "layout", "buffer"):
                got[kind] = want[kind]
            lines += [f"call {number}: {line}" for line in compared(got, want, each.tolerance)]
    return lines


def judge(name, way):
    """What differs, as lines."""
    each = PROGRAMS[name]
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    if way == "package":
        return through_package(each)
    if way == "bf16":
        return through_compile(each, torch.bfloat16, "grad" in each.ways)
    return through_compile(each, None, way == "grad", True if way == "dynamic" else None)
