"""Sums over products of values that are repeated against each other, which become products of matrices, and other
reductions over all pairs, whose operands are turned: as near to the sums in f64 as eager's, in eager's strides.
"""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
coil = pytest.importorskip("coil")

ROUNDING = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 1e-3}  # in whatever order terms are added up


def distance(value, exact):
    return ((value.double() - exact).norm() / exact.norm()).item()


def check(function, *inputs, **options):
    exact, eager = function(*(x.double() for x in inputs)), function(*inputs)
    own = torch.compile(function, backend="coil", **options)(*inputs)
    assert (own.dtype, own.shape, own.stride()) == (eager.dtype, eager.shape, eager.stride())
    assert distance(own, exact) <= 1.5 * distance(eager, exact) + ROUNDING[own.dtype]


# As Mamba 2 is written without kernels of its own: batch, chunks of 64 places, heads, states, channels.
STATE_SPACES = {
    "scores": (lambda c, b: (c[:, :, None] * b[:, None]).sum(-1), (2, 64, 4, 32), (2, 64, 4, 32)),
    "values": (lambda m, x: (m[..., None] * x[:, None]).sum(dim=2), (2, 64, 64, 4), (2, 64, 4, 24)),
    "states": (lambda b, x: (b[..., None, :] * x[..., None]).sum(dim=1), (2, 64, 4, 32), (2, 64, 4, 24)),
    "chunks": (lambda d, s: (d[..., None, None] * s[:, :, None]).sum(dim=1), (2, 20, 24, 4), (2, 20, 4, 24, 32)),
    "outputs": (lambda c, s: (c[..., None, :] * s[:, None]).sum(-1), (2, 64, 4, 32), (2, 4, 24, 32)),
}
OTHERS = {
    "a product with a matrix": (lambda x, w: (x[:, :, None] * w).sum(1), (65, 33), (33, 47)),
    "several dimensions summed": (lambda x, w: (x[:, None] * w).sum((-1, -2)), (30, 6, 7), (40, 6, 7)),
    "kept as ones": (lambda x, w: (x[:, None] * w).sum((2, 3), keepdim=True), (30, 6, 7), (40, 6, 7)),
    "several dimensions of each": (lambda x, w: (x[:, :, None, None] * w).sum(-1), (9, 8, 1, 1, 64), (11, 12, 64)),
    "results turned": (lambda x, w: (x[None] * w[:, None]).sum(-1).t(), (40, 50), (60, 50)),
    "operands turned": (lambda x, w: (x.t()[:, None] * w).sum(-1), (50, 40), (60, 50)),
    "expanded": (lambda x, w: (x.unsqueeze(1).expand(40, 60, 50) * w.expand(40, 60, 50)).sum(-1), (40, 50), (60, 50)),
    "three factors": (lambda x, w, g: (x[:, None] * w * g[None, :, None]).sum(-1), (40, 50), (60, 50), (60,)),
    "a factor between": (lambda x, w, g: (x[:, None] * w * g[:, :, None]).sum(-1), (40, 50), (60, 50), (40, 60)),
    "one side summed alone": (lambda x, w: (x[:, None] * w[:, :, None]).sum((1, 2)), (40, 50), (40, 60)),
    "a mean": (lambda x, w: (x[:, None] * w).mean(-1), (60, 50), (70, 50)),
    "numbers between": (lambda x, w: ((x[:, None] * w) * 2 / 3).sum(-1), (60, 50), (70, 50)),
    "repeated beside": (lambda x, w: (x[:, None].expand(3, 60, 1, 50) * w).sum(-1), (60, 50), (70, 50)),
    "repeated and summed": (lambda x, w: (x[:, None].expand(3, 60, 1, 50) * w).sum((0, -1)), (60, 50), (70, 50)),
    "cosines": (lambda x, w: F.cosine_similarity(x[:, None], w[None], dim=-1), (60, 50), (70, 50)),
    "computed where it repeats": (
        lambda x, w: (x.unsqueeze(1).expand(60, 70, 50).exp() * w.expand(60, 70, 50).amax(-1, True).tanh() * w).sum(-1),
        (60, 50),
        (70, 50),
    ),
    "a single row": (lambda x, w: (x[None] * w).sum(-1), (5000,), (60, 5000)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", STATE_SPACES)
def test_state_spaces(name, dtype):
    function, *shapes = STATE_SPACES[name]
    check(function, *(torch.randn(s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    function, *shapes = OTHERS[name]
    check(function, *(torch.randn(s) for s in shapes))


PAIRS = {
    "distances": (lambda x, y: (x[:, None] - y).square().sum(-1), (300, 3), (400, 3)),
    "kept as one": (lambda x, y: (x[:, None] - y).square().sum(-1, keepdim=True), (300, 3), (400, 3)),
    "behind one place": (
        lambda x, y: (x[:, None, None, None] - y.permute(1, 0, 2)).abs().sum(-1),
        (2048,),
        (1, 64, 32),
    ),
    "of batches": (lambda x, y: (x[:, :, None] - y[:, None]).abs().sum(-1), (3, 100, 7), (3, 130, 7)),
    "greatest sums": (lambda x, y: (x[:, None] + y).amax(-1), (200, 40), (200, 40)),
    "logarithms": (lambda x, y: (x[:, None] + y).logsumexp(-1), (200, 33), (150, 33)),
    "turned": (lambda x, y: (x.t()[:, None] - y).abs().mean(-1), (16, 200), (150, 16)),
    "with itself": (lambda x, y: (x[:, None] - x).abs().sum(-1) + y, (200, 16), (200,)),
    "weighted": (lambda x, y: ((x[:, None] + y).tanh() * y[0]).sum(-1), (200, 16), (150, 16)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_all_pairs(name):
    function, *shapes = PAIRS[name]
    check(function, *(torch.randn(s) for s in shapes))


def test_free_sizes():
    function = torch.compile(lambda x, w: (x[:, :, None] * w[:, None]).sum(-1), backend="coil", dynamic=True)
    for rows, columns, terms in [(64, 48, 40), (65, 3, 40), (1, 7, 2), (200, 100, 31)]:
        x, w = torch.randn(3, rows, terms), torch.randn(3, columns, terms)
        exact = torch.einsum("bik,bjk->bij", x.double(), w.double())
        assert distance(function(x, w), exact) < 1e-6


def test_gradients_of_a_comparison_of_all_pairs():
    x, w = torch.randn(64, 40, requires_grad=True), torch.randn(48, 40, requires_grad=True)
    loss = lambda x, w: (torch.tanh(x[:, None] * 0.1) * torch.sigmoid(w)).sum(-1).square().sum()
    loss(x, w).backward()
    want, x.grad, w.grad = (x.grad, w.grad), None, None
    torch.compile(loss, backend="coil")(x, w).backward()
    for own, eager in zip((x.grad, w.grad), want, strict=True):
        assert torch.allclose(own, eager, rtol=1e-4, atol=1e-4)


def test_infinities_and_nan_stay_where_they_are():
    x, w = torch.randn(64, 40), torch.randn(48, 40)
    x[3, 5], w[7, 9], x[11, 0] = float("inf"), float("nan"), float("-inf")
    function = lambda x, w: (x[:, None] * w).sum(-1)
    own = torch.compile(function, backend="coil")(x, w)
    assert torch.allclose(own, function(x, w), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_integers_are_added_up_as_they_are():
    x, w = torch.randint(-9, 9, (64, 40)), torch.randint(-9, 9, (48, 40))
    function = lambda x, w: (x[:, None] * w).sum(-1)
    assert torch.equal(torch.compile(function, backend="coil")(x, w), function(x, w))
