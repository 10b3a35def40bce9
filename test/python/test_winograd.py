"""3x3 convolutions taken apart into transforms and products (src/passes/loop/winograd.h) or carried out in slices
(src/runtime/ops/panel/winograd.h): which are, and their values. How they keep NaN is in test_nan.py.
"""

import copy
import json
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import check, coil_ok, eager, export, run
from emitted import emit, load_module

LINE = "winograd_products("
SLICES = 'algorithm="winograd_slices"'
APART = ("--set", "pack_weights=false")  # without packed weights, all are taken apart
# Without packed weights all are taken apart; with them and a tile asked for, those of many tiles are not.
tiles = pytest.mark.parametrize(
    "tile", [["winograd=2"], ["winograd=4"], ["winograd=4", "pack_weights=false"]], ids=["2", "4", "4 apart"]
)


class One(nn.Module):
    def __init__(self, channels, results, bias=True, **options):
        super().__init__()
        self.convolution = nn.Conv2d(channels, results, 3, bias=bias, **options)

    def forward(self, x):
        return self.convolution(x)


class Block(nn.Module):
    """What stands behind convolutions in networks: one reader, a residual, two readers, a concatenation, a result that
    is also returned.
    """

    def __init__(self, n=32):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Conv2d(n, n, 3, padding=1) for _ in range(4))
        self.norm = nn.BatchNorm2d(n)

    def forward(self, x):
        y = torch.relu(self.norm(self.a(x)) + x)
        z = self.b(y)
        w = F.gelu(self.c(torch.relu(z) * 2)) - z.amax((2, 3), keepdim=True)
        return torch.cat([w, y], 1), self.d(w).sigmoid(), z


def words(settings):
    return [word for s in settings for word in ("--set", s)]


def wrapper_lines(module, args, folder, *options):
    archive, text = folder / "m.pt2", folder / "m.txt"
    export(module.eval(), args, archive)
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper", *options)
    return text.read_text()


@tiles
@pytest.mark.parametrize("padding", [0, 1, (0, 2), "same"])
def test_sizes_and_padding(padding, tile):
    for i, (channels, results, n, h, w) in enumerate(
        [(32, 48, 1, 10, 12), (19, 13, 2, 9, 11), (1, 8, 3, 7, 6), (8, 1, 1, 5, 37)]
    ):
        torch.manual_seed(i)
        check(
            One(channels, results, bias=i % 2 == 0, padding=padding), (torch.randn(n, channels, h, w),), settings=tile
        )


@tiles
def test_padding_of_an_operator_before_it(tile):
    class Padded(One):
        def forward(self, x):
            return torch.relu(self.convolution(F.pad(x, (2, 0, 1, 3))))

    check(Padded(32, 32), (torch.randn(2, 32, 9, 8),), settings=tile)


@tiles
def test_inputs_in_any_strides(tile):
    class Strided(One):
        def forward(self, x, y, z):
            return (
                self.convolution(x[:, :, ::2, 1:]),
                self.convolution(y.permute(0, 3, 1, 2)),
                self.convolution(z.expand(-1, 32, -1, -1)),
            )

    check(
        Strided(32, 32, padding=1),
        (torch.randn(1, 32, 22, 12), torch.randn(2, 9, 11, 32), torch.randn(2, 1, 10, 9)),
        settings=tile,
    )


@tiles
def test_several_views_of_one_weight(tile):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.Parameter(torch.randn(2, 32, 32, 3, 3))

        def forward(self, x):
            first, second = self.weights
            return [
                F.conv2d(image, weight)
                for image in x.unbind(1)
                for weight in (first, second, first.transpose(0, 1), first.mT)
            ]

    check(Shared(), (torch.randn(1, 2, 32, 8, 8),), settings=tile)


@tiles
@pytest.mark.parametrize("decomposed", [False, True])
def test_what_follows(decomposed, tile):
    torch.manual_seed(1)
    check(Block().eval(), (torch.randn(2, 32, 13, 10),), decomposed=decomposed, settings=tile)


