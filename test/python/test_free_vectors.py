"""Kernels whose rows are of a free length: eager's values at whole and at odd lengths, with vectors in each form."""

import pathlib
import re
import sys

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from coil_harness import check, coil_ok, export
from test_alternatives import holds, launches
from test_cuda_text import NVRTC

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")

EMULATE = "cuda.emulate=true"
BF16 = torch.bfloat16
ROWS = Dim("rows", min=0, max=5000)
LENGTH = Dim("length", min=0, max=200000)
LONGER = Dim("length", min=4, max=200000)
NARROWS = ("views", "argmax", "ends")  # programs that want rows of some elements


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y, w):
        return self.function(x, y, w)


def operands(rows, length, dtype, other=torch.float32):
    """Of rows and length: x and y, and w along the rows."""
    make = torch.Generator().manual_seed(7 * rows + length)
    x, y = (torch.randn(rows, length, generator=make) for _ in range(2))
    return x.to(dtype), y.to(other), torch.randn(length, generator=make).to(dtype)


def rms_norm(x, w):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


REDUCTIONS = {
    "softmax": lambda x, y, w: x.softmax(-1),
    "layer_norm": lambda x, y, w: F.layer_norm(x, (x.shape[-1],), w, w),
    "rms_norm": lambda x, y, w: rms_norm(x, w),
    "moments": lambda x, y, w: torch.var_mean(x.float() + y, -1, correction=0),
    "sums": lambda x, y, w: ((x * y).sum(-1), x.float().sum(), (x > 0).sum(-1)),
    "views": lambda x, y, w: (x[:, 1:].softmax(-1), y[:, :-1].float().log_softmax(-1), x[:, 2:].float().amax(-1)),
    "argmax": lambda x, y, w: (x.argmax(-1), x.float() - x.float().amax(-1, keepdim=True)),
    "positions": lambda x, y, w: (x.float() * 0.01 + torch.arange(x.shape[-1]) % 3)
    .masked_fill(y > 1, -1e4)
    .softmax(-1),
    "columns": lambda x, y, w: (x.float().sum(0), (x + y).amax(0)),
    "scan": lambda x, y, w: (x.float() + y).cumsum(-1),
}
POINTS = {
    "add": lambda x, y, w: x + y,
    "bias": lambda x, y, w: F.gelu(x + w),
    "views": lambda x, y, w: x[:, 1:] * y[:, :-1] + 1,
    "transposed": lambda x, y, w: x + y.t().contiguous().t() * 2,
    "three": lambda x, y, w: x[None] * y[:, None] + w,
    "ends": lambda x, y, w: torch.cat([x.float(), y[:, :3], w.expand(x.shape[0], -1).float()], -1),
    "masked": lambda x, y, w: torch.where(y > 0, x, w).to(torch.int32),
    "turned": lambda x, y, w: (x.t() + w[:, None], y.t().relu()),
}


def sizes_of(*pairs):
    return [(rows, length) for rows, length in pairs]


FORMS = [(name, dtype, "vectors") for name in REDUCTIONS for dtype in (BF16, torch.float32)] + [
    (name, BF16, alternatives) for name in ("layer_norm", "softmax", "views") for alternatives in ("sizes", "off")
]


@pytest.mark.parametrize("name, dtype, alternatives", FORMS, ids=lambda x: str(x).removeprefix("torch."))
def test_rows_of_any_length(name, dtype, alternatives):
    function, length = REDUCTIONS[name], LONGER if name in NARROWS else LENGTH
    least = 4 if name in NARROWS else 1
    lengths = [n for n in (1, 5, 7, 8, 9, 16, 255, 256, 257, 301, 2048) if n >= least]
    check(
        Call(function),
        operands(5, 301, dtype),
        dynamic=({0: ROWS, 1: length}, {0: ROWS, 1: length}, {0: length}),
        others=[operands(5, n, dtype) for n in lengths] + [operands(2, 24, dtype), operands(33, 17, dtype)],
        settings=(EMULATE, f"cuda.alternatives={alternatives}"),
        tolerance=2e-2 if dtype == BF16 else 1e-4,
    )


