"""The order in which calls run, and kernels taken apart for memory: planned peaks, and values equal to eager's."""

import json
import re
import zipfile

import pytest
import torch
from torch import nn

from coil_harness import check, coil_ok, export
from memory_programs import Branches, ReadLate, Sorted

MIB = 1 << 20


class Accumulated(nn.Module):
    """`total = total + f(x, k)` for each k, all f before the first sum where they are `piled`."""

    def __init__(self, f, count, piled):
        super().__init__()
        self.f, self.count, self.piled = f, count, piled

    def forward(self, x):
        values = (self.f(x, k) for k in range(self.count))
        for value in list(values) if self.piled else values:
            x = x + value
        return x


def planned_peak(module, args, folder, order="true", settings=()):
    """Bytes of the arena that the program of the module runs in, as its package says."""
    archive, package = folder / "m.pt2", folder / f"{order}.coil"
    if not archive.exists():
        export(module.eval(), args, archive)
    words = [word for s in (f"memory.order={order}", *settings) for word in ("--set", s)]
    coil_ok("compile", archive, "-o", package, *words)
    with zipfile.ZipFile(package) as parts:
        return json.loads(parts.read("manifest.json"))["arena_bytes"]


@pytest.mark.parametrize(
    ("module", "args", "written", "least"),
    [
        (Branches(), (torch.randn(2048, 64),), 512, 34),
        (Sorted(), (torch.randn(1024, 1024),), 44, 20),
        (ReadLate(), (torch.randn(1024, 16),), 32, 14),
    ],
    ids=["branches", "sorted", "read late"],
)
def test_the_order_lowers_the_peak(module, args, written, least, tmp_path):
    assert planned_peak(module, args, tmp_path, "false") >= written * MIB
    assert planned_peak(module, args, tmp_path) <= least * MIB
    check(module, args)


def test_a_run_has_the_arena_of_its_package(tmp_path):
    peak = planned_peak(Sorted(), (torch.randn(64, 64),), tmp_path)
    coil_ok("bench", tmp_path / "true.coil", "--seconds", "0.001", "--json", tmp_path / "figures.json")
    assert peak > 0 and json.loads((tmp_path / "figures.json").read_text())["planned_peak_bytes"] == peak


def sort(x, k):
    return torch.sort(x + k, dim=-1).values


def product(x, k):
    return (x + k) @ x / 512


def running_sum(x, k):
    return torch.cumsum(x + k, 0)


def noise(x, _):
    return torch.rand_like(x)


def matrix_function(x, k):
    return torch.linalg.matrix_exp((x + k) / 1e6)


@pytest.mark.parametrize("piled", [False, True], ids=["in turn", "piled"])
@pytest.mark.parametrize(
    ("f", "matrices"),
    # The sum and a value, and what makes a value: the operand of a product, a sort's operand and its places in i64.
    [(noise, 2), (product, 3), (running_sum, 3), (matrix_function, 3), (sort, 5)],
    ids=["random numbers", "product", "scan", "matrix function", "sort"],
)
def test_a_sum_of_a_hundred_needs_as_little_as_a_sum_of_two(f, matrices, piled, tmp_path):
    x = torch.randn(512, 512)
    count = 30 if f is matrix_function else 100  # which is some forty calls
    peak = planned_peak(Accumulated(f, count, piled), (x,), tmp_path)
    assert peak <= matrices * x.nbytes + 4096
    if f is not noise:
        check(Accumulated(f, 6, piled), (x,))


def explained(module, args, folder, *settings):
    archive = folder / "explained.pt2"
    export(module, args, archive)
    return coil_ok("explain", archive, *[word for s in settings for word in ("--set", s)]).stdout


def test_explain_says_what_the_order_does(tmp_path):
    text = explained(Sorted(), (torch.randn(1024, 1024),), tmp_path)
    assert re.search(r"order of calls: .*; temporaries and results peak at 20.0 MiB, [\d.]+ MiB as written", text)
    assert re.search(r"together they raise the peak of temporaries and results from [\d.]+ to [\d.]+ MiB", text)
    small = explained(Sorted(), (torch.randn(16, 16),), tmp_path)
    assert "together they raise" not in small


class NormAfterProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(512)
        self.first, self.second = nn.Linear(512, 512), nn.Linear(512, 512)

    def forward(self, x):
        return self.second(self.norm(self.first(x)))


class IntoResults(nn.Module):
    """Results of other shapes and types than what they are written over."""

    def forward(self, x):
        counted = torch.cumsum(torch.round(x), 0)
        return counted.int().view(-1, 64), torch.tanh(torch.cumsum(x, 1)).t()


