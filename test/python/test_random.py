"""Random numbers: distributions at fixed seeds, where seeds come from, dropout and its gradient, training steps.
Numbers are not eager's; what follows from them is.
"""

import importlib.util
import math
import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import coil_ok, device, export, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")


# ---- Distributions

N = 20000


def uniform_of(low, high):
    return lambda x: ((x - low) / (high - low)).clamp(0, 1)


def normal_of(mean, deviation):
    return lambda x: torch.special.ndtr((x - mean) / deviation)


def filled(value, dtype=torch.float32, n=N):
    return torch.full((n,), value, dtype=dtype)


# Name -> (what draws, the cumulative distribution that continuous ones have, bounds of the values: from the first on,
# below or up to the second).
CONTINUOUS = {
    "gamma": (
        lambda: torch._standard_gamma(filled(2.5)),
        lambda x: torch.special.gammainc(torch.tensor(2.5, dtype=torch.float64), x),
        (0, 40),
    ),
    "gamma_small": (
        lambda: torch._standard_gamma(filled(0.3, torch.float64)),
        lambda x: torch.special.gammainc(torch.tensor(0.3, dtype=torch.float64), x),
        (0, 40),
    ),
    "dirichlet": (
        lambda: torch._sample_dirichlet(torch.tensor([1.0, 2.0]).expand(N, 2))[:, 0],
        lambda x: 1 - (1 - x) ** 2,
        (0, 1),
    ),
    "poisson_of_many": (lambda: torch.poisson(filled(4e6, torch.float64)), normal_of(4e6, 2e3), (3.98e6, 4.02e6)),
    "binomial_of_many": (
        lambda: torch.binomial(filled(2e7, torch.float64), filled(0.4, torch.float64)),
        normal_of(8e6, 4.8e6**0.5),
        (7.98e6, 8.02e6),
    ),
    "rand": (lambda: torch.rand(N), uniform_of(0, 1), (0, 1)),
    "rand_rows": (lambda: torch.rand(200, 100), uniform_of(0, 1), (0, 1)),
    "rand_f64": (lambda: torch.rand(N, dtype=torch.float64), uniform_of(0, 1), (0, 1)),
    "rand_like": (lambda: torch.rand_like(torch.empty(100, 200).t()), uniform_of(0, 1), (0, 1)),
    "randn": (lambda: torch.randn(N), normal_of(0, 1), (-7, 7)),
    "randn_f64": (lambda: torch.randn(N, dtype=torch.float64), normal_of(0, 1), (-9, 9)),
    "randn_like": (lambda: torch.randn_like(torch.empty(N)), normal_of(0, 1), (-7, 7)),
    "uniform_": (lambda: torch.empty(N).uniform_(-3, 5), uniform_of(-3, 5), (-3, 5)),
    "normal_": (lambda: torch.empty(N).normal_(2, 3), normal_of(2, 3), (-20, 24)),
    "normal_tensors": (lambda: torch.normal(filled(1.0), filled(2.0)), normal_of(1, 2), (-14, 16)),
    "normal_mean": (lambda: torch.normal(filled(1.0), 2.0), normal_of(1, 2), (-14, 16)),
    "normal_deviation": (lambda: torch.normal(1.0, filled(2.0)), normal_of(1, 2), (-14, 16)),
    "normal_sizes": (lambda: torch.normal(1.0, 2.0, (N,)), normal_of(1, 2), (-14, 16)),
    "exponential_": (lambda: torch.empty(N).exponential_(2.0), lambda x: 1 - torch.exp(-2 * x), (0, 20)),
    "cauchy_": (
        lambda: torch.empty(N).cauchy_(1.0, 2.0),
        lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5,
        (-math.inf, math.inf),
    ),
    "log_normal_": (lambda: torch.empty(N).log_normal_(0.5, 0.25), lambda x: normal_of(0.5, 0.25)(x.log()), (0, 20)),
}


# Name -> (what draws, how likely each value is).
def poisson_of(rate):
    return {k: math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(60)}


def binomial_of(n, p):
    return {k: math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)}


