"""Programs with kernels that users wrote in Triton, and what they give in eager by Triton's interpreter."""

import contextlib

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from coil import triton_source

SCALE = tl.constexpr(3.0)


@triton.jit
def scaled_sum(a, b):
    """Keeps '''quotes''', \"\"\"more\"\"\" and \\ backslashes\\n as they are."""
    return a + b * SCALE


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, scaled_sum(tl.load(x + at, inside), tl.load(y + at, inside)), inside)


@triton.jit
def scale_kernel(x, n, factor, BLOCK: tl.constexpr):
    """In place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(x + at, tl.load(x + at, inside) * factor, inside)


@triton.jit
def softmax_kernel(x, out, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * row_stride + at, at < columns, float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + at, value / tl.sum(value, 0), at < columns)


@triton.jit
def optional_kernel(x, bias, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, inside)
    if bias is not None:
        value += tl.load(bias + at, inside)
    tl.store(out + at, value, inside)


@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def even_kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at) + 1.0)
    else:
        tl.store(out + at, tl.load(x + at, at < n) + 2.0, at < n)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=2), triton.Config({"BLOCK": 64}, num_warps=4)], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * BLOCK, at < n)


@triton.jit
def blocks_kernel(a, b, out, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for begin in range(0, k, BLOCK):
        inner = begin + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * k + inner[None, :], (rows[:, None] < m) & (inner[None, :] < k), 0.0)
        right = tl.load(b + inner[:, None] * n + columns[None, :], (inner[:, None] < k) & (columns[None, :] < n), 0.0)
        total += tl.dot(left, right)
    tl.store(out + rows[:, None] * n + columns[None, :], total, (rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def tiles_kernel(x, out, factor, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    out.store([i, j], x.load([i, j]) * factor)


@triton.jit
def runs_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N
    tl.store(out + at + tl.arange(0, N), x.load([at]) + 1)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=64)
    return out


def fused(x, y):
    """Pointwise code on either side of the kernel."""
    return (add(x.sin(), y + 1) * 2).relu()


def in_place(x):
    """Writes to a value that is needed again, and to one that is not."""
    y = x * 2
    z = y.clone()
    scale_kernel[(triton.cdiv(x.numel(), 32),)](y, x.numel(), 0.5, BLOCK=32)
    scale_kernel[(triton.cdiv(x.numel(), 32),)](y, x.numel(), 3, BLOCK=32)
    return y, z


def writes_input(x):
    scale_kernel[(triton.cdiv(x.numel(), 16),)](x, x.numel(), 2.0, BLOCK=16)
    return x + 1


def twice(x, y):
    """One kernel with two constants, and two grids."""
    out, more = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 16), 1)](x, y, out, n, BLOCK=16)
    add_kernel[(triton.cdiv(n, 128), 1, 1)](out, y, more, n, BLOCK=128)
    return out, more


def views(x, y):
    """Operands that begin inside of their memory, and one in the memory of a slice."""
    out = torch.zeros(40)
    add_kernel[(1,)](x[4:24], y[3:23], out[8:28], 20, BLOCK=32)
    return out


def same_memory(x):
    """One tensor for two of its parameters: in eager they are one memory."""
    y = x + 1
    add_kernel[(triton.cdiv(x.numel(), 64),)](y, x, y, x.numel(), BLOCK=64)
    return y


def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    softmax_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def optional(x, bias):
    one, other = torch.empty_like(x), torch.empty_like(x)
    optional_kernel[(1,)](x, None, one, x.numel(), BLOCK=128)
    optional_kernel[(1,)](x, bias, other, x.numel(), BLOCK=128)
    return one, other


def even(x):
    out = torch.empty_like(x)
    even_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def product(a, b):
    out = torch.empty(a.shape[0], b.shape[1])
    grid = (triton.cdiv(a.shape[0], 16), triton.cdiv(b.shape[1], 16))
    blocks_kernel[grid](a, b, out, a.shape[0], b.shape[1], a.shape[1], BLOCK=16)
    return out + 1


@triton.jit
def made_tiles_kernel(x, out, rows, columns, factor, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [M, N])
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    target.store(at, source.load(at) * factor)


def made_tiles(x):
    """By descriptors that the kernel makes for itself, in memory of its own."""
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[0], 8), triton.cdiv(x.shape[1], 16))
    made_tiles_kernel[grid](x, out, x.shape[0], x.shape[1], 2.5, M=8, N=16)
    return out


def empty_grid(x):
    y = x + 1
    scale_kernel[(0,)](y, 0, 2.0, BLOCK=16)
    return y


def scaled_tiles(x):
    out = torch.empty_like(x)
    tiles_kernel[(triton.cdiv(x.shape[0], 8), triton.cdiv(x.shape[1], 16))](
        TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(out, [8, 16]), 2.5, M=8, N=16
    )
    return out


def tiles(x):
    """Descriptors of a value that is made before, read beyond its end, and of one that is written."""
    given = x.sin()
    return scaled_tiles(given).relu() + given


def runs(x):
    out = torch.empty(64, device=x.device)
    runs_kernel[(2,)](TensorDescriptor.from_tensor(x[4:], block_shape=[32]), out, N=32)
    return out


def drawn(*sizes, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


# name -> (program, arguments)
PROGRAMS = {
    "add": (add, (drawn(100), drawn(100, seed=1))),
    "fused": (fused, (drawn(10, 13), drawn(10, 13, seed=1))),
    "in place": (in_place, (drawn(70),)),
    "writes an input": (writes_input, (drawn(70),)),
    "two constants": (twice, (drawn(100), drawn(100, seed=1))),
    "views": (views, (drawn(32), drawn(32, seed=1))),
    "same memory": (same_memory, (drawn(70),)),
    "softmax": (softmax, (drawn(5, 37),)),
    "softmax of a transposed slice": (lambda x: softmax(x[:, 2:20]), (drawn(5, 37),)),
    "none": (optional, (drawn(100), drawn(100, seed=1))),
    "heuristics, even": (even, (drawn(64),)),
    "heuristics, uneven": (even, (drawn(65),)),
    "autotuned": (tuned, (drawn(100),)),
    "product": (product, (drawn(20, 35), drawn(35, 18, seed=1))),
    "empty grid": (empty_grid, (drawn(10),)),
    "descriptors": (tiles, (drawn(20, 36),)),
    "descriptor of a view": (runs, (drawn(60),)),
}


class _Interpreted:
    """A kernel in the place of a jitted one: called in eager, it is interpreted."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(grid, args, kwargs)

    def run(self, grid, args, kwargs):
        from coil.host import _support

        kernel, chosen, heuristics = self.kernel, {}, {}
        while not isinstance(kernel, triton.JITFunction):
            if hasattr(kernel, "configs"):
                chosen = kernel.configs[0].kwargs
            else:
                heuristics |= kernel.values
            kernel = kernel.fn
        given = dict(zip(kernel.arg_names, args)) | kwargs | chosen
        for name, rule in heuristics.items():
            given[name] = rule(given)
        for p in kernel.params:
            if p.has_default:
                given.setdefault(p.name, p.default)
        text, _ = triton_source.program_text(kernel, {})
        made = _support().UserKernel(kernel.fn.__name__, "eager", text, [], [], {}, {})
        function, _ = made.make(True)
        grid = grid(given) if callable(grid) else grid
        if min(grid) > 0:
            with _support().interpreted_library():
                function[tuple(grid)](**given)


