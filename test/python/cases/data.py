"""Reproducible tensors for the cases, and the list that each family of cases fills."""

import torch

from batch import Case

FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
INTS = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
ALL = {**FLOATS, **INTS, "b8": torch.bool}

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    1e-40,
    -1e-40,
    1e38,
    -1e38,
    float("inf"),
    float("-inf"),
    float("nan"),
    3.0,
    -7.0,
    88.0,
    -88.0,
    1e-3,
]


class Family:
    """Collects cases of one group; the data of each is drawn from a generator of the family's own."""

    def __init__(self, group):
        self.group, self.cases, self.random = group, [], torch.Generator().manual_seed(sum(map(ord, group)))

    def add(self, name, function, *args, tolerance=None, signs=False, exported_only=""):
        assert all(name != case.name for case in self.cases), name
        self.cases.append(Case(self.group, name, function, args, tolerance, signs, exported_only))

    def normal(self, *sizes, dtype=torch.float32):
        return torch.randn(sizes, generator=self.random).to(dtype)

    def uniform(self, low, high, *sizes, dtype=torch.float32):
        return (torch.rand(sizes, generator=self.random) * (high - low) + low).to(dtype)

    def integers(self, low, high, *sizes, dtype=torch.int64):
        """From low up to high - 1."""
        return torch.randint(low, high, sizes, generator=self.random).to(dtype)

    def bools(self, *sizes):
        return self.integers(0, 2, *sizes).bool()

    def any(self, dtype, *sizes):
        """Values that suit arithmetic in the dtype."""
        if dtype == torch.bool:
            return self.bools(*sizes)
        if dtype.is_floating_point:
            return self.normal(*sizes, dtype=dtype)
        return self.integers(0 if dtype == torch.uint8 else -9, 10, *sizes, dtype=dtype)
