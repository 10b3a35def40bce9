"""Programs with Triton kernels written in ways that users write them, each with what it gives as plain torch."""

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


def drawn(*sizes, seed=0, dtype=torch.float32):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


PROGRAMS = {}  # name -> (program, arguments, the same by torch)


def program(name, *args, gives):
    def register(function):
        PROGRAMS[name] = (function, args, gives)
        return function

    return register


# ---- How kernels are defined and called ----


@triton.jit
def scaled_kernel(x, out, n, scale=2.0, B: tl.constexpr = 64):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * scale, at < n)


@program("defaults", drawn(100), gives=lambda x: (x.sin() * 2).relu())
def defaults(x):
    """Torch takes a kernel whose call leaves defaults out to write to all that it is given."""
    out = torch.empty_like(x)
    scaled_kernel[(2,)](x.sin(), out, x.numel())
    return out.relu()


@program("an expanded operand and defaults", drawn(1, 64).expand(2, 64), gives=lambda x: x[0] * 2)
def expanded(x):
    out = torch.empty(64)
    scaled_kernel[(1,)](x, out, 64)
    return out


@program("constants by position", drawn(100), gives=lambda x: x * 3)
def by_position(x):
    out = torch.empty_like(x)
    scaled_kernel[(triton.cdiv(100, 32),)](x, out, x.numel(), 3.0, 32)
    return out


@program("keywords in another order", drawn(100), gives=lambda x: x * 3)
def by_keyword(x):
    out = torch.empty_like(x)
    scaled_kernel[(4,)](B=32, scale=3.0, n=x.numel(), out=out, x=x, num_warps=2, num_stages=1)
    return out


@program("run with a grid", drawn(100), gives=lambda x: x * 3)
def by_run(x):
    out = torch.empty_like(x)
    scaled_kernel.run(x, out, x.numel(), 3.0, 32, grid=(4, 1, 1), warmup=False)
    return out


@triton.jit
def named_kernel(self, kernel, grid, warmup, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(grid + at, tl.load(self + at) + tl.load(kernel + at) * warmup + n)


@program("parameters named as the launcher's own", drawn(64), drawn(64, seed=1), gives=lambda x, y: x + 2 * y + 64)
def named(x, y):
    out = torch.empty_like(x)
    named_kernel[(1,)](x, y, out, 2, 64, B=64)
    return out


@triton.jit(do_not_specialize=["n", "k"], do_not_specialize_on_alignment=["x"])
def unspecialized_kernel(x, out, n, k, B: "tl.constexpr"):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) * k, at < n)


@program("do_not_specialize, annotations as strings", drawn(64), gives=lambda x: x * 1)
def unspecialized(x):
    out = torch.empty_like(x)
    unspecialized_kernel[(2,)](x, out, 64, 1, B=32)
    return out


