"""Kernels that users wrote in Triton: programs compared with eager, where Triton's interpreter runs them; what is
compiled for a GPU without one; what is refused.
"""

import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed")

import torch  # noqa: E402
import torch.utils._triton  # noqa: E402

import triton_programs as programs  # noqa: E402
from triton_programs import PROGRAMS, copies, expected  # noqa: E402


@pytest.fixture(autouse=True)
def seen_by_dynamo(monkeypatch):
    """Dynamo leaves kernels alone where there is no GPU."""
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda: True)
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(
        function, backend="coil", fullgraph=True, options={"cache": "none", "fallback": True} | options
    )


def same(got, want):
    if isinstance(want, torch.Tensor):
        got, want = [got], [want]
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride())
        torch.testing.assert_close(g, w, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_what_eager_gives(name):
    function, args = PROGRAMS[name]
    want, left = expected(function, args)
    given = copies(args)
    same(compiled(function)(*given), want)
    same(given, left)
