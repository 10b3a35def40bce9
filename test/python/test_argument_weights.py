"""Convolutions on CPUs whose weights are arguments, as under torch.compile: kernels of Coil's own bring them into their
form in each call.
"""

import pytest
import torch
import torch.nn.functional as F

import coil  # noqa: F401 (registers the backend)


def random(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes) + seed))


def winograd(x, w, b):
    return F.relu(F.conv2d(x, w, b, padding=1))


def transposed(x, w, b):
    return F.conv_transpose2d(x, w, b, stride=2, padding=1) + 1


def dilated_channels(x, w, b):
    return F.conv1d(x, w, b, padding=16, dilation=16, groups=x.shape[1])


def few_results(x, w, b):
    return F.conv2d(x, w, b, padding=2).sigmoid()


def places(x, w, b):
    return F.relu(F.conv2d(x, w, b) + x[:, :1])


def every_other_place(x, w, b):
    return F.gelu(F.conv2d(x, w, b, stride=(2, 3)))


def places_of_lines(x, w, b):
    return F.conv1d(x, w, b).sigmoid() * 2


def places_of_volumes(x, w, b):
    return F.conv3d(x, w, b, stride=(1, 2, 1)) + 1


CASES = {
    "winograd": (winograd, (random(2, 40, 41, 43), random(48, 40, 3, 3), random(48))),
    "winograd of few results": (winograd, (random(1, 32, 64, 64), random(13, 32, 3, 3), random(13))),
    "winograd of two panels": (winograd, (random(1, 64, 64, 64), random(80, 64, 3, 3), random(80))),
    "transposed": (transposed, (random(1, 32, 40, 41), random(32, 24, 4, 4), random(24))),
    "channels by themselves": (dilated_channels, (random(2, 40, 900), random(40, 1, 3), random(40))),
    "places": (places, (random(3, 40, 7, 9), random(50, 40, 1, 1), random(50))),
    "every other place": (every_other_place, (random(2, 40, 14, 15), random(72, 40, 1, 1), random(72))),
    "one place": (places, (random(1, 40, 1, 1), random(5, 40, 1, 1), random(5))),
    "places of lines": (places_of_lines, (random(2, 40, 77), random(64, 40, 1), random(64))),
    "places of volumes": (places_of_volumes, (random(2, 16, 4, 6, 5), random(24, 16, 1, 1, 1), random(24))),
    "few results": (few_results, (random(1, 24, 50, 60), random(3, 24, 5, 5), random(3))),
}


def compiled(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend="coil")


def close(got, want):
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    """With each call's own weight, however it lies."""
    fn, (x, w, b) = CASES[name]
    f = compiled(fn)
    laid_out = w.transpose(0, 1).contiguous().transpose(0, 1)
    for weight in (w, w * 2, laid_out, -w):
        close(f(x, weight / 8, b), fn(x.double(), (weight / 8).double(), b.double()))


@pytest.mark.parametrize("name", ["winograd", "every other place", "transposed"])
def test_gradients(name):
    fn, (x, w, b) = CASES[name]
    gradients = []
    for f, up in ((compiled(fn), lambda t: t), (fn, lambda t: t.double())):
        args = [up(t / 4).requires_grad_() for t in (x, w, b)]
        f(*args).square().mean().backward()
        gradients.append([a.grad for a in args])
    for got, want in zip(*gradients):
        close(got, want)


def test_nan_and_infinity():
    """They spread as far as windows reach, in this call's values and with this call's weight."""
    fn, (x, w, b) = CASES["winograd"]
    f, w = compiled(fn), w / 8
    for weight in (w, w * 3, w):
        wrong = x.clone()
        wrong[0, 1, 20, 20], wrong[1, 2, 40, 42] = torch.nan, torch.inf
        close(f(wrong, weight, b), fn(wrong.double(), weight.double(), b.double()))
    for value in (torch.inf, torch.nan):
        broken = w.clone()
        broken[5, 3, 0, 1] = value
        got = f(x, broken, b)
        torch.testing.assert_close(got, fn(x, broken, b), rtol=1e-4, atol=1e-4, equal_nan=True)
        assert got[:, :5].isfinite().all()
    close(f(x, w, b), fn(x.double(), w.double(), b.double()))