DISCRETE = {
    "poisson": (lambda: torch.poisson(filled(3.5)), poisson_of(3.5)),
    "poisson_small": (lambda: torch.poisson(filled(0.2, torch.float64)), poisson_of(0.2)),
    "binomial": (lambda: torch.binomial(filled(10.0), filled(0.3)), binomial_of(10, 0.3)),
    "binomial_f64": (
        lambda: torch.binomial(filled(4.0, torch.float64), filled(0.9, torch.float64)),
        binomial_of(4, 0.9),
    ),
    "bernoulli": (lambda: torch.bernoulli(filled(0.3)), {0: 0.7, 1: 0.3}),
    "bernoulli_": (lambda: torch.empty(N).bernoulli_(0.9), {0: 0.1, 1: 0.9}),
    "bernoulli_of": (
        lambda: torch.empty(N, dtype=torch.int64).bernoulli_(filled(0.25, torch.float64)),
        {0: 0.75, 1: 0.25},
    ),
    "randint": (lambda: torch.randint(5, (N,)), {i: 0.2 for i in range(5)}),
    "randint_low": (lambda: torch.randint(-2, 2, (N,), dtype=torch.int32), {i: 0.25 for i in range(-2, 2)}),
    "randint_like": (lambda: torch.randint_like(filled(0.0), 3, 7), {i: 0.25 for i in range(3, 7)}),
    "random_to": (lambda: torch.empty(N, dtype=torch.int64).random_(4), {i: 0.25 for i in range(4)}),
    "random_bool": (lambda: torch.empty(N, dtype=torch.bool).random_(), {0: 0.5, 1: 0.5}),
    "geometric_": (lambda: torch.empty(N).geometric_(0.5), {i: 0.5**i for i in range(1, 25)}),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([0.0, 1.0, 0.0, 2.0, 1.0, 0.0]), N, replacement=True),
        {1: 0.25, 3: 0.5, 4: 0.25},
    ),
    "multinomial_one": (lambda: torch.multinomial(torch.tensor([[1.0, 3.0]]).expand(N, 2), 1), {0: 0.25, 1: 0.75}),
    "dropout": (lambda: F.dropout(torch.ones(N), 0.2), {0: 0.2, 1.25: 0.8}),
    "feature_dropout": (lambda: F.dropout1d(torch.ones(N // 2, 2, 3), 0.2)[:, :, 0], {0: 0.2, 1.25: 0.8}),
}
OTHERS = {
    "rand_bf16": lambda: torch.rand(N, dtype=torch.bfloat16),
    "rand_f16": lambda: torch.rand(N, dtype=torch.float16),
    "randn_bf16": lambda: torch.randn(N, dtype=torch.bfloat16),
    "random_i64": lambda: torch.empty(N, dtype=torch.int64).random_(),
    "randint_wide": lambda: torch.randint(-(2**40), 2**40, (N,)),
    "randperm": lambda: torch.randperm(1000),
    "without_replacement": lambda: torch.multinomial(torch.ones(50, 20), 20),
    "alpha_dropout": lambda: F.alpha_dropout(torch.randn(N), 0.3, True),
    "feature_dropout_whole": lambda: F.dropout2d(torch.ones(40, 50, 3, 4), 0.5),
    "rrelu": lambda: F.rrelu(torch.linspace(-1, 1, N), 0.1, 0.4, True),
    "nothing_dropped": lambda: F.dropout(torch.ones(10), 0.0),
    "all_dropped": lambda: F.dropout(torch.ones(10), 1.0),
}


class Draws(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x):
        return {name: f() for name, f in self.of.items()} | {"x": x + 1}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draws")
    every = {k: v[0] for k, v in (CONTINUOUS | DISCRETE).items()} | OTHERS
    export(Draws(every), (torch.zeros(2),), folder / "m.pt2")
    coil_ok("compile", folder / "m.pt2", "-o", folder / "m.coil")
    return folder / "m.coil"


@pytest.fixture(scope="module")
def drawn(package):
    return run(package, {"x": torch.zeros(2)}, package.parent, "--seed", 11)


def expected(f):
    with torch.no_grad():
        return f()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(drawn, name):
    f, cumulative, (low, high) = CONTINUOUS[name]
    want, x = expected(f), drawn[name]
    assert (x.dtype, x.shape) == (want.dtype, want.shape)
    assert x.min() >= low and x.max() < high and x.isfinite().all()
    # Kolmogorov and Smirnov: past 1.95 / sqrt(n) one sample in a thousand; the seed is fixed.
    x = x.reshape(-1).double().sort().values
    n, at = x.numel(), cumulative(x)
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    distance = max((at - steps[:-1]).max().item(), (steps[1:] - at).max().item())
    assert distance * math.sqrt(n) < 1.95, f"{name}: distance {distance}"


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(drawn, name):
    f, likely = DISCRETE[name]
    want, x = expected(f), drawn[name]
    assert (x.dtype, x.shape) == (want.dtype, want.shape)
    x, n = x.reshape(-1).double(), x.numel()
    assert set(x.unique().tolist()) <= set(likely)
    for value, p in likely.items():
        seen, deviation = (x == value).sum().item(), math.sqrt(n * p * (1 - p))
        assert abs(seen - n * p) < 4 * deviation + 1, f"{name}: {value} came {seen} times of {n}"


def test_other_draws(drawn):
    for name, f in OTHERS.items():
        want = expected(f)
        assert (drawn[name].dtype, drawn[name].shape) == (want.dtype, want.shape), name
    # As fine as torch's: 8 and 11 bits.
    assert torch.equal(drawn["rand_bf16"] * 256, (drawn["rand_bf16"] * 256).round()) and drawn["rand_bf16"].max() < 1
    assert torch.equal(drawn["rand_f16"] * 2048, (drawn["rand_f16"] * 2048).round()) and drawn["rand_f16"].max() < 1
    assert abs(drawn["randn_bf16"].float().std().item() - 1) < 0.02
    assert drawn["random_i64"].min() >= 0 and drawn["random_i64"].double().mean() / 2**62 == pytest.approx(1, abs=0.03)
    assert (
        drawn["randint_wide"].min() >= -(2**40)
        and drawn["randint_wide"].max() < 2**40
        and drawn["randint_wide"].unique().numel() > N - 5
    )
    assert torch.equal(drawn["randperm"].sort().values, torch.arange(1000)) and not torch.equal(
        drawn["randperm"], torch.arange(1000)
    )
    rows = drawn["without_replacement"]
    assert torch.equal(rows.sort(-1).values, torch.arange(20).expand(50, 20)) and rows[:, 0].unique().numel() > 5
    assert abs(drawn["alpha_dropout"].mean().item()) < 0.03 and abs(drawn["alpha_dropout"].std().item() - 1) < 0.03
    features = drawn["feature_dropout_whole"].reshape(40, 50, 12)
    assert torch.equal(features, features[:, :, :1].expand_as(features)) and set(features.unique().tolist()) == {0, 2}
    x, y = torch.linspace(-1, 1, N), drawn["rrelu"]
    slope = (y / x)[x < 0]
    assert (
        torch.equal(y[x > 0], x[x > 0])
        and slope.min() > 0.0999
        and slope.max() < 0.4001
        and abs(slope.mean().item() - 0.25) < 0.01
    )
    assert torch.equal(drawn["nothing_dropped"], torch.ones(10)) and torch.equal(drawn["all_dropped"], torch.zeros(10))


def test_operators_and_neighbours_are_independent(drawn):
    # Correlations of n pairs lie within 4 / sqrt(n) of 0, but for one in ten thousand.
    a, b, c = (drawn[k].reshape(-1).double() for k in ("rand", "rand_rows", "rand_f64"))
    for x, y in [(a, b), (a, c), (b, c), (a[1:], a[:-1]), (a[4:], a[:-4]), (a[64:], a[:-64])]:
        assert abs(torch.corrcoef(torch.stack([x, y]))[0, 1].item()) < 4 / math.sqrt(len(x))
    assert a.unique().numel() > N - 50


def test_seeds_of_a_package(package):
    x = {"x": torch.zeros(2)}
    one, same, other, free, again = (
        run(package, x, package.parent, *options) for options in (("--seed", 1), ("--seed", 1), ("--seed", 2), (), ())
    )
    for name in one:
        assert torch.equal(one[name], same[name]), name
    for first, second in [(one, other), (one, free), (free, again)]:
        assert not torch.equal(first["rand"], second["rand"]) and not torch.equal(first["randperm"], second["randperm"])
    model = coil.load(package)
    model.seed(5)
    first, second = (model(torch.zeros(2)) for _ in range(2))
    model.seed(5)
    third, fourth = (model(torch.zeros(2)) for _ in range(2))
    assert not torch.equal(first["rand"], second["rand"])
    for name in first:
        assert torch.equal(first[name], third[name]) and torch.equal(second[name], fourth[name]), name


# ---- Programs around it


class Training(nn.Module):
    """Layers that draw in training."""

    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(8, 8, 2, dropout=0.5)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.1), nn.RReLU())
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.5)

    def forward(self, x):
        y = self.recurrent(x)[0]
        return y, self.block(y), F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), self.attention(x, x, x)[0]


