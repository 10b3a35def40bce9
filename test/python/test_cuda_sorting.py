"""Sorting on CUDA: the kernels' text run on the CPU against eager, and through NVRTC. Short rows in one block's memory,
longer ones in merged pieces, long ones digit by digit by many blocks.
"""

import pytest
import torch
from torch.export import Dim

from batch import Batch, Case, outcomes
from coil_harness import check
from test_cuda_text import NVRTC, compile_for

EMULATE = ("--set", "cuda.emulate=true")
TILE = 4096  # ir::RadixState::kTile
SPECIAL = [float("nan"), float("inf"), -0.0, 0.0, float("-inf"), -float("nan"), 1e-40, -1e-40]
DTYPES = [
    torch.bool,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def values(dtype, *sizes):
    """Many equal ones, and all that is special."""
    x = torch.randn(*sizes, generator=torch.Generator().manual_seed(sizes[-1]), dtype=torch.float64) * 50
    if dtype.is_floating_point:
        x[..., ::37] = x[..., ::37].round()
        for k, special in enumerate(SPECIAL):
            x[..., 5 + k :: 997] = special
        return x.to(dtype)
    if dtype == torch.bool:
        return x > 0
    x = x.round().to(torch.int64) << (8 * max(0, dtype.itemsize - 2))
    return x.to(dtype)


def both_ways(x):
    return x.sort(dim=-1, stable=True), x.sort(dim=-1, stable=True, descending=True)


def ascending(x):
    return x.sort(dim=-1, stable=True)


def descending(x):
    return x.sort(dim=-1, stable=True, descending=True)


# As short as rows may be for many blocks to sort them: more merges than half as many digits.
LONG = {1: TILE + 1, 2: 2 * TILE + 1, 4: 4 * TILE + 1, 8: 8 * TILE + 1}


def ranked(k):
    def function(x):
        (value, place), (middle, middle_place) = x.kthvalue(k, -1), x.median(-1)
        return value, middle, x.gather(-1, place.unsqueeze(-1)), x.gather(-1, middle_place.unsqueeze(-1))

    return function


def distinct(*sizes):
    return torch.randperm(torch.Size(sizes).numel(), generator=torch.Generator().manual_seed(7)).reshape(sizes)


CASES = [
    *[
        Case("ranks", f"rank_{name_of(t)}", ranked(n // 3 + 1), (values(t, 2, n),))
        for t, n in zip(DTYPES[1:], (700, 1, 65, 2048, 4096, 4097, 1000, 9001, 2))
    ],
    Case(
        "ranks",
        "rank_of_distinct",
        lambda x, y: (
            x.kthvalue(1, -1),
            x.kthvalue(900, -1),
            x.median(-1),
            y.kthvalue(5, 0, keepdim=True),
            (x * 1e30 - 1e34).float().kthvalue(450, -1),
        ),
        (distinct(5, 900), distinct(64, 3).float()),
    ),
    Case(
        "ranks",
        "rank_of_alike",
        lambda x: (x.kthvalue(3000, -1).values, x.median(-1).values),
        (torch.full((3, 3001), -2.5),),
    ),
    Case(
        "ranks", "rank_of_one_long_row", lambda x: (x.kthvalue(12345), x.median(0)), (distinct(33000).to(torch.int32),)
    ),
    *[
        Case("block", f"block_{name_of(t)}", both_ways, (values(t, 2, 1500 if t.itemsize < 8 else 2048),), signs=True)
        for t in DTYPES
    ],
    *[
        Case(
            "long",
            f"long_{name_of(t)}",
            ascending if t.itemsize == 8 else both_ways,
            (values(t, LONG[t.itemsize]),),
            signs=True,
        )
        for t in DTYPES
    ],
    *[
        Case("sizes", f"block_of_{n}", both_ways, (values(torch.float32, 2, n),), signs=True)
        for n in (513, 1024, 1025, TILE - 1, TILE)
    ],
    *[
        Case("sizes", f"tiles_of_{n}", ascending, (values(torch.uint8, 2, n),))
        for n in (2 * TILE - 1, 2 * TILE, 2 * TILE + 1, 11 * TILE + 7)
    ],
    Case("rows", "rows_of_tiles", descending, (values(torch.bfloat16, 3, 2, 2 * TILE + 3),), signs=True),
    Case(
        "rows",
        "other_dim",
        lambda x: x.sort(dim=0, stable=True, descending=True),
        (values(torch.float16, 2, 2 * TILE + 3).t().contiguous(),),
        signs=True,
    ),
    Case("rows", "strided", lambda x: x[:, ::2].sort(dim=-1, stable=True), (values(torch.uint8, 2, 2 * TILE + 10),)),
    Case("rows", "none", lambda x: (x.sort(-1), x.t().contiguous().sort(-1)), (torch.zeros(0, 5 * TILE),)),
    Case("alike", "one_value", both_ways, (torch.full((TILE + 900,), 7, dtype=torch.uint8),)),
    Case("alike", "shared_digits", ascending, ((torch.arange(5 * TILE, dtype=torch.int32) * 7919) % 251 + 70000,)),
    Case(
        "alike",
        "shared_by_one_row",
        both_ways,
        (
            torch.stack(
                [torch.full((2 * TILE + 5,), 300, dtype=torch.int16), torch.arange(2 * TILE + 5).to(torch.int16) * 31]
            ),
        ),
    ),
    Case("used", "argsort", lambda x: x.argsort(stable=True), (values(torch.bfloat16, 3 * TILE),)),
    Case(
        "used",
        "first_of_all",
        lambda x: x.topk(3000, sorted=True).values,
        (values(torch.float32, 4 * TILE + 9).nan_to_num(0.0),),
    ),
]


@pytest.fixture(scope="module")
def sorted_cases():
    return outcomes(CASES, False, *EMULATE)


@pytest.mark.xdist_group("sorting on the CPU")  # compiled once
@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_sorted(sorted_cases, name):
    assert not sorted_cases[name]


@pytest.mark.parametrize("usual", [2 * TILE + 3, 1500])
def test_symbolic_length(usual):
    """One program for a row of any length: what one block sorts, whole tiles and none; made for long rows, and for
    short ones.
    """

    class Module(torch.nn.Module):
        def forward(self, x):
            return tuple(x.sort(dim=-1, stable=True))

    others = [
        (values(torch.uint8, 2, n) if n else torch.zeros(2, 0, dtype=torch.uint8),)
        for n in (0, 1, TILE - 1, TILE, TILE + 1)
    ]
    check(
        Module(),
        (values(torch.uint8, 2, usual),),
        dynamic={"x": {1: Dim("n", min=0)}},
        others=others,
        settings=EMULATE[1:],
    )


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_compiles(arch, tmp_path):
    cases = [
        c
        for c in CASES
        if c.name
        in (
            "block_float32",
            "block_int64",
            "long_bool",
            "long_bfloat16",
            "long_float64",
            "shared_digits",
            "rank_float32",
            "rank_float64",
            "rank_int8",
        )
    ]
    compile_for(arch, Batch(cases), ({c.name: c.args for c in cases},), tmp_path)