@tiles
def test_free_sizes(tile):
    n, h, w = (torch.export.Dim(name, min=1, max=40) for name in "nhw")
    sizes = [(1, 1, 1), (1, 2, 1), (3, 5, 40), (2, 40, 3), (1, 16, 16), (4, 7, 7)]
    check(
        Block().eval(),
        (torch.randn(2, 32, 12, 14),),
        {"x": {0: n, 2: h, 3: w}},
        [(torch.randn(n, 32, h, w),) for n, h, w in sizes],
        settings=tile,
    )


def test_which_are_taken_apart(tmp_path):
    x = torch.randn(1, 64, 16, 16)
    lines = lambda module, x=x, *options: wrapper_lines(module, (x,), tmp_path, *APART, *options).count(LINE)
    assert lines(One(64, 64, padding=1)) == 1
    assert lines(One(64, 64, padding=1), x, "--set", "winograd=false") == 0
    assert lines(One(64, 64, stride=2)) == 0
    assert lines(One(64, 64, dilation=2)) == 0
    assert lines(One(64, 64, groups=2)) == 0
    assert lines(One(64, 8)) == 0, "few channels"
    assert lines(One(64, 64), torch.randn(1, 64, 4, 4)) == 0, "few tiles"
    assert lines(One(64, 64).double(), x.double()) == 0
    assert lines(One(64, 64).bfloat16(), x.bfloat16()) == 0
    assert lines(One(64, 8), x, "--set", "winograd=4") == 1, "asked for"
    infinite = One(64, 64)
    infinite.convolution.weight.data[0, 0, 0, 0] = float("inf")
    assert lines(infinite) == 0


def test_tiles_follow_the_sizes(tmp_path):
    """Wide maps take tiles of 4x4; where weights are most of what is read, the larger ones of 4x4 do not pay."""
    terms = lambda c, size: [
        int(n)
        for n in re.findall(
            r"winograd_products\([^)]*?\[(\d+), ",
            wrapper_lines(One(c, c, padding=1), (torch.randn(1, c, size, size),), tmp_path, *APART),
        )
    ]
    assert terms(64, 56) == [36] and terms(128, 28) == [36]
    assert terms(512, 7) == [16] and terms(64, 54) == [16], "tiles at the edges that are not whole"


@tiles
def test_transforms_are_one_kernel_each(tmp_path, tile):
    """All terms are written by one loop, and what follows is computed in the loop that transforms back."""

    class Residual(One):
        def forward(self, x):
            return torch.relu(self.convolution(x) + x).mean()

    text = wrapper_lines(Residual(64, 64, padding=1), (torch.randn(1, 64, 16, 16),), tmp_path, *APART, *words(tile))
    # 36 terms are more than one kernel takes; there, back with sum and relu, and the mean.
    assert len(re.findall(r"^kernel ", text, re.M)) <= (5 if "winograd=4" in tile else 4), text
    assert text.count(LINE) == 1


@tiles
@pytest.mark.parametrize("channels", [64, 256])
def test_close_to_f64(tmp_path, tile, channels):
    """No further from the result in f64 than some times what direct sums are: F(4x4) may be 3 times as far. (Of these,
    eager's came 4 times as close as oneDNN 2.6's with AVX-512, 2 times with AVX2.)
    """
    torch.manual_seed(5)
    module, x = One(channels, 256, padding=1).eval(), torch.randn(1, channels, 14, 14)
    exact = copy.deepcopy(module).double()(x.double())
    archive, package = tmp_path / "m.pt2", tmp_path / "m.coil"
    export(module, (x,), archive)
    coil_ok("compile", archive, "-o", package, *words(tile))
    before, want = eager(module, (x,))
    got = run(package, before, tmp_path)
    distance = lambda y: ((y.double() - exact).norm() / exact.norm()).item()
    ((name, e),) = want.items()
    whole = run(archive, before, tmp_path, "--set", "winograd=false")[name]
    assert distance(got[name]) < max(5 * distance(e), 3 * distance(whole)) + 1e-7