@pytest.mark.parametrize("decomposed", [False, True])
def test_exported_in_training(decomposed, tmp_path):
    torch.manual_seed(0)
    module, x = Training().train(), torch.randn(5, 3, 8)
    export(module, (x,), tmp_path / "m.pt2", decomposed=decomposed)
    model = coil.compile(tmp_path / "m.pt2", options={"cache": "none"})
    model.seed(0)
    calls = [model(x) for _ in range(200)]
    for k, want in enumerate(module(x)):
        assert calls[0][k].shape == want.shape
        # torch 2.13's decomposition of LSTM leaves its dropout out.
        assert (decomposed and k == 0) or not torch.equal(calls[0][k], calls[1][k])
    # The mean over masks is attention without them.
    mean = torch.stack([c[2] for c in calls]).mean(0)
    torch.testing.assert_close(mean, F.scaled_dot_product_attention(x, x, x), rtol=0, atol=0.6)


class Places(nn.Module):
    """Draws in place, over sizes that are free, in other layouts, and read in parts."""

    def forward(self, x):
        image = x.reshape(-1, 2, 2, 2).to(memory_format=torch.channels_last)
        y = F.dropout(x * 1, 0.5, inplace=True)
        return (
            F.rrelu(F.alpha_dropout(y * 1, 0.5, True, True), 0.1, 0.2, True, True),
            y,
            F.dropout(image, 0.5),
            F.dropout2d(image * 1, 0.5, True, True),
            y[:, 1:3].t().contiguous(),
            F.pad(y, (1, 2)),
            torch.rand(8).expand(3, 8) * 1,
        )


