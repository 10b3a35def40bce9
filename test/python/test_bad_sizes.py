"""What goes wrong with sizes while a program runs, or makes it no program at all: the message names input, dimension,
rule and the user's line; memory comes back; the same program runs on the next input.
"""

import pathlib
import resource
import signal
import sys
import time

import pytest
import torch
from torch._higher_order_ops import while_loop

from coil_harness import coil_ok, export

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

ROWS = {0: torch.export.Dim("rows", min=3, max=64)}


def model_of(module, args, folder, dynamic=None):
    export(module, args, folder / "m.pt2", dynamic)
    coil_ok("compile", folder / "m.pt2", "-o", folder / "m.coil")
    return coil.load(folder / "m.coil")


def fails_and_goes_on(module, model, bad, message, good):
    """The program says what is wrong, as often as it is asked; then it gives eager's results."""
    for _ in range(2):
        with pytest.raises(coil.Error, match=message):
            model(*bad)
        want, got = module(*good), model(*good)
        for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
            torch.testing.assert_close(g, w)


class TwoInputs(torch.nn.Module):
    def forward(self, x, y):
        return x + y, torch.cat([x, y]).sum(0)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((65, 65), r"the size of [xy] in dimension 0 \(.*\) must be at most 64"),
        ((2, 2), r"the size of [xy] in dimension 0 \(.*\) must be at least 3"),
        ((3, 4), r"input '[xy]'.* dimension 0"),
    ],
)
def test_sizes_of_inputs(sizes, message, tmp_path):
    module = TwoInputs()
    model = model_of(module, (torch.randn(3, 2), torch.randn(3, 2)), tmp_path, (ROWS, ROWS))
    fails_and_goes_on(
        module, model, [torch.randn(n, 2) for n in sizes], message, (torch.randn(5, 2), torch.randn(5, 2))
    )


class ByNumber(torch.nn.Module):
    """What is kept of x lies in memory of the run's when the number is looked at."""

    def forward(self, x, at):
        kept = x[x > 0] * 2
        n = at.item()
        torch._check(n >= 2)
        torch._check(n <= x.shape[0])
        return kept.sum(), torch.zeros(n - 2), x[:n] + 1


def test_assertion_at_run_time(tmp_path):
    module, example = ByNumber(), lambda n: (torch.randn(6), torch.tensor(n))
    model = model_of(module, example(3), tmp_path, (ROWS, None))
    for n in (1, 7, -1, 2**40, -(2**63)):
        fails_and_goes_on(module, model, example(n), r"test_bad_sizes\.py", example(2))


def test_memory_comes_back_after_a_failure(tmp_path):
    module = ByNumber()
    model = model_of(module, (torch.randn(6), torch.tensor(3)), tmp_path, ({0: torch.export.Dim("rows", min=2)}, None))
    x = torch.rand(500_000)
    for turn in range(210):
        with pytest.raises(coil.Error):
            model(x, torch.tensor(1))
        if turn == 9:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 20_000, "KiB; each call has 4,000 of its own"


@pytest.mark.parametrize(
    "less, more, message",
    [(3, 0, "test_bad_sizes|negative"), (7, 2**20, "64 bits|memory|bytes"), (7, 2**62, "64 bits|memory|bytes")],
)
def test_sizes_made_by_arithmetic(less, more, message, tmp_path):
    """Negative, and beyond all memory."""

    class Program(torch.nn.Module):
        def forward(self, less, more):
            n, m = less.item(), more.item()
            torch._check(m >= 0)
            return (
                torch.ones(n - 5).cumsum(0),
                torch.ones(m * 2**40, dtype=torch.int8)[:3].clone(),
                (torch.ones(m * 2**41, dtype=torch.int8) * n).cumsum(0),
            )

    module = Program()
    model = model_of(module, (torch.tensor(7), torch.tensor(0)), tmp_path)
    for _ in range(2):
        with pytest.raises(coil.Error, match=message):
            model(torch.tensor(less), torch.tensor(more))
        assert model(torch.tensor(7), torch.tensor(0))[0].tolist() == [1, 2]


class Endless(torch.nn.Module):
    """Counts up by `by` to 10: never where that is 0."""

    def forward(self, by, x):
        return while_loop(
            lambda i, x: i < 10, lambda i, x: (i + by, x + x[x > 0].sum()), (torch.zeros((), dtype=torch.int64), x)
        )


def test_an_endless_loop_is_interrupted(tmp_path):
    """As by Ctrl-C: a signal's handler that raises."""

    def raises(*_):
        raise TimeoutError

    module, x = Endless(), torch.rand(4)
    model = model_of(module, (torch.tensor(1), x), tmp_path)
    old = signal.signal(signal.SIGALRM, raises)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begin = time.monotonic()
            with pytest.raises(TimeoutError):
                model(torch.tensor(0), x)
            assert time.monotonic() - begin < 5
            torch.testing.assert_close(model(torch.tensor(3), x)[1], module(torch.tensor(3), x)[1])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
