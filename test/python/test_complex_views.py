"""Complex results that are windows on a value, and parts of them: strides as eager has them, and one memory for all."""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


def shared(x):
    y = (x * 2).view(2, -1)
    return y, y.t(), y[:, ::2], torch.view_as_real(y), y.expand(3, *y.shape)


WINDOWS = {
    "unfold": lambda x: (x * 2).unfold(0, 3, 1),
    "as_strided": lambda x: torch.as_strided(x * 2, (3, 4), (1, 1), 1),
    "step": lambda x: (x * 2)[1::2],
    "diagonal": lambda x: (x * 2j).view(4, -1).diagonal(),
    "transposed": lambda x: (x * 2).view(2, -1).t()[1:3],
    "repeated": lambda x: (x * 2).expand(4, *x.shape)[:, ::2],
    "real": lambda x: torch.view_as_real((x * 2).unfold(0, 3, 2)),
    "imaginary": lambda x: (x * 2).conj()[1::3] + 1,
    "conjugate": lambda x: ((y := (x * 2j).conj() + 0)[::2], y),
    "value and window": lambda x: ((y := x * 2), y.unfold(0, 3, 1)),
    "shared": shared,
}


def listed(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, dtype, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(WINDOWS[name], backend="coil", dynamic=dynamic)
    for size in (8, 12) if dynamic else (8,):
        x = torch.randn(size, dtype=dtype)
        want, got = listed(WINDOWS[name](x)), listed(compiled(x))
        assert [t.stride() for t in got] == [t.stride() for t in want]
        assert len({t.untyped_storage().data_ptr() for t in got}) == 1
        for one, other in zip(got, want):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    "view",
    [
        torch.conj,
        torch.Tensor.mH.__get__,
        lambda y: y.imag,
        lambda y: y.to(torch.complex128),
        torch.Tensor.real.__get__,
    ],
)
def test_views_of_other_numbers(view):
    """A conjugate is a view of the same memory, but not of the same numbers."""
    torch._dynamo.reset()
    make = lambda x: ((y := x.view(2, 4) * 2j), view(y), y + 1)
    x = torch.randn(8, dtype=torch.complex64)
    for one, other in zip(torch.compile(make, backend="coil")(x), make(x)):
        assert torch.equal(one, other)


def test_a_write_to_one_is_seen_in_the_other():
    compiled = torch.compile(WINDOWS["value and window"], backend="coil")
    whole, windows = compiled(torch.randn(8, dtype=torch.complex64))
    whole[2] = 7 + 1j
    assert windows[0, 2] == windows[1, 1] == windows[2, 0] == 7 + 1j


SEEN = {
    "real": lambda x: x[x.shape[0] // 2 :].real,
    "imaginary": lambda x: x.imag,
    "one of the pairs": lambda x: torch.view_as_real(x[1:])[:, 1],
    "piece": lambda x: x.chunk(2)[-1].real,
    "complex": lambda x: x[1:],
}


@pytest.mark.parametrize("first", [0, 1], ids=["whole", "piece"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", SEEN)
def test_packages_give_the_memory_of_inputs(name, dynamic, first):
    see, sizes = SEEN[name], ((6, 9) if dynamic else (6,))

    class Sees(torch.nn.Module):
        def forward(self, x):
            return see(x), x * 2

    piece = lambda size, first: torch.randn(size + first, dtype=torch.complex64)[first:]
    x = piece(6, first)
    dims = ({0: torch.export.Dim.AUTO},) if dynamic else None
    program = coil.compile(torch.export.export(Sees(), (x,), dynamic_shapes=dims))
    for size in sizes:
        x = piece(size, first)
        want, got = see(x), program(x)[0]
        assert torch.equal(want, got)
        assert (want.data_ptr(), want.stride()) == (got.data_ptr(), got.stride())


@pytest.mark.parametrize(
    "put_off",
    [lambda: torch.randn(2, 4, dtype=torch.complex64).conj().imag, lambda: torch._neg_view(torch.randn(2, 4))],
    ids=["steps", "dense"],
)
def test_packages_see_arguments_that_are_put_off_to_negate(put_off):
    class Sees(torch.nn.Module):
        def forward(self, x):
            return x.T, x + 0, x[1:], x

    program = coil.compile(torch.export.export(Sees(), (torch.zeros(2, 4),)))
    x = put_off()
    for got, want in zip(program(x), Sees()(x), strict=True):
        assert torch.equal(got, want)


PARTS_OF_VALUES = {
    "real": lambda x: torch.fft.fft(x).real,
    "both": lambda x: ((y := torch.fft.fft(x)).real, y.imag, y),
    "pieces": lambda x: ((y := torch.polar(x, x + 1))[1:].T.imag, y.real[1]),
    "of numbers": lambda x: torch.complex(x, x + 1).real,
    "steps": lambda x: torch.view_as_real(torch.fft.rfft(x))[::2, :, 1].unsqueeze(0),
    "computed": lambda x: torch.fft.fft2(x).real + 1,
    "transposed": lambda x: torch.fft.fft(x.T).imag.T,
    "repeated": lambda x: torch.fft.fft(x).real[:, None].expand(-1, 2, -1),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PARTS_OF_VALUES)
def test_packages_show_parts_in_the_memory_of_the_whole(name, dynamic):
    show, sizes = PARTS_OF_VALUES[name], ((6, 9) if dynamic else (6,))

    class Shows(torch.nn.Module):
        def forward(self, x):
            return show(x)

    dims = ({0: torch.export.Dim.AUTO},) if dynamic else None
    program = coil.compile(torch.export.export(Shows(), (torch.randn(6, 8),), dynamic_shapes=dims))
    for size in sizes:
        x = torch.randn(size, 8)
        want, got = listed(show(x)), listed(program(x))
        places = [[t.data_ptr() - results[0].data_ptr() for t in results] for results in (want, got)]
        assert places[0] == places[1]
        assert [t.stride() for t in got] == [t.stride() for t in want]
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other)