def test_draws_at_every_place():
    rows = torch.export.Dim("rows", min=0, max=1000)
    model = coil.compile(Places(), (torch.ones(5, 8),), dynamic_shapes=({0: rows},), options={"cache": "none"})
    for n in (0, 1, 7, 300):
        slopes, y, image, features, part, padded, repeated = model(torch.ones(n, 8))
        assert (slopes.shape, y.shape, image.shape, features.shape) == ((n, 8), (n, 8), (n, 2, 2, 2), (n, 2, 2, 2))
        assert torch.equal(part, y[:, 1:3].t()) and torch.equal(padded, F.pad(y, (1, 2)))
        assert torch.equal(repeated, repeated[:1].expand(3, 8)) and repeated.unique().numel() == 8
        assert torch.equal(features, features[:, :, :1, :1].expand_as(features))
        if n == 300:
            assert all(abs(t.mean().item() - 1) < 0.2 for t in (y, image, features)) and slopes.isfinite().all()


def test_each_turn_of_a_loop_draws_anew(tmp_path):
    class Loop(nn.Module):
        def forward(self, xs):
            from torch._higher_order_ops import scan

            return scan(lambda carry, x: (carry + 1, x + torch.rand(6)), torch.zeros(()), xs)[1]

    export(Loop(), (torch.zeros(5, 6),), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    got = run(tmp_path / "m.coil", {"xs": torch.zeros(5, 6)}, tmp_path, "--seed", 3)["output"]
    assert got.unique().numel() == 30 and got.min() >= 0 and got.max() < 1


def test_emitted_programs_draw(tmp_path):
    from emitted import build_program, call_program, emit, load_module

    export(nn.Dropout(0.5).train(), (torch.ones(1000),), tmp_path / "m.pt2")
    x = torch.ones(1000)
    there = x.to(device())
    program = build_program(emit(tmp_path / "m.pt2", "cpp"))
    calls = {
        "cpp": lambda: call_program(program, {"input": x})["output"],
        "python": lambda call=load_module(emit(tmp_path / "m.pt2", "python")).call: call([there])[0],
        "fx": lambda graph=load_module(emit(tmp_path / "m.pt2", "fx")).load(): graph(there)[0],
    }
    for name, call in calls.items():
        torch.manual_seed(1)
        one, two = call().clone(), call().clone()
        assert set(one.unique().tolist()) == {0, 2} and 400 < (one == 0).sum() < 600, name
        assert not torch.equal(one, two), name
        if name != "cpp":
            torch.manual_seed(1)
            assert torch.equal(call(), one), name


# ---- torch.compile


def compiled(f, **options):
    return torch.compile(f, backend="coil", fullgraph=True, options=options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_and_its_gradient(dtype):
    x = torch.rand(33, 65, dtype=dtype) + 0.5
    x.requires_grad_()
    f = compiled(lambda x: F.dropout(x, 0.1))
    torch.manual_seed(0)
    y = f(x)
    y.sum().backward()
    dropped = y == 0
    assert torch.equal(dropped, x.grad == 0) and 0.06 < dropped.float().mean() < 0.14
    # What is kept is scaled as eager scales it, bit by bit.
    scale = (torch.ones_like(x) * (1 / 0.9)).detach()
    native = torch.ops.aten.native_dropout(torch.ones_like(x).detach(), 0.1, True)
    assert set(native[0].unique().tolist()) == {0, scale[0, 0].item()}
    torch.testing.assert_close(y[~dropped], (x * (1 / 0.9))[~dropped], rtol=0, atol=0)
    torch.testing.assert_close(x.grad[~dropped], scale[~dropped], rtol=0, atol=0)


def test_random_slopes_and_their_gradient():
    x = torch.randn(50, 40, requires_grad=True)
    y = compiled(lambda x: F.rrelu(x, 0.1, 0.3, True))(x)
    y.sum().backward()
    slopes = (y / x).detach()
    torch.testing.assert_close(x.grad, slopes, rtol=1e-5, atol=1e-6)
    assert (
        torch.equal(x.grad[x > 0], torch.ones_like(x)[x > 0])
        and slopes[x < 0].min() > 0.099
        and slopes[x < 0].max() < 0.301
        and slopes[x < 0].unique().numel() > 500
    )


def test_torch_seeds_graphs():
    f = compiled(lambda x: (F.dropout(x, 0.5), torch.rand(8), torch.randn_like(x)))
    x = torch.ones(64)

    def calls(seed):
        torch.manual_seed(seed)
        return [f(x), f(x)]

    one, same, other = calls(1), calls(1), calls(2)
    for a, b, c in zip(one, same, other):
        for u, v, w in zip(a, b, c):
            assert torch.equal(u, v) and not torch.equal(u, w)
    for u, v in zip(*one):
        assert not torch.equal(u, v)


def test_equal_calls_draw_apart():
    a, b, c = compiled(lambda: (torch.rand(16), torch.rand(16), torch.rand(16) * 2))()
    assert not torch.equal(a, b) and not torch.equal(a * 2, c)


def test_numbers_are_one_in_every_use():
    # Once in memory, once in sums over rows and columns, which recompute it or read it.
    def f(x):
        y = F.dropout(x, 0.5)
        return y, y.sum(-1), y.sum(0), y.t().contiguous(), (y * 2)[:, 3:9]

    y, rows, columns, transposed, part = compiled(f)(torch.rand(40, 70))
    torch.testing.assert_close(rows, y.sum(-1))
    torch.testing.assert_close(columns, y.sum(0))
    assert torch.equal(transposed, y.t()) and torch.equal(part, (y * 2)[:, 3:9])


def test_fallback_random_is_eager():
    def f(x):
        return F.dropout(x, 0.3) + torch.rand(20) + torch.randn_like(x), torch.bernoulli(x), torch.randint(9, (7,))

    x = torch.rand(4, 20)
    torch.manual_seed(3)
    want = f(x)
    torch.manual_seed(3)
    got = compiled(f, fallback_random=True)(x)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, rtol=1e-6, atol=1e-6)


def test_checkpointed_layers_draw_the_same_again():
    from torch.utils.checkpoint import checkpoint

    weight = torch.rand(16, 16)

    def f(x):
        return checkpoint(
            lambda x: F.dropout(F.dropout(x @ weight, 0.5).exp().log(), 0.5) * torch.rand(16), x, use_reentrant=False
        ).sum()

    # The logarithm of exp(x) is x: all is linear, so that the value is what its gradient says, if both drew the same.
    results = []
    for _ in range(2):
        x = (torch.rand(8, 16) / 16).requires_grad_()
        y = torch.compile(f, backend="coil")(x)
        y.backward()
        torch.testing.assert_close(y.detach(), (x * x.grad).sum().detach(), rtol=1e-4, atol=1e-4)
        results.append(x.grad)
    assert not torch.equal(*results) and (results[0] != 0).any()


def bert():
    import transformers

    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, vocab_size=120
    )
    return transformers.BertForMaskedLM(config).train()  # with dropout of 0.1


