"""Small programs that between them use what archives of torch.export can hold. Each function returns (module, args,
kwargs, dynamic_shapes).
"""

import collections
import dataclasses

import torch
from torch import nn
from torch.export import Dim

Pair = collections.namedtuple("Pair", ["left", "right"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="fixtures.Pair")


@dataclasses.dataclass
class State:
    h: torch.Tensor
    c: torch.Tensor
    note: torch.Tensor = None


torch.export.register_dataclass(State, serialized_type_name="fixtures.State")


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, state):
        self.calls += 1
        state["h"].mul_(0.5).add_(self.lin(x).sum(0))
        return {"y": (self.lin(x).tanh(), self.calls * 1.0), "n": x.shape[0] + 1}


def nested():
    args = (torch.randn(3, 8), {"h": torch.randn(4)})
    return Nested(), args, {}, {"x": {0: Dim("n", min=1, max=100)}, "state": {"h": None}}


class Structure(nn.Module):
    def forward(self, a, pair, state, scale, mode, skip, *, flag, more):
        y = a + pair.left * scale
        if mode == "sub" and flag:
            y = y - pair.right
        z = State(h=state.h + 1, c=state.c * more[0][1])
        return Pair(y, [z, None]), {"k": {2: more[1]["deep"] + a}, "none": skip}, 7, 2.5


def structure():
    t = lambda: torch.randn(2)
    return (
        Structure(),
        (t(), Pair(t(), t()), State(t(), t()), 3, "sub", None),
        {"flag": True, "more": [(t(), t()), {"deep": t()}]},
        None,
    )


class Symbols(nn.Module):
    def forward(self, x, y, n):
        both = torch.cat([x, y])
        half = both[: both.shape[0] // 2]
        pooled = nn.functional.avg_pool1d(x.t()[None], 2)[0]
        rows = x.reshape(-1, 2, x.shape[1])
        return (
            half,
            pooled,
            rows,
            x.shape[0] * 3 - y.shape[0],
            torch.zeros(n, dtype=torch.int64),
            torch.full((max(x.shape[0], 5),), 1.5),
        )


def symbols():
    k = Dim("k", min=2, max=64)
    return (
        Symbols(),
        (torch.randn(6, 4), torch.randn(5, 4), 3),
        {},
        {"x": {0: 2 * k}, "y": {0: Dim.AUTO}, "n": Dim.DYNAMIC},
    )


class Weights(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.second = nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        whole = torch.arange(24.0)
        self.register_buffer("part", whole[6:18].view(3, 4))
        self.register_buffer("turned", whole[:12].view(3, 4).t())
        self.register_buffer("hidden", torch.arange(6), persistent=False)
        self.register_buffer("narrow", torch.arange(6).to(torch.bfloat16))
        self.empty = nn.Parameter(torch.empty(0, 6))
        self.constant = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

    def forward(self, x):
        x = self.second(self.first(x)) + self.hidden + self.constant + torch.tensor([2, 3, 5, 7, 11, 13]) + self.narrow
        return torch.cat([x, self.empty]), self.part @ self.turned


def weights():
    return Weights(), (torch.randn(2, 6),), {}, None


class Results(nn.Module):
    def forward(self, x):
        a, b, c = x.split([1, 2, 3], dim=1)
        values, indices = x.topk(2)
        top = x.max(dim=1)
        u = x.unbind(0)
        normed, mean, _ = torch.ops.aten.native_layer_norm(x, [6], None, None, 1e-5)
        return b, indices, top.values, u[1], normed, mean


def results():
    return Results(), (torch.randn(2, 6),), {}, None


class Arguments(nn.Module):
    def forward(self, x, i):
        a = x.masked_fill(x > 0, float("-inf")).to(torch.float16)
        b = x[:, i, None]
        c = nn.functional.gelu(x, approximate="tanh").clone(memory_format=torch.channels_last)
        d = torch.empty_like(x, memory_format=torch.contiguous_format).fill_(True)
        e = torch.arange(4, dtype=torch.int32, device="cpu", layout=torch.strided)
        f = nn.functional.interpolate(x, scale_factor=[2.0, 2.0], mode="nearest")
        g = torch.cat([x, d], dim=-1).sum(dim=(1, 2), keepdim=True, dtype=torch.float64)
        h = torch.div(x, 3, rounding_mode="floor").expand(x.shape[0], *x.shape[1:])
        k = nn.functional.conv2d(x, torch.ones(2, 2, 1, 1), padding="same")
        return a, b, c, e, f, g, h, k, torch.where(x > 1, x, float("nan"))


def arguments():
    return Arguments(), (torch.randn(2, 2, 3, 3), torch.tensor([1, 0])), {}, {"x": {0: Dim.AUTO}, "i": None}


class Control(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.lin(x) * 2
        z = torch.cond(x.sum() > 0, lambda x, y: (x + y,), lambda x, y: (x - y,), (x, y))
        return z[0] + 1


def control():
    return Control(), (torch.randn(2, 4),), {}, None


class Unbacked(nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= 10)
        return x.new_zeros(k) + 1, k * 2, x.nonzero()


def unbacked():
    return Unbacked(), (torch.randn(3), torch.tensor(4)), {}, None


@torch.library.custom_op("fixtures::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("fixtures::both", mutates_args=())
def both(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x + n, x - n


@both.register_fake
def _(x, n):
    return torch.empty_like(x), torch.empty_like(x)


class Custom(nn.Module):
    def forward(self, x):
        a, b = torch.ops.fixtures.both(torch.ops.fixtures.twice(x).relu(), 3)
        return torch.ops.fixtures.twice(a) + b


def custom():
    return Custom(), (torch.randn(2),), {}, None


class Recurrent(nn.Module):
    """Last states are what torch 2.11 records with a dimension too many; what is made of them follows."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 2, batch_first=True)
        self.rnn = nn.RNN(2, 3, bidirectional=True)

    def forward(self, x, c):
        y, (h, cell) = self.lstm(x, (c * 0.5, c))
        z, last = self.gru(y)
        w, both = self.rnn(z)
        cell.mul_(2)
        return y, h[-1], torch.cat([h, cell], -1).relu(), h.sum(0), last, w, both + h.sum()


def recurrent():
    return Recurrent(), (torch.randn(2, 5, 3), torch.randn(4, 2, 4)), {}, None


PROGRAMS = {
    f.__name__: f
    for f in (nested, structure, symbols, weights, results, arguments, control, unbacked, custom, recurrent)
}
DECOMPOSED = ("nested", "control")
