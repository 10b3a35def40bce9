"""torch.set_flush_denormal holds for all threads of a compiled program, kernels and library calls, and for no other
work of theirs.
"""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="for processors with such a mode")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(before)


PROGRAMS = {
    "kernel": (lambda x, w: x * 0.5, 4096),
    "product": (lambda x, w: x @ w, 512),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_threads_take_over_the_callers_mode(name, two_threads):
    function, rows = PROGRAMS[name]
    x, w = torch.full((rows, 512), 1e-38), torch.eye(512) * 0.5
    compiled = torch.compile(function, backend="coil")
    for flushes in (False, True, False):
        torch.set_flush_denormal(flushes)
        y = compiled(x, w)
        torch.set_flush_denormal(False)
        assert y.count_nonzero().item() == (0 if flushes else y.numel())
        many = torch.full((1 << 20,), 1e-38)
        assert (many * 0.5).count_nonzero().item() == many.numel(), "eager's threads are as they were"