def test_bert_learns_with_dropout():
    torch.manual_seed(0)
    model, ids = bert(), torch.randint(0, 120, (4, 16))
    step, optimizer = torch.compile(model, backend="coil"), torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = step(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses)) and losses[-1] < 0.6 * losses[0], losses


def test_masks_are_stored_where_they_are_drawn(tmp_path):
    # Of two equal layers each kernel stores its own mask, so that both are one kernel; the mask is a result, which
    # nothing in the program reads.
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

        def forward(self, x):
            first, kept = torch.native_dropout(x, 0.25, True)
            y = self.norm(first + x)
            z = self.linear(y)
            second, also_kept = torch.native_dropout(z, 0.25, True)
            return self.norm(second + z), kept, z, also_kept

    model, x = Layers().eval(), torch.randn(32, 64)
    export(model, (x,), tmp_path / "m.pt2")
    for options in ((), ("--set", "cuda.emulate=true")):
        said = coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options).stdout
        assert " 1 kernels," in said, said
        got = run(tmp_path / "m.coil", {"x": x}, tmp_path, "--seed", 3)
        result, kept, z, also_kept = (got[str(k)] for k in range(4))
        dropped = lambda x, kept: torch.where(kept, x / 0.75, 0.0)  # noqa: E731
        with torch.no_grad():
            torch.testing.assert_close(z, model.linear(model.norm(dropped(x, kept) + x)))
            torch.testing.assert_close(result, model.norm(dropped(z, also_kept) + z), rtol=1e-4, atol=1e-5)
        assert 0.7 < kept.float().mean() < 0.8 and not torch.equal(kept, also_kept)


