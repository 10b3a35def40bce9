"""Programs whose order of calls decides how much is live at once, for tests and `bench/peaks.py`."""

import torch
from torch import nn


class Branches(nn.Module):
    """Sixteen branches whose wide values, 32 MiB each, are all made before the first is read."""

    def __init__(self):
        super().__init__()
        self.widen = nn.ModuleList(nn.Linear(64, 4096) for _ in range(16))
        self.narrow = nn.ModuleList(nn.Linear(4096, 8) for _ in range(16))

    def forward(self, x):
        wide = [torch.sin(f(x)) for f in self.widen]
        return sum(f(h) for f, h in zip(self.narrow, wide, strict=True))


class Sorted(nn.Module):
    """A sum over twelve sorted copies of a matrix of 4 MiB, all of them sorted before the first is added."""

    def forward(self, x):
        return sum([torch.sort(x * (k + 1), dim=-1).values for k in range(12)])


class ReadLate(nn.Module):
    """Eight values of 4 MiB that are made early from little and read late, one after the other."""

    def __init__(self):
        super().__init__()
        self.widen = nn.ParameterList(nn.Parameter(torch.randn(16, 1024)) for _ in range(8))
        self.narrow = nn.ParameterList(nn.Parameter(torch.randn(1024, 16) / 32) for _ in range(8))

    def forward(self, x):
        wide = [x @ w for w in self.widen]
        for h, w in zip(wide, self.narrow, strict=True):
            x = torch.tanh(x) + h @ w
        return x
