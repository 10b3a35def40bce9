"""Branches, loops and regions through `torch.compile(backend="coil")`: values and gradients are eager's."""

import functools
import signal
import time

import pytest
import torch
from torch._higher_order_ops import map as map_over, scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan

from test_torch_compile import compiled, same

pytestmark = pytest.mark.usefixtures("fresh")

WEIGHT = torch.tensor([0.5, -1.5, 1.25])


def zero():
    return torch.zeros((), dtype=torch.int64)


@torch.compiler.nested_compile_region
def region(x, w):
    return x.sin() * w + x.shape[0]


@torch.compiler.nested_compile_region
def finding(x):
    """Finds sizes in its data, and branches on them."""
    kept = x[x > 0]
    return torch.cond(kept.sum() > 1, lambda x, k: x.cos() + k.sum(), lambda x, k: x.sin() - k.shape[0], (x, kept))


@torch.compiler.nested_compile_region
def settled(x, w):
    def turn(i, y):
        return i + 1, torch.cond(
            y.sum() > 0, lambda y: (y @ y.transpose(0, 1) @ y).tanh() * w, lambda y: y.cos() - w, (y,)
        )

    return while_loop(lambda i, y: i < 3, turn, (zero(), x))[1]


def branch(x):
    return torch.cond(x.sum() > 0, lambda x: x * WEIGHT, lambda x: x.sin(), (x,))


def branch_in_branch(x):
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: (x.cos(), x.sum(0)), lambda x: (x - WEIGHT, x.amax(0)), (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: (x.exp(), x.mean(0)), (x * 2,))


def counted(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, (a * WEIGHT).sin()), (zero(), x))


def until(x):
    """The turns depend on the data."""
    return while_loop(
        lambda a, n: a.abs().sum() > 1, lambda a, n: (a * 0.5 * WEIGHT.abs().sqrt(), n + a.sum()), (x, x.sum())
    )


def loop_with_a_branch(x):
    def turn(i, a):
        return i + 1, torch.cond(a.sum() > 0, lambda a: a * 0.5 - WEIGHT, lambda a: a.cos(), (a,))

    return while_loop(lambda i, a: i < 4, turn, (zero(), x))


def scanned(x):
    return scan(lambda c, r: (c + r * WEIGHT, c * r), torch.ones(3), x)


def scanned_backwards(x):
    return scan(lambda c, r: (c * 0.5 + r, (c - r).tanh()), torch.ones(3), x, reverse=True)


def mapped(x):
    return map_over(lambda row, w: (row * w).cumsum(0), x, WEIGHT)


def map_of_branches(x):
    return map_over(lambda row: torch.cond(row.sum() > 0, lambda r: r.exp(), lambda r: r * 2, (row,)), x)


def recurrence(x):
    return associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x.sigmoid(), x), dim=0, combine_mode="generic"
    )


def regions(x):
    return region(x, WEIGHT) + region(x * 2, WEIGHT.exp())


def regions_in_a_loop(x):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, region(region(a, WEIGHT), WEIGHT)), (zero(), x))


def region_of_a_loop_of_branches(x):
    return settled(x, WEIGHT) + settled(-x, WEIGHT.exp())


def autocast_in_a_branch(x):
    def narrow(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.t()).float()

    return torch.cond(x.sum() > 0, narrow, lambda x: x @ x.t(), (x,))


FUNCTIONS = [
    branch,
    branch_in_branch,
    counted,
    until,
    loop_with_a_branch,
    scanned,
    scanned_backwards,
    mapped,
    map_of_branches,
    recurrence,
    regions,
    regions_in_a_loop,
    region_of_a_loop_of_branches,
    autocast_in_a_branch,
]


def inputs(*sizes):
    return [torch.randn(n, 3) * scale for n, scale in zip(sizes, (1, -1, 0.1, 3))] + [
        torch.rand(sizes[0], 3),
        -torch.rand(sizes[0], 3),
    ]


def references(f, xs):
    """Eager's; what torch compiles for them by another backend is forgotten."""
    want = [f(x.clone()) for x in xs]
    torch._dynamo.reset()
    return want


@pytest.mark.parametrize("f", [branch_in_branch, recurrence], ids=lambda f: f.__name__)
def test_inference(f):
    xs = inputs(4, 4, 4)
    with torch.inference_mode():
        want = references(f, xs)
        g = compiled(f)
        same([g(x.clone()) for x in xs], want)


# (Torch unrolls the associative scan for one length.)
@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f is not recurrence], ids=lambda f: f.__name__)
def test_symbolic_sizes(f):
    xs = inputs(4, 4, 5, 7)
    with torch.no_grad():
        want = references(f, xs)
        g = compiled(f, dynamic=True)
        same([g(x.clone()) for x in xs], want)


def gradients(f, x):
    x = x.clone().requires_grad_()
    results = f(x)
    results = [r for r in (results if isinstance(results, tuple) else [results]) if r.is_floating_point()]
    torch.manual_seed(1)
    sum((r * torch.randn_like(r)).sum() for r in results).backward()
    return [r.detach() for r in results], x.grad


# Torch has no gradient of these.
WITHOUT = {regions_in_a_loop}


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f not in WITHOUT], ids=lambda f: f.__name__)
def test_gradients(f):
    xs = inputs(4, 4, 4)
    want = references(functools.partial(gradients, f), xs)
    g = compiled(f)
    for x, (results, gradient) in zip(xs, want):
        got = gradients(g, x)
        same(got[0], results)
        same(got[1], gradient)