# ---- CUDA


def test_attention_on_a_gpu_finds_what_it_drew():
    # The gradient of some kernels reads the seed on the CPU, where eager has it, though tracing says GPU; here in place
    # of a GPU is torch's device of no memory.
    from coil import host

    class Kernel:
        def __init__(self, op, result):
            self._schema, self.result, self.seen = op._schema, result, None

        def __call__(self, *args):
            self.seen = args
            return self.result

    aten, seed = torch.ops.aten, torch.tensor(7)
    forward = Kernel(
        aten._scaled_dot_product_efficient_attention.default, (torch.ones(1, device="meta"), None, seed, seed)
    )
    backward = Kernel(aten._scaled_dot_product_efficient_attention_backward.default, None)
    devices = {}
    host._remembering(forward, devices)(1, 2)
    forward.result = (None, None, torch.zeros((), device="meta"), None)
    host._reminded(backward, devices)(*[None] * 7, seed, seed, 0.1)
    assert backward.seen[7].device.type == "cpu" and backward.seen[9] == 0.1
    host._remembering(forward, devices)(1, 2)
    host._reminded(backward, devices)(*[None] * 7, seed, seed, 0.1)
    assert backward.seen[7].device.type == "meta" and backward.seen[8].device.type == "meta"
    assert (
        host.find("aten._scaled_dot_product_efficient_attention.default").__name__ == "call"
        and host.find("aten.add.Tensor") is aten.add.Tensor
    )


DRAWS = (
    {k: CONTINUOUS[k][0] for k in ("rand", "rand_rows", "rand_f64")}
    | {k: DISCRETE[k][0] for k in ("bernoulli_", "randint", "dropout")}
    | {"fused": lambda: F.layer_norm(F.dropout(torch.ones(30, 200), 0.1) + 1, (200,))}
)


def test_cuda_text_draws_the_same(tmp_path):
    export(Draws(DRAWS), (torch.zeros(2),), tmp_path / "m.pt2")
    results = []
    for name, options in {"cpu": (), "cuda": ("--set", "cuda.emulate=true")}.items():
        coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / f"{name}.coil", *options)
        results.append(run(tmp_path / f"{name}.coil", {"x": torch.zeros(2)}, tmp_path, "--seed", 4))
    for name in DRAWS:
        torch.testing.assert_close(results[1][name], results[0][name], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not importlib.util.find_spec("nvidia"), reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.cpu("compiles for a GPU that is not there")
@pytest.mark.full
def test_cuda_text_compiles(tmp_path):
    from test_cuda_text import NVRTC, compile_for

    if NVRTC is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    every = {k: v[0] for k, v in (CONTINUOUS | DISCRETE).items() if not k.startswith("multinomial")} | {
        k: v for k, v in OTHERS.items() if k not in ("randperm", "without_replacement")
    }
    compile_for("sm_90a", Draws(every), (torch.zeros(2),), tmp_path)