@triton.jit
def flags_kernel(x, out, number, yes, no, real, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    if yes:
        value += number
    if no:
        value *= 100
    tl.store(out + at, value + real.to(tl.float32))


@program("numbers of all kinds", drawn(64), gives=lambda x: x - 3 + 1.5)
def flags(x):
    out = torch.empty_like(x)
    flags_kernel[(1,)](x, out, -3, True, False, 1.5, B=64)
    return out


@program("a float is f32", drawn(64, dtype=torch.float16), gives=lambda x: (x.float() * torch.tensor(0.1)).half())
def of_half(x):
    out = torch.empty_like(x)
    scaled_kernel[(1,)](x, out, 64, 0.1)
    return out


@triton.heuristics({"EVEN": lambda a: a["n"] % 32 == 0})
@triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64}, num_warps=8)], key=["n"])
@triton.heuristics({"HALF": lambda a: a["B"] // 2, "ONE": lambda a: 1})
@triton.jit
def decorated_kernel(x, out, n, B: tl.constexpr, EVEN: tl.constexpr, HALF: tl.constexpr, ONE: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if EVEN:
        tl.store(out + at, tl.load(x + at))
    else:
        tl.store(out + at, tl.load(x + at, at < n) + HALF * 32 // B + ONE, at < n)


@program("heuristics above and below autotune", drawn(100), gives=lambda x: x + 17)
def decorated(x):
    out = torch.empty_like(x)
    decorated_kernel[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, out, x.numel())
    return out


@triton.autotune(
    [triton.Config({"B": b}) for b in (128, 32, 64)],
    key=["n"],
    prune_configs_by={
        "early_config_prune": lambda configs, args, **kwargs: [c for c in configs if c.kwargs["B"] < 100],
        "perf_model": lambda *args, **kwargs: -kwargs["B"],
        "top_k": 1,
    },
)
@triton.jit
def pruned_kernel(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n) + B, at < n)


@program("configurations pruned, then by a model", drawn(100), gives=lambda x: x + 64)
def pruned(x):
    out = torch.empty_like(x)
    pruned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, out, x.numel())
    return out


@triton.jit
def square(x):
    return x * x


@triton.jit
def positive(x):
    return tl.maximum(x, 0.0)


def made(scale, activation):
    SCALE = tl.constexpr(scale)

    @triton.jit
    def inner(v):
        return activation(v) * SCALE

    @triton.jit
    def closed_kernel(x, out, n, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + at, inner(tl.load(x + at, at < n)), at < n)

    return closed_kernel


class Holder:
    kernels = {"positive": made(2.0, positive)}
    squared = made(5.0, square)


@program("kernels in closures and in a class", drawn(64), gives=lambda x: (x.relu() * 2, x * x * 5))
def closures(x):
    one, other = torch.empty_like(x), torch.empty_like(x)
    Holder.kernels["positive"][(2,)](x, one, 64, B=32)
    Holder.squared[(2,)](x, other, 64, B=32)
    return one, other


@triton.constexpr_function
def half_of(n):
    return n // DIVISOR


DIVISOR = 2


@triton.jit
def half_kernel(x, out, n, B: tl.constexpr):
    HALF: tl.constexpr = half_of(B)
    at = tl.arange(0, HALF)
    tl.store(out + at, tl.load(x + at, at < n) * HALF, at < n)


@program("a function that runs while Triton compiles", drawn(30), gives=lambda x: x * 32)
def constexpr_functions(x):
    out = torch.empty_like(x)
    half_kernel[(1,)](x, out, 30, B=64)
    return out


@triton.jit
def shape_kernel(x, out, shape, B: tl.constexpr):
    at = tl.arange(0, B)
    inside = at < shape[0] * shape[1]
    tl.store(out + at, tl.load(x + at, inside) * shape[1], inside)


@program("a tuple of numbers", drawn(5, 7), gives=lambda x: x * 7)
def shape(x):
    out = torch.empty_like(x)
    shape_kernel[(1,)](x, out, tuple(x.shape), B=64)
    return out


@triton.jit
def cast_kernel(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n).to(tl.float32) * 2, at < n)


@program("8 bits", drawn(64).to(torch.float8_e5m2), drawn(64) > 0, gives=lambda x, y: (x.float() * 2, y.float() * 2))
def narrow(x, y):
    one, other = torch.empty(64), torch.empty(64)
    cast_kernel[(1,)](x, one, 64, B=64)
    cast_kernel[(1,)](y, other, 64, B=64)
    return one, other


# ---- What kernels write to ----


@triton.jit
def doubled_and_summed_kernel(x, total, n, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, at < n, 0.0)
    tl.store(x + at, value * 2, at < n)
    tl.store(total, tl.sum(value, 0))


@program("written in place, read by nobody after it", drawn(50), gives=lambda x: x.sin().sum()[None])
def dead_in_place(x):
    """What the kernel reads there must be computed all the same."""
    y, total = x.sin(), torch.empty(1)
    doubled_and_summed_kernel[(1,)](y, total, 50, B=64)
    return total


@triton.jit
def even_kernel(x, a, b, n, B: tl.constexpr):
    """Adds x to the elements of `a` at even places, and three times x to those of `b`."""
    at = tl.arange(0, B)
    even = (at < n) & (at % 2 == 0)
    value = tl.load(x + at, even)
    tl.store(a + at, tl.load(a + at, even) + value, even)
    tl.store(b + at, tl.load(b + at, even) + value * 3, even)


def added_at_even(x, a, b):
    even = torch.arange(40) % 2 == 0
    return torch.where(even, a + x, a), torch.where(even, b + 3 * x, b)


@program("two zeros", drawn(40), gives=lambda x: added_at_even(x, torch.zeros(40), torch.zeros(40)))
def two_zeros(x):
    """Equal values that are two memories stay two."""
    a, b = torch.zeros_like(x), torch.zeros_like(x)
    even_kernel[(1,)](x, a, b, 40, B=64)
    return a, b


@program("a value and its clone", drawn(40), gives=lambda x: added_at_even(x, x.sin(), x.sin()))
def clone(x):
    a = x.sin()
    b = a.clone()
    even_kernel[(1,)](x, a, b, 40, B=64)
    return a, b


@triton.jit
def halves_kernel(a, b, x, n, B: tl.constexpr):
    """x + 1 at even places of `a`, x + 2 at odd places of `b`."""
    at = tl.arange(0, B)
    value = tl.load(x + at, at < n)
    tl.store(a + at, value + 1, (at < n) & (at % 2 == 0))
    tl.store(b + at, value + 2, (at < n) & (at % 2 == 1))


def by_halves(a, b, x):
    a[::2], b[1::2] = (x + 1)[::2], (x + 2)[1::2]


def of_views(first, second, n=40):
    """A program that writes to two views of a value, and the same by torch."""

    def compiled(x):
        y = x * 2
        halves_kernel[(1,)](first(y), second(y), x, n, B=64)
        return y, y.sum()

    def plain(x):
        y = x * 2
        by_halves(first(y), second(y).view(-1)[:n], x[:n])
        return y, y.sum()

    return compiled, plain


for name, views, count in (
    ("one memory written through two shapes", (lambda y: y, lambda y: y.view(5, 8)), 40),
    ("overlapping parts of one memory", (lambda y: y[:30], lambda y: y[10:]), 30),
    ("halves of one memory", (lambda y: y[:20], lambda y: y[20:]), 20),
    ("a part and the whole", (lambda y: y[4:36], lambda y: y), 32),
):
    made_of_views = of_views(*views, count)
    PROGRAMS[name] = (made_of_views[0], (drawn(40),), made_of_views[1])


@triton.jit
def behind_kernel(out, x, n, B: tl.constexpr):
    """Reads `x` again once `out` is written."""
    at = tl.arange(0, B)
    value = tl.load(x + at, at < n, 0.0)
    tl.store(out + at, value + 1, at < n)
    tl.debug_barrier()
    tl.store(out + at, tl.load(x + at, at < 4) * 10, at < 4)


def written_before_read(x):
    y = (x * 2 + 1).view(-1)
    y[:4] *= 10
    return y.view(8, 4)


@program("read through a view behind the write", drawn(8, 4), gives=written_before_read)
def read_behind(x):
    y = x * 2
    behind_kernel[(1,)](y, y.view(-1), 32, B=32)
    return y


def written_input(x):
    by_halves(x, x, x * 2)
    return x + 1


@program("an input through itself and a view", drawn(40), gives=written_input)
def input_and_view(x):
    halves_kernel[(1,)](x, x[:], x * 2, 40, B=64)
    return x + 1


@triton.jit
def columns_kernel(a, b, x, step, n, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, at < n)
    tl.store(a + at * step, value + 1, at < n)
    tl.store(b + at * step, value + 2, at < n)


@program("columns of memory that is empty", drawn(40), gives=lambda x: torch.stack([x + 1, x + 2], 1))
def columns(x):
    out = torch.empty(40, 2)
    columns_kernel[(1,)](out[:, 0], out[:, 1], x, 2, 40, B=64)
    return out


@triton.jit
def strided_kernel(x, step, along, n, B: tl.constexpr):
    at = x + tl.program_id(0) * step + tl.arange(0, B) * along
    inside = tl.arange(0, B) < n
    tl.store(at, tl.load(at, inside) + 1, inside)


def transposed_slice(x):
    y = x * 2
    y[1:7, ::2] += 1
    return y, y[1:7, ::2].t() + 1


@program("in place on a transposed slice", drawn(10, 8), gives=transposed_slice)
def in_place_on_a_slice(x):
    y = x * 2
    v = y[1:7, ::2].t()
    strided_kernel[(v.shape[0],)](v, v.stride(0), v.stride(1), v.shape[1], B=16)
    return y, v + 1


@program("one output is dead", drawn(40), gives=lambda x: added_at_even(x, torch.zeros(40), x)[0])
def one_dead(x):
    a, b = torch.zeros_like(x), torch.empty_like(x)
    even_kernel[(1,)](x, a, b, 40, B=64)
    return a


# ---- Where kernels are called ----


@program("early return on an empty tensor", torch.empty(0, 4), gives=lambda x: x * 2)
def empty(x):
    out = torch.empty_like(x)
    scaled_kernel[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, out, x.numel(), B=32)
    return out


@program("in a branch", drawn(64), torch.tensor(True), gives=lambda x, p: x * 2)
def in_branch(x, p):
    def double(x):
        out = torch.empty_like(x)
        scaled_kernel[(1,)](x, out, 64)
        return out

    return torch.cond(p, double, lambda x: x + 1, (x,))


@program("in a loop", drawn(64), gives=lambda x: x * 8)
def in_loop(x):
    from torch._higher_order_ops.while_loop import while_loop

    def turn(i, x):
        out = torch.empty_like(x)
        scaled_kernel[(1,)](x, out, 64)
        return i + 1, out

    return while_loop(lambda i, x: i < 3, turn, (torch.tensor(0), x))[1]


@program("a size that data decides", drawn(64), gives=lambda x: x[x > 0] * 2)
def counted(x):
    y = x[x > 0]
    out = torch.empty_like(y)
    scaled_kernel[(triton.cdiv(y.numel(), 32),)](y, out, y.numel(), B=32)
    return out


@triton.jit
def activated_kernel(x, out, n, ACT: tl.constexpr, NAME: tl.constexpr, TYPE: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, at < n).to(TYPE)
    if NAME == "act":
        value = ACT(value)
    tl.store(out + at, value.to(out.dtype.element_ty), at < n)


@triton_op("coil_tests::activated", mutates_args={})
def activated(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(activated_kernel)[(1,)](x, out, 64, ACT=positive, NAME="act", TYPE=tl.float32, B=64)
    return out


@program("an operator with functions as constants", drawn(64, dtype=torch.float16), gives=torch.relu)
def operator(x):
    return activated(x)


@triton_op("coil_tests::add_one_", mutates_args={"x"})
def add_one_(x: torch.Tensor) -> None:
    wrap_triton(strided_kernel)[(1,)](x, 0, 1, x.numel(), B=64)


@program("an operator in place", drawn(50), gives=lambda x: (x.sin() + 1) * 2)
def operator_in_place(x):
    y = x.sin()
    add_one_(y)
    return y * 2


# ---- Training ----


class Scaled(torch.autograd.Function):
    """Kernels in the forward and in the backward graph, called as they are."""

    @staticmethod
    def forward(ctx, x, scale):
        out = torch.empty_like(x)
        scaled_kernel[(1,)](x, out, x.numel(), scale)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, gradient):
        out, gradient = torch.empty_like(gradient), gradient.contiguous()
        scaled_kernel[(1,)](gradient, out, gradient.numel(), ctx.scale)
        return out, None


class AddedAtEven(torch.autograd.Function):
    """Writes to equal values, which torch's partitioner computes once."""

    @staticmethod
    def forward(ctx, x):
        a, b = torch.zeros_like(x), torch.zeros_like(x)
        even_kernel[(1,)](x, a, b, 40, B=64)
        return a, b

    @staticmethod
    def backward(ctx, first, second):
        a, b = torch.zeros_like(first), torch.zeros_like(first)
        even_kernel[(1,)](first.contiguous(), a, b, 40, B=64)
        return a + second * (torch.arange(40, device=second.device) % 2 == 0) * 3


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda x: Scaled.apply(x.sin(), 3.0), x, use_reentrant=False).exp()


# name -> (program, argument, the same by torch)
TRAINED = {
    "a Function": (lambda x: Scaled.apply(x.sin(), 3.0).exp(), drawn(64), lambda x: (x.sin() * 3).exp()),
    "checkpointed": (checkpointed, drawn(64), lambda x: (x.sin() * 3).exp()),
    "equal values": (
        lambda x: sum(AddedAtEven.apply(x.sin())),
        drawn(40),
        lambda x: sum(added_at_even(x.sin(), torch.zeros(40), torch.zeros(40))),
    ),
}


# ---- What is refused ----


def several_types(x):
    y = x * 1.0
    halves_kernel[(1,)](y.view(torch.int32), y, x, 40, B=64)
    return y


@triton.jit
def several_kernel(xs, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(xs[0] + at, at < n) + tl.load(xs[1] + at, at < n), at < n)


@triton_op("coil_tests::several", mutates_args={})
def several(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(several_kernel)[(1,)]((x, x), out, 40, B=64)
    return out


def tuple_of_tensors(x):
    return several(x)


def in_place_on_expanded(x):
    y = (x[:1] * 1.0).expand(40)
    strided_kernel[(1,)](y, 0, 0, 40, B=64)
    return y