# Programs of which only the values are looked at.
def kept(x):
    y = x[x > 0]
    return torch.cond(y.sum() > 1, lambda y: y.cos(), lambda y: y.sin() + y.shape[0], (y,))


def on_a_number(x):
    n = (x > 0).sum().item()
    return torch.cond(n > 3, lambda x: x[:2].sum() + n, lambda x: x.sin().sum() - n, (x,))


def of_two_sizes(x):
    return torch.cond(x.sum() > 0, lambda x: x[x > 0], lambda x: x.flatten()[:2].clone(), (x,))


def a_number_carried(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5), (0, x))


def constants(x):
    """Tensors that belong to the branches, under one name in torch's graphs."""
    return torch.cond(
        x.sum() > 0, lambda x: x + torch.tensor([1.0, 2.0, 3.0]), lambda x: x * torch.tensor([3.0, 4.0, 5.0]), (x,)
    )


def without_gradient(x):
    def narrow(x):
        with torch.no_grad():
            y = x * 2
        return x + y

    return torch.cond(x.sum() > 0, narrow, lambda x: x * 1, (x,))


def finding_twice(x):
    return finding(x) + finding(-x)


def regions_of_two_sizes(x):
    return region(x, WEIGHT).sum() + region(x[1:], WEIGHT).sum()


@pytest.mark.parametrize(
    "f",
    [
        kept,
        on_a_number,
        of_two_sizes,
        a_number_carried,
        constants,
        without_gradient,
        finding_twice,
        regions_of_two_sizes,
    ],
    ids=lambda f: f.__name__,
)
def test_values(f):
    xs = inputs(4, 4, 4)
    with torch.no_grad():
        want = references(f, xs)
        g = compiled(f)
        same([g(x.clone()) for x in xs], want)


@torch.compiler.nested_compile_region
def writing(x):
    x.add_(1)
    return x * 2


def writes_to_its_operand(x):
    y = x * 2
    return torch.cond(
        x.sum() > 0, lambda y, x: y.add_(x.sum()).sum(0), lambda y, x: y.mul_(2).sum(0) - x.sum(), (y[1:], x)
    ), y + 1


def writes_to_a_column(x):
    y = x * 2
    return torch.cond(x.sum() > 0, lambda y: y.add_(1).sum(), lambda y: y.mul_(2).sum(), (y[:, 1],)), y


def writes_to_an_input_on_one_side(x):
    return torch.cond(x.sum() > 0, lambda x: x.add_(1).sum(), lambda x: x.sum(), (x,)), x * 2


def regions_that_write(x):
    return writing(x[1:]) + writing(x[:3]), x * 3


def a_loop_that_writes_to_what_is_outside(x):
    """To a row of one value and to all of another, and its condition reads what it writes."""
    y, z = x * 2, torch.zeros(3)
    return (
        while_loop(
            lambda i, a: i < 4 + z.sum().abs() * 0,
            lambda i, a: (i + 1, a + y[1].mul_(0.5) + z.add_(a.sum(0))),
            (zero(), x),
        ),
        y,
        z,
    )


@pytest.mark.parametrize(
    "f, dynamic",
    [
        (writes_to_its_operand, False),
        (writes_to_its_operand, True),
        (writes_to_a_column, False),
        (writes_to_an_input_on_one_side, False),
        (regions_that_write, False),
        (a_loop_that_writes_to_what_is_outside, False),
    ],
)
def test_graphs_that_write_to_what_they_are_given(f, dynamic):
    def call(g, x):
        x = x.clone()
        return g(x), x

    xs = inputs(4, 4, 4)
    with torch.no_grad():
        want = references(functools.partial(call, f), xs)
        g = compiled(f, dynamic=dynamic)
        same([call(g, x) for x in xs], want)


def test_a_loop_of_no_turns():
    """Torch stacks the first values of such a loop for its gradient."""

    def f(x, n):
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, (a * WEIGHT).sin()), (zero(), x))

    for n in (0, 2):
        x = torch.randn(4, 3)
        (want,) = references(lambda x: gradients(lambda x: f(x, torch.tensor(n)), x), [x])
        got = gradients(lambda x: compiled(f)(x, torch.tensor(n)), x)
        same(got[0], want[0])
        same(got[1], want[1])


def test_other_operators_are_refused_by_name():
    from torch._higher_order_ops.strict_mode import strict_mode

    with pytest.raises(Exception, match="strict_mode"):
        compiled(lambda x: strict_mode(lambda x: (x.sin(),), (x,)))(torch.randn(3))


def test_a_condition_that_random_numbers_decide():
    """Training counts the turns first, and would draw others."""

    def f(x):
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + torch.rand(()).round().long(), a * 2), (zero(), x))

    with pytest.raises(Exception, match="random numbers decide"):
        compiled(f)(torch.randn(4, requires_grad=True))


def test_an_endless_loop_is_interrupted():
    """As by Ctrl-C: a signal's handler that raises; the program takes the next input."""

    def raises(*_):
        raise TimeoutError

    def f(by, x):
        return while_loop(lambda i, x: i < 10, lambda i, x: (i + by, x * 0.5 + 1), (zero(), x))

    x = torch.rand(4)
    with torch.no_grad():
        (want,) = references(lambda x: f(torch.tensor(3), x), [x])
        g = compiled(f)
        same(g(torch.tensor(3), x), want)
        old = signal.signal(signal.SIGALRM, raises)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begin = time.monotonic()
            with pytest.raises(TimeoutError):
                g(torch.tensor(0), x)
            assert time.monotonic() - begin < 5
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        same(g(torch.tensor(3), x), want)