@pytest.mark.parametrize("dtype", [BF16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.parametrize("name", POINTS)
def test_points_of_any_length(name, dtype):
    sizes = sizes_of((1, 8), (3, 7), (8, 8), (16, 1), (5, 3), (3, 64), (64, 64), (2, 4097), (37, 1000))
    length = LONGER if name in NARROWS else LENGTH
    if name in ("transposed", "three"):
        sizes = [(r, n) for r, n in sizes if r * r * n < 1 << 20]
    check(
        Call(POINTS[name]),
        operands(40, 301, dtype),
        dynamic=({0: ROWS, 1: length}, {0: ROWS, 1: length}, {0: length}),
        others=[operands(rows, n, dtype) for rows, n in sizes if n >= 4 or name not in NARROWS],
        settings=(EMULATE,),
    )


def test_empty_tensors():
    check(
        Call(lambda x, y, w: (x + y, F.gelu(x + w), x.float().sum(-1), (x * y).sum(), x.softmax(-1))),
        operands(40, 301, BF16),
        dynamic=({0: ROWS, 1: LENGTH}, {0: ROWS, 1: LENGTH}, {0: LENGTH}),
        others=[operands(rows, length, BF16) for rows, length in ((0, 8), (8, 0), (0, 0), (1, 1))],
        settings=(EMULATE,),
    )


def compiled_text(function, folder, *settings, example=(600, 300)):
    export(
        Call(function),
        operands(*example, BF16, BF16),
        folder / "m.pt2",
        ({0: ROWS, 1: LENGTH}, {0: ROWS, 1: LENGTH}, {0: LENGTH}),
    )
    words = [w for s in ("cuda.arch=sm_90", *settings) for w in ("--set", s)]
    coil_ok("compile", folder / "m.pt2", "-o", folder / "m.wrap", "--emit", "wrapper", "--device", "cuda", *words)
    return (folder / "m.wrap").read_text()


@pytest.mark.parametrize("function", [REDUCTIONS["layer_norm"], POINTS["bias"]], ids=["layer_norm", "bias"])
def test_whole_vectors_have_a_kernel(function, tmp_path):
    compiled_text(function, tmp_path, example=(3000, 320))
    conditions = [c for _, c in launches(tmp_path / "m.pt2", tmp_path, "--set", "cuda.alternatives=vectors") if c]
    assert len(conditions) == 2
    for size in (1, 4, 8, 12, 2047, 2048):
        assert sorted(holds(c, size) for c in conditions) == [False, True]
        assert holds(conditions[0], size) == (size % 8 == 0)


@pytest.mark.parametrize("name", ["softmax", "sums"])
def test_one_kernel_moves_vectors_at_all_lengths(name, tmp_path):
    """Nothing lies otherwise than the rows do, so that vectors of one kernel may begin anywhere."""
    compiled_text(REDUCTIONS[name], tmp_path)
    assert not any(c for _, c in launches(tmp_path / "m.pt2", tmp_path, "--set", "cuda.alternatives=vectors"))
    assert "c_pack<u16, 8>" in compiled_text(REDUCTIONS[name], tmp_path)


def test_known_multiples_need_no_condition(tmp_path):
    class Whole(torch.nn.Module):
        def forward(self, x, w):
            torch._check(x.shape[1] % 8 == 0)
            return F.gelu(x + w)

    length = 8 * Dim("eighth", min=1, max=1000)
    export(
        Whole(),
        (torch.randn(600, 320).to(BF16), torch.randn(320).to(BF16)),
        tmp_path / "m.pt2",
        ({1: length}, {0: length}),
    )
    assert not any(c for _, c in launches(tmp_path / "m.pt2", tmp_path, "--set", "cuda.alternatives=vectors"))
    coil_ok(
        "compile",
        tmp_path / "m.pt2",
        "-o",
        tmp_path / "m.wrap",
        "--emit",
        "wrapper",
        "--device",
        "cuda",
        "--set",
        "cuda.arch=sm_90",
    )
    assert re.search(r"c_read<[48]>\(", (tmp_path / "m.wrap").read_text())


@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_compile(arch, tmp_path):
    def all_of_them(x, y, w):
        return [
            list(f(x, y, w)) if isinstance(f(x, y, w), tuple) else f(x, y, w)
            for f in (*REDUCTIONS.values(), POINTS["bias"], POINTS["masked"], POINTS["ends"], POINTS["turned"])
        ]

    export(
        Call(all_of_them),
        operands(600, 300, BF16),
        tmp_path / "m.pt2",
        ({0: ROWS, 1: LONGER}, {0: ROWS, 1: LONGER}, {0: LONGER}),
    )
    words = [w for s in (f"cuda.arch={arch}", f"cuda.nvrtc={NVRTC}") for w in ("--set", s)]
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--device", "cuda", *words)


@pytest.mark.parametrize("name", ["layer_norm", "softmax", "bias", "views"])
def test_sizes_without_a_bound(name):
    """Through torch.compile: indices have 64 bits, and inputs are views that begin anywhere."""
    function = (REDUCTIONS | POINTS)[name]
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, y, w: function(x, y, w),
        backend="coil",
        dynamic=True,
        options={"cuda.emulate": True, "cpu.isa": "avx2"},
    )
    for rows, length in ((9, 301), (9, 64), (3, 2048), (17, 33)):
        x, y, w = operands(rows, length + 1, BF16)
        for args in ((x, y, w), (x[:, 1:], y[:, :-1], w[1:]), (x[1:], y[1:], w), (x.t().contiguous().t(), y, w)):
            got, want = compiled(*args), function(*args)
            pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
            for g, e in pairs:
                torch.testing.assert_close(g, e, rtol=2e-2, atol=2e-2)
