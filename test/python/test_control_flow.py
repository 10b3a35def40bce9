"""Programs that branch and loop: cond, while_loop, scan, map, nested in each other, with sizes that depend on data
inside and outside.
"""

import functools

import pytest
import torch
from torch._higher_order_ops import map as map_over, scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan

import coil_harness

ROWS = {0: torch.export.Dim("rows", min=1, max=64)}


@pytest.fixture(params=[False, True], ids=["exported", "decomposed"])
def check(request):
    """Every program in both forms that torch writes."""
    return functools.partial(coil_harness.check, decomposed=request.param)


class TwoNetworks(torch.nn.Module):
    """A branch between two subnetworks with weights of their own."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
        self.second = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x):
        y = x * 2
        z = torch.cond(
            x.sum() > 0,
            lambda a, b: (self.first(a).relu(), a.sum(0)),
            lambda a, b: (self.second(b) + self.shift, b.amax(0)),
            (x, y),
        )
        return z[0] + y, z[1]


def test_cond_between_networks(check):
    check(
        TwoNetworks().eval(),
        (torch.ones(3, 4),),
        dynamic=(ROWS,),
        others=[(sign * torch.rand(n, 4),) for n in (2, 7, 64) for sign in (1, -1)],
    )


def test_cond_on_sizes_nested(check):
    class Nested(torch.nn.Module):
        def forward(self, x):
            def small(x):
                return torch.cond(x.max() > 1, lambda x: x.cos(), lambda x: x.sin() + x.nonzero().sum(), (x,))

            return torch.cond(x.shape[0] > 4, lambda x: x * 3, small, (x,))

    check(
        Nested(),
        (torch.randn(6, 2),),
        dynamic=({0: torch.export.Dim.DYNAMIC},),
        others=[(torch.rand(n, 2) * scale,) for n, scale in [(5, 1), (4, 0.5), (3, 30)]],
    )


def test_cond_over_data_dependent_sizes(check):
    class Chosen(torch.nn.Module):
        def forward(self, x):
            y = x[x > 0]
            return torch.cond(y.sum() > 2, lambda y: y.cos(), lambda y: y.sin() + y.shape[0], (y,)) * 2

    check(
        Chosen(),
        (torch.randn(6),),
        others=[(torch.full((6,), -1.0),), (torch.ones(6),), (torch.tensor([1.0, -1, -1, -1, -1, -1]),)],
    )


class Newton(torch.nn.Module):
    """Square roots by iteration until nothing moves."""

    def forward(self, x, limit):
        def more(i, y, before):
            return (i < limit) & ((y - before).abs().max() > 1e-6)

        def step(i, y, before):
            return i + 1, 0.5 * (y + x / y), y.clone()

        return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x.clone(), torch.zeros_like(x)))


def test_while_loop_with_closures(check):
    check(
        Newton(),
        (torch.rand(5) + 0.5, torch.tensor(20)),
        others=[(torch.rand(5) * 100 + 1, torch.tensor(n)) for n in (0, 1, 50)],
    )


def test_while_loop_swaps_and_counts(check):
    class Fibonacci(torch.nn.Module):
        def forward(self, n, a, b):
            return while_loop(
                lambda i, a, b: i < n,
                lambda i, a, b: (i + 1, b.clone(), a + b),
                (torch.zeros((), dtype=torch.int64), a, b),
            )

    one = torch.ones(3, dtype=torch.int64)
    check(Fibonacci(), (torch.tensor(7), one * 0, one), others=[(torch.tensor(n), one, one * 2) for n in (0, 1, 60)])


class Collatz(torch.nn.Module):
    def forward(self, n):
        def step(n, count, twos):
            def even(n, twos):
                return while_loop(lambda n, t: (n % 2) == 0, lambda n, t: (n // 2, t + 1), (n, twos))

            n, twos = torch.cond((n % 2) == 0, even, lambda n, t: (3 * n + 1, t.clone()), (n, twos))
            return n, count + 1, twos

        zero = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda n, count, twos: n > 1, step, (n, zero, zero.clone()))


def test_loop_in_a_branch_in_a_loop(check):
    check(Collatz(), (torch.tensor(6),), others=[(torch.tensor(n),) for n in (1, 2, 27, 97)])


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(6, 4)

    def forward(self, x, h):
        def step(h, x):
            new = torch.tanh(self.cell(torch.cat([h, x], -1)))
            return new, new * 2

        return scan(step, h, x)


def test_scan(check):
    check(
        Recurrent().eval(),
        (torch.randn(5, 3, 2), torch.randn(3, 4)),
        dynamic=(ROWS, None),
        others=[(torch.randn(n, 3, 2), torch.randn(3, 4)) for n in (1, 13, 64)],
    )


class Mapped(torch.nn.Module):
    def forward(self, x, y):
        return map_over(lambda row, y: (row.sort().values + y, row @ y), x, y)


def test_map(check):
    check(Mapped(), (torch.randn(3, 4), torch.randn(4)))


class Linear(torch.nn.Module):
    """A linear recurrence h[t] = a[t]*h[t-1] + b[t], which torch exports as levels of vmap."""

    def forward(self, a, b):
        return associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), dim=0, combine_mode="generic")


@pytest.mark.parametrize("n", [1, 2, 7, 16])
def test_associative_scan(n, check):
    check(Linear(), (torch.rand(n, 3), torch.randn(n, 3)))


class Batched(torch.nn.Module):
    """vmap over any dimension, with what is not batched, and operators of every kind. (Nested, or with results batched
    elsewhere than first, torch itself fails to export it.)
    """

    def forward(self, x, y):
        each = torch.vmap(lambda a, b: (a @ b).relu().sum() + y.sum(), in_dims=(1, None))(x, y)
        return each, torch.vmap(lambda a: (a.cumsum(0) + y).sort().values, in_dims=1)(x)


def test_vmap(check):
    check(Batched(), (torch.randn(3, 5), torch.randn(3)))


@torch.compiler.nested_compile_region
def region(x, k):
    return x[x > 0].sum() * k + x.cos()


class Nested(torch.nn.Module):
    """Everything in everything, with sizes that data tell inside, outside and carried from turn to turn: a branch in a
    map in a loop, a branch in a scan in a branch, a region that is called twice in a loop.
    """

    def forward(self, x, n):
        def one(row, total):
            return torch.cond(
                row.sum() > 0,
                lambda r, t: r.nonzero().sum() + t.sum(),
                lambda r, t: r.abs().sum().long() + t.numel(),
                (row, total),
            )

        def many(x):
            return scan(
                lambda c, r: (
                    torch.cond(r.sum() > c.sum(), lambda c, r: c + r, lambda c, r: c - r, (c, r)),
                    r[r > 0].sum(),
                ),
                torch.zeros(3),
                x,
            )[0]

        zero = torch.zeros((), dtype=torch.int64)
        _, total = while_loop(
            lambda i, total: i < n,
            lambda i, total: (i + 1, total + map_over(one, x, total).sum()),
            (zero, torch.zeros(3, dtype=torch.int64)),
        )
        kept = x[x > 0]
        _, doubled = while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2 + kept), (zero, kept.clone()))
        _, regions = while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, region(x, 2) + region(x, 2)), (zero, x))
        return total, doubled, regions, torch.cond(x.sum() > 0, many, lambda x: x.sum(0), (x,))


def test_nested_with_sizes_that_data_tell(check):
    check(
        Nested(),
        (torch.randn(4, 3).round(), torch.tensor(3)),
        others=[(torch.randn(4, 3).abs(), torch.tensor(0)), (-torch.randn(4, 3).abs(), torch.tensor(5))],
    )


@torch.compiler.nested_compile_region
def finding(x):
    """Sizes that data tell, in the region itself and in a branch in it."""
    kept = x[x > 0]
    return torch.cond(
        kept.sum() > 1, lambda x, k: x[x > 0.5].sum() + k.sum(), lambda x, k: x[x < 0].sum() - k.shape[0], (x, kept)
    ), kept.exp().sum()


class RegionTwice(torch.nn.Module):
    """A region called with other data each time, which finds other sizes."""

    def forward(self, x, n):
        def turn(i, x):
            a, b = finding(x)
            c, d = finding(-x)
            return i + 1, x.cos() - 0.5 + 0.01 * (a + b * c + d)

        return while_loop(lambda i, x: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1]


def test_a_region_called_twice_with_other_sizes(check):
    check(
        RegionTwice(),
        (torch.randn(5, 3), torch.tensor(3)),
        others=[(torch.randn(5, 3).abs() * sign, torch.tensor(n)) for sign in (1, -1) for n in (0, 1, 7)],
    )


@torch.compiler.nested_compile_region
def settling(x, w, n):
    """A loop in a region, a branch in the loop: products of the library, sorts and sums along rows."""

    def turn(i, y):
        def falls(y):
            return torch.sort(y @ w, dim=1).values - torch.arange(3) * 0.5

        return i + 1, torch.cond(
            y.sum() > 0, falls, lambda y: (w @ y.transpose(0, 1)).t().cumsum(0).cos() + y.shape[0], (y,)
        )

    return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1]


class Settling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.eye(3) * 0.5 + 0.1)

    def forward(self, x, n):
        return settling(x, self.w, n) + settling(-x, self.w.exp(), n + 1)


def test_branch_in_a_loop_in_a_region(check):
    check(
        Settling(),
        (torch.randn(4, 3), torch.tensor(3)),
        others=[(torch.randn(4, 3) * sign, torch.tensor(n)) for sign in (1, -1) for n in (0, 1, 5)],
    )


class Suppress(torch.nn.Module):
    """Non-maximum suppression as a loop: the best box left takes out those that overlap it."""

    def forward(self, boxes, scores, limit):
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

        def more(kept, alive):
            return alive.any()

        def step(kept, alive):
            best = torch.where(alive, scores, float("-inf")).argmax().reshape(1)
            box = boxes.index_select(0, best).squeeze(0)
            wide = (torch.minimum(boxes[:, 2], box[2]) - torch.maximum(boxes[:, 0], box[0])).clamp(min=0)
            high = (torch.minimum(boxes[:, 3], box[3]) - torch.maximum(boxes[:, 1], box[1])).clamp(min=0)
            overlap = wide * high / (area + area.index_select(0, best) - wide * high)
            here = torch.arange(boxes.shape[0]) == best
            return kept | here, alive & (overlap <= limit) & ~here

        kept, _ = while_loop(
            more, step, (torch.zeros_like(scores, dtype=torch.bool), torch.ones_like(scores, dtype=torch.bool))
        )
        return torch.nonzero(kept)[:, 0], boxes[kept]


def test_non_maximum_suppression(check):
    def example(n):
        corner = torch.rand(n, 2) * 4
        return torch.cat([corner, corner + torch.rand(n, 2) * 3 + 0.1], 1), torch.randperm(n) / n, torch.tensor(0.3)

    check(Suppress(), example(20), others=[example(20) for _ in range(2)])


class TinyGpt(torch.nn.Module):
    """One layer of attention and a head; decodes greedily in a loop."""

    def __init__(self, words=17, width=16, length=12):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(length, width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words)

    def logits(self, tokens):
        x = self.words(tokens) + self.places.weight
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        return self.head(x)

    def forward(self, tokens, start):
        length = tokens.shape[1]

        def more(at, tokens):
            return at < length

        def step(at, tokens):
            best = self.logits(tokens).argmax(-1)
            before = best.gather(1, (at - 1).expand(tokens.shape[0], 1))
            return at + 1, torch.where(torch.arange(length) == at, before, tokens)

        return while_loop(more, step, (start, tokens))[1]


def test_greedy_decode(check):
    def example(start):
        return torch.randint(0, 17, (2, 12)), torch.tensor(start)

    check(TinyGpt().eval(), example(3), others=[example(1), example(12)])


def counter():
    return torch.zeros((), dtype=torch.int64)


# Results and carried values that share memory, where torch exports that.
SHARING = {
    "a branch gives its operand": (lambda x, n: torch.cond(n > 2, lambda x: x, lambda x: x * 2, (x,)), "exported"),
    "a branch gives one value twice": (
        lambda x, n: torch.cond(n > 2, lambda x: (lambda y: (y, y))(x + 1), lambda x: (x * 2, x * 3), (x,)),
        "exported",
    ),
    "a loop begins with one value twice": (
        lambda x, n: while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + b, b * 2), (counter(), x, x)),
        "exported",
    ),
    "a turn gives one value twice": (
        lambda x, n: while_loop(
            lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + b, a + b), (counter(), x.clone(), x * 2)
        ),
        "",
    ),
    "a turn gives its value turned round": (
        lambda x, n: while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.flip(0)), (counter(), x)),
        "",
    ),
    "a turn gives its value transposed": (
        lambda x, n: while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.t().contiguous()), (counter(), x[:3])),
        "",
    ),
    "a scan hands on what it gives": (lambda x, n: scan(lambda c, r: (c + r, c + r), torch.zeros(3), x), ""),
    "a loop reads what is outside": (
        lambda x, n: (lambda w: while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a @ w), (counter(), x)))(
            torch.eye(3) * 1.1
        ),
        "",
    ),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, n):
        return self.function(x, n)


@pytest.mark.parametrize("name", SHARING)
def test_values_that_share_memory(name, check):
    function, only = SHARING[name]
    if only and check.keywords["decomposed"]:
        pytest.skip("torch's run_decompositions() refuses results that alias")
    check(
        Function(function),
        (torch.randn(4, 3), torch.tensor(3)),
        others=[(torch.randn(4, 3), torch.tensor(n)) for n in (0, 1, 5)],
    )