@pytest.mark.parametrize(
    ("module", "most"), [(NormAfterProduct(), 1 << 20), (IntoResults(), 0)], ids=["into a value", "into results"]
)
def test_a_value_is_written_over_what_it_is_made_of(module, most, tmp_path):
    args = (torch.randn(512, 512),)
    assert planned_peak(module, args, tmp_path) <= most
    check(module, args)


class Centred(nn.Module):
    """What a sum is of is read again behind it, as in gradients of norms: it lies where the result comes to lie."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, g, w):
        masked = torch.where(x > 0, g, 0)
        centred = masked - (masked * x).mean(self.dim, keepdim=True)
        return centred @ w, centred.sum(1)


@pytest.mark.parametrize(("dim", "sizes"), [(0, (4096, 64)), (1, (64, 65536)), (0, (5000, 37)), (1, (7, 70001))])
def test_a_value_lies_where_the_result_that_is_made_of_it_does(dim, sizes, tmp_path):
    args = (torch.randn(sizes), torch.randn(sizes), torch.randn(sizes[1], 8))
    assert planned_peak(Centred(dim), args, tmp_path) <= args[0].nbytes + (64 << 10)
    check(Centred(dim), args, tolerance=1e-3)


class Residuals(nn.Module):
    """Blocks that add to the value that they are made of, through products or convolutions."""

    def __init__(self, make, activation=torch.sigmoid):
        super().__init__()
        self.first, self.second = (nn.ModuleList(make() for _ in range(3)) for _ in range(2))
        self.activation = activation

    def forward(self, x):
        x = torch.cumsum(x, 1)
        for first, second in zip(self.first, self.second, strict=True):
            x = x + second(self.activation(first(x)))
        return x


@pytest.mark.parametrize("wide", [False, True], ids=["f32", "bf16"])
def test_a_product_is_added_to_the_residual(wide, tmp_path):
    """All sums lie in the result's memory, and nothing beside them but what is multiplied."""
    module, x = Residuals(lambda: nn.Linear(256, 256)), torch.randn(1024, 256) / 64
    if wide:
        module, x = module.bfloat16(), x.bfloat16()
    assert planned_peak(module, (x,), tmp_path) <= x.nbytes
    check(module, (x,))
    coil_ok("compile", tmp_path / "m.pt2", "--emit=wrapper", "-o", tmp_path / "m.wrapper")
    text = (tmp_path / "m.wrapper").read_text()
    assert text.count('"sum"') == 3, text
    check(module, (x,), settings=("assert_lifetimes=true",))


def test_a_convolution_is_added_to_the_residual(tmp_path):
    module, x = Residuals(lambda: nn.Conv2d(16, 16, 1)), torch.randn(2, 16, 32, 32)
    check(module, (x,))
    export(module.eval(), (x,), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "--emit=wrapper", "-o", tmp_path / "m.wrapper")
    assert '"sum"' in (tmp_path / "m.wrapper").read_text()


class Chunks(nn.Module):
    """Parts of a concatenation, each sorted: they are made where they will lie."""

    def forward(self, x):
        return torch.cat([torch.sin(x) * 2, torch.cumsum(x, 1), torch.exp(x) - 1]).cos()


def test_parts_of_a_concatenation_are_made_where_they_lie(tmp_path):
    args = (torch.randn(256, 1024),)
    assert planned_peak(Chunks(), args, tmp_path) <= 3 * MIB
    check(Chunks(), args)


class MaskedTwice(nn.Module):
    """A mask of 4 MiB that is read by a product before and by one behind a value of 16 MiB."""

    def __init__(self):
        super().__init__()
        self.widen, self.narrow = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x):
        places = torch.arange(1024)
        mask = (places[:, None] >= places).float() / (1 + places[:, None])
        return mask @ self.narrow(torch.relu(self.widen(mask @ x)))


def test_a_mask_is_made_again_for_a_late_reader(tmp_path):
    module, args = MaskedTwice(), (torch.randn(1024, 1024),)
    assert planned_peak(module, args, tmp_path, "false") >= 24 * MIB
    assert planned_peak(module, args, tmp_path) <= 20 * MIB + 4096
    check(module, args)


def test_fusion_stays_where_it_costs_no_memory(tmp_path):
    class Chain(nn.Module):
        def forward(self, x):
            y = torch.cumsum(x, 0)
            for k in range(8):
                y = torch.sin(y) * x + k
            return y

    text = explained(Chain(), (torch.randn(1024, 1024),), tmp_path)
    assert "2 kernels" in text.splitlines()[0], "the scan, and all that follows it"