@contextlib.contextmanager
def in_eager():
    """While this lasts, the kernels of this file run in eager on tensors of the CPU."""
    jitted = {k: v for k, v in globals().items() if k.endswith("_kernel")}
    globals().update({k: _Interpreted(v) for k, v in jitted.items()})
    try:
        yield
    finally:
        globals().update(jitted)


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def expected(function, args):
    """Results in eager, and what is in the arguments then."""
    given = copies(args)
    with in_eager():
        result = function(*given)
    return result, given


class Add(torch.nn.Module):
    def forward(self, x, y):
        return add(x, y)


class ScaledTiles(torch.nn.Module):
    def forward(self, x):
        return scaled_tiles(x)


class Tiles(torch.nn.Module):
    def forward(self, x):
        return tiles(x)


class MadeTiles(torch.nn.Module):
    def forward(self, x):
        return made_tiles(x)


class Around(torch.nn.Module):
    """A view that begins inside of its memory, and Coil's own kernels on either side."""

    def forward(self, x, y):
        return add(x.sin()[1:], (y + 1)[1:]).relu()


@triton.jit
def broken_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, no_such_name + tl.load(x + at, at < n), at < n)  # noqa: F821


def broken(x):
    y = x + 1
    broken_kernel[(1,)](y, y.numel(), BLOCK=16)
    return y


@triton.jit
def annotated_kernel(x, n: tl.int32, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)


def annotated(x):
    y = x + 1
    annotated_kernel[(1,)](y, 2.5, BLOCK=16)
    return y


@triton.jit
def placed_kernel(x, places, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + tl.load(places + at), at * 1.0)


def placed_by_floats(x):
    y = x + 1
    placed_kernel[(1,)](y, x, BLOCK=8)
    return y


@triton.jit
def gather_kernel(x, places, out, N: tl.constexpr):
    """Elements go from thread to thread through shared memory: four bytes for each."""
    at = tl.arange(0, N)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(places + at), 0))


def gathered(x, places):
    out = torch.empty_like(x)
    gather_kernel[(1,)](x, places, out, N=65536, num_warps=16)
    return out


@triton.autotune(
    [triton.Config({"BLOCK": 32})],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, args, **kwargs: []},
)
@triton.jit
def pruned_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) + 1, at < n)


def pruned(x):
    y = x + 1
    pruned_kernel[(1,)](y, y.numel())
    return y


@torch.library.triton_op("coil_tests::doubled", mutates_args={})
def doubled_op(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch.library.wrap_triton(scale_kernel)[(triton.cdiv(x.numel(), 64),)](y, x.numel(), 2.0, BLOCK=64)
    return y


def doubled(x):
    return doubled_op(x) + 1


class Doubled(torch.nn.Module):
    def forward(self, x):
        return doubled(x)


class Twice(torch.autograd.Function):
    """A kernel in the forward graph, and the same in the backward graph."""

    @staticmethod
    def forward(ctx, x):
        return doubled_op(x)

    @staticmethod
    def backward(ctx, grad):
        return doubled_op(grad.contiguous())
