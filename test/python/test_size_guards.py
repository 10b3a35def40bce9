"""What a compile must know of free sizes, and what it would like to know, become guards of Dynamo's: a call that breaks
one is compiled again, and none fails. Recompiles are told.
"""

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from test_torch_compile import coil, same

pytestmark = pytest.mark.usefixtures("fresh")


def recompiles(f, calls, dynamic=True, **options):
    """How many graphs a function has after each call, all of which are right."""
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(f, backend="coil", dynamic=dynamic, options=options or None)
    graphs = []
    for inputs in calls:
        same(compiled(*inputs), f(*inputs))
        graphs.append(counters["stats"]["unique_graphs"])
    return graphs


def test_a_free_size_that_must_be_known_is_fixed():
    """Groups of a convolution, the size of attention's heads, and the rank of a value."""
    groups = recompiles(
        lambda x, w: F.conv2d(x, w, groups=x.shape[1]),
        [(torch.randn(2, n, 5, 5), torch.randn(n, 1, 3, 3)) for n in (4, 4, 6)],
    )
    assert groups == [1, 1, 2]
    heads = recompiles(
        lambda q: F.scaled_dot_product_attention(q, q, q), [(torch.randn(1, 2, 5, d),) for d in (8, 8, 16)]
    )
    assert heads == [1, 1, 2]
    ranks = recompiles(lambda x, k: x.kthvalue(k, 0)[0], [(torch.randn(7, 2), k) for k in (3, 3, 4)])
    assert ranks == [1, 1, 2]


def test_only_that_size_is_fixed_and_gradients_follow():
    def f(x, w):
        return F.conv2d(x, w, groups=x.shape[1]).square().sum()

    compiled = torch.compile(f, backend="coil", dynamic=True)
    counters.clear()
    for n, size in ((4, 5), (4, 9), (6, 7)):
        x, w = torch.randn(2, n, size, size, requires_grad=True), torch.randn(n, 1, 3, 3, requires_grad=True)
        compiled(x, w).backward()
        got, x.grad, w.grad = (x.grad, w.grad), None, None
        f(x, w).backward()
        same(got, (x.grad, w.grad))
    assert counters["stats"]["unique_graphs"] == 2


def rows(*sizes):
    return [(torch.randn(n, 6),) for n in sizes]


def double(x):
    return x * 2 + x.sum(0)


def test_without_wishes_there_are_no_guards():
    assert recompiles(double, rows(8, 16, 5, 2, 100)) == [1] * 5


def test_a_wish_is_a_guard_and_a_recompile_where_it_breaks():
    assert recompiles(double, rows(8, 16, 5, 24, 7), size_facts="multiple8") == [1, 1, 2, 2, 2]
    assert recompiles(double, rows(8, 16, 2, 1), size_facts="atleast2") == [1, 1, 1, 2], "Dynamo asks for it too"
    assert recompiles(double, rows(5, 16, 8), size_facts="multiple8") == [1, 1, 1], "5 is no multiple: nothing to wish"


def test_no_tensor_outgrows_32_bits_without_a_recompile():
    def outer(x, y):
        return (x[:, None] + y).sum(1)

    def call(n, m):
        return torch.ones(n), torch.ones(m)

    # 1000 x 1001, in proportion, has 2^31 elements at about 46318 x 46364.
    assert recompiles(outer, [call(1000, 1001), call(2000, 3000), call(46341, 2)], size_facts="index32") == [1, 1, 2]


def test_a_program_checks_what_it_relies_on():
    """Where a host drops Dynamo's guards (as for artifacts), a call without the fact is an error and no wrong value."""

    def backend(gm, inputs):
        made.append(coil.standalone_compile(gm, inputs, dynamic_shapes="from_tracing_context", options=options))
        return made[-1]

    made, options = [], {"size_facts": ["multiple8"]}
    torch.compile(double, backend=backend, dynamic=True)(torch.randn(8, 8))
    same(made[0](16, torch.randn(16, 16))[0].shape, torch.Size([16, 16]))
    with pytest.raises(coil.Error, match="8"):
        made[0](12, torch.randn(12, 12))


def test_recompiles_are_told(capfd):
    compiled = torch.compile(double, backend="coil", dynamic=False, options={"log": "recompiles"})
    for n in (3, 4):
        compiled(torch.randn(n, 6))
        said = capfd.readouterr().err
        if n == 3:
            assert "coil" not in said
    assert "double" in said and "is compiled again" in said and "inference: " in said and "kernels" in said
    assert "a guard failed" in said and "size mismatch at index 0. expected 3, actual 4" in said