@tiles
@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_in_torch_alone(tmp_path, value, monkeypatch, tile):
    """The emitted Python file where Coil's runtime is not there."""
    monkeypatch.setenv("COIL_RUNTIME", "none")
    torch.manual_seed(6)
    module, x = One(32, 48, padding=1).eval(), torch.randn(2, 32, 9, 12)
    x[0, 3, 4, 5] = value
    archive = tmp_path / "m.pt2"
    export(module, (x,), archive)
    (got,) = load_module(emit(archive, "python", *words(tile))).call([x])
    torch.testing.assert_close(got, module(x), equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_which_are_carried_out_in_slices(tmp_path, isa):
    """Those with more terms of tiles than of the weight, which each slice reads; what follows goes into the call."""
    lines = lambda module, x, *options: wrapper_lines(module, (x,), tmp_path, "--set", f"cpu.isa={isa}", *options)
    size = 56 if isa == "avx512" else 256  # with AVX2 where transforms are more than loops may have
    wide, deep = torch.randn(1, 64, size, size), torch.randn(1, 256, 14, 14)
    text = lines(nn.Sequential(One(64, 64, padding=1), nn.ReLU()), wide)
    assert SLICES in text and LINE not in text and "post=" in text
    text = lines(One(256, 256, padding=1), deep)
    assert SLICES not in text and LINE in text
    assert SLICES not in lines(One(64, 64, padding=1), wide, "--set", "pack_weights=false")
    if isa == "avx2":
        assert SLICES not in lines(One(64, 64, padding=1), torch.randn(1, 64, 56, 56))


def in_slices(module, args, tmp_path, tile):
    """Fails where the program would be another."""
    text = wrapper_lines(module, args, tmp_path, *words(tile))
    if 'packed_desc="winograd:' not in text:
        pytest.skip("a machine without AVX2")


@pytest.mark.parametrize("tile", [["winograd=2"], ["winograd=4"]], ids=["2", "4"])
def test_slices_of_any_sizes(tmp_path, tile):
    """Channels that fill no vector, several panels, several stretches of channels, tiles at the edges that are not
    whole, and more images than threads.
    """
    for i, (channels, results, n, h, w, padding) in enumerate(
        [(19, 13, 2, 30, 31, 0), (33, 70, 3, 17, 26, (0, 1)), (800, 64, 8, 21, 20, 1), (64, 130, 5, 18, 14, 1)]
    ):
        torch.manual_seed(i)
        module, args = One(channels, results, bias=i % 2 == 0, padding=padding), (torch.randn(n, channels, h, w),)
        in_slices(module, args, tmp_path, tile)
        check(module, args, settings=tile)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e20])
def test_slices_keep_what_is_not_finite_where_it_is(tmp_path, value):
    torch.manual_seed(3)
    module, x = Block().eval(), torch.randn(3, 32, 26, 30)
    in_slices(module, (x,), tmp_path, ["winograd=4"])
    one = One(32, 48, padding=1).eval()
    x[0, 3, 4, 5] = x[2, 1, 25, 29] = value
    archive, package = tmp_path / "m.pt2", tmp_path / "m.coil"
    export(one, (x,), archive)
    coil_ok("compile", archive, "-o", package, "--set", "winograd=4")
    before, want = eager(one, (x,))
    got = run(package, before, tmp_path)
    for name, y in want.items():
        torch.testing.assert_close(got[name], y, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_slices_hold_few_terms(tmp_path):
    """Neither the arena nor the scratch memory grows with the number of tiles beyond a fourth of what the call reads
    and writes: taken apart, both forms of all terms come to 4.5 times that.
    """
    module, x = nn.Sequential(One(32, 32, padding=1), nn.ReLU(), One(32, 32, padding=1)), torch.randn(4, 32, 64, 64)
    in_slices(module, (x,), tmp_path, ["winograd=4"])
    export(module.eval(), (x,), tmp_path / "m.pt2")
    settings = ("--set", "winograd=4", "--seconds", "0.01", "--threads", "2")
    coil_ok("bench", tmp_path / "m.pt2", *settings, "--json", tmp_path / "b.json")
    figures = json.loads((tmp_path / "b.json").read_text())
    bytes_of_x = x.numel() * 4
    assert figures["planned_peak_bytes"] <= 2 * bytes_of_x
    # The result, and the scratch memory of one call.
    assert figures["peak_bytes"] - figures["weight_bytes"] <= figures["planned_peak_bytes"] + 1.6 * bytes_of_x
