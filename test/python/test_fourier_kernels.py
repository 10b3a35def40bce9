"""Fourier transforms by CUDA kernels of Coil's own, carried out on the CPU: short and long lengths, with small factors,
with others, and with none; along any dimension, in any strides.
"""

import types

import numpy
import pytest
import torch

LENGTHS = {
    "2": 2,
    "12": 12,
    "128": 128,
    "1001": 1001,  # factors 7, 11, 13
    "4096": 4096,  # the longest of one kernel in f32; two steps in f64
    "202": 202,  # a factor that no kernel has
    "509": 509,  # none: by a chirp
    "8198": 8198,  # twice a long prime
}


def numpys(name):
    """NumPy's function of that name on tensors. The library behind eager's transforms is no reference in f64: for some
    lengths (202 on an Intel processor with AVX-512) it is off by 64 roundings.
    """
    function = getattr(numpy.fft, name)
    return lambda x, n=None, dim=-1, norm=None: torch.from_numpy(function(x.numpy(), n=n, axis=dim, norm=norm))


REFERENCE = types.SimpleNamespace(**{name: numpys(name) for name in ("fft", "ifft", "rfft", "irfft", "ihfft")})


def transforms(n, fft=torch.fft):
    """Names, functions and what they are given: real numbers x [3, n, 5] and complex ones z [4, n]."""
    half = lambda x: fft.rfft(x, dim=1) * (2 + 1j)
    return {
        "forwards": lambda x, z: fft.fft(z),
        "backwards": lambda x, z: fft.ifft(z.mT.contiguous(), dim=0, norm="ortho"),
        "of real numbers": lambda x, z: fft.rfft(x, dim=1),
        "whole, of real numbers": lambda x, z: fft.fft(x.mT),
        "to real numbers": lambda x, z: fft.irfft(half(x), n=n, dim=1),
        "to one more or less": lambda x, z: fft.irfft(half(x), n=n ^ 1, dim=1),
        "of a conjugate": lambda x, z: fft.ihfft(x[:, :, 1]),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length, dtype):
    torch.manual_seed(0)
    n = LENGTHS[length]
    x, z = torch.randn(3, n, 5, dtype=dtype), torch.randn(4, n, dtype=dtype.to_complex())
    functions, references = transforms(n), transforms(n, REFERENCE)
    compiled = torch.compile(
        lambda x, z: [f(x, z) for f in functions.values()],
        backend="coil",
        dynamic=False,
        options={"cuda.emulate": True, "fallback": False},
    )
    for name, got in zip(functions, compiled(x, z), strict=True):
        eager, want = functions[name](x, z), references[name](x.double(), z.to(torch.complex128))
        assert got.dtype == eager.dtype and got.shape == eager.shape and got.stride() == eager.stride(), name
        distance = lambda y: ((y.to(want.dtype) - want).norm() / want.norm()).item()
        assert distance(got) <= 3 * distance(eager) + (2e-7 if dtype == torch.float32 else 2e-15), name


class Filter(torch.nn.Module):
    """A product with the spectrum of pictures that lie channels last (a layer of a Fourier neural operator)."""

    def __init__(self, channels, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(channels, size, size // 2 + 1, 2))

    def forward(self, x):
        waves = torch.fft.rfft2(x.permute(0, 3, 1, 2), norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(waves, s=x.shape[1:3], norm="ortho").permute(0, 2, 3, 1)


@pytest.mark.parametrize("size", [24, 33])
def test_pictures_with_gradients(size):
    torch.manual_seed(0)
    module, x = Filter(17, size), torch.randn(2, size, size, 17)

    def step(function, x):
        x = x.clone().requires_grad_()
        y = function(x)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), [x, module.weight])]

    options = {"cuda.emulate": True, "fallback": False}
    compiled = torch.compile(module, backend="coil", dynamic=False, options=options)
    got = step(compiled, x)
    for a, b in zip(got, step(module, x), strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert compiled(x[:0]).shape == (0, size, size, 17)


@pytest.mark.parametrize("options", [{}, {"cuda.emulate": True}], ids=["cpu", "gpu"])
def test_gradients_of_free_sizes(options):
    """The length of a spectrum is asked of complex numbers, and of their parts when these are all there is."""
    torch.manual_seed(0)
    filtered = lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2, s=x.shape[-2:])
    compiled = torch.compile(filtered, backend="coil", dynamic=True, options={"fallback": False} | options)
    for sizes in ((2, 3, 18, 20), (1, 5, 7, 9)):
        x = torch.randn(sizes, requires_grad=True)
        got, want = (torch.autograd.grad(f(x).pow(3).sum(), x)[0] for f in (compiled, filtered))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
