"""Results that are views, of inputs, of inputs that the program writes to, and of other results, where sizes are free:
values, strides, offsets, and whose memory they see, against eager.
"""

import pathlib
import sys

import pytest
import torch
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")


def last_half(v):
    return v.chunk(2, -1)[-1]


VIEWS = {
    "last half": last_half,
    "middle": lambda v: v.narrow(0, v.shape[0] // 2, 2),
    "turned": lambda v: v.t()[1:],
    "last": lambda v: v.select(0, -1),
    "repeated": lambda v: last_half(v).expand(3, *last_half(v).shape).unflatten(0, (1, -1)),
    "diagonal": lambda v: v.diagonal(1),
    "piece": lambda v: v.unbind(0)[-1][1:],
}


def of_input(view):
    return lambda x: (view(x),)


def of_written(view):
    def program(x):
        x += 1
        return (view(x),)

    return program


def of_written_view(view):
    def program(x):
        w = x.t()
        w.mul_(2)
        return (view(w),)

    return program


def of_result(view):
    def program(x):
        y = x * 2
        return y, view(y)

    return program


def twice(view):
    def program(x):
        x.mul_(2)
        y = view(x)
        return y, y.view_as(y), x

    return program


BASES = (of_input, of_written, of_written_view, of_result, twice)


def expect_same_views(program, dtype):
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="coil", dynamic=True)
    for sizes in ((6, 8), (4, 10)):
        x = torch.randn(sizes, dtype=dtype)
        y = x.clone()
        want, got = program(x), compiled(y)
        assert torch.equal(x, y)
        for w, g in zip(want, got, strict=True):
            assert (w.shape, w.stride(), w.storage_offset()) == (g.shape, g.stride(), g.storage_offset())
            assert torch.equal(w, g) and w.dtype == g.dtype
            sees = lambda t, other: t.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
            assert sees(w, x) == sees(g, y)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("base", BASES, ids=lambda f: f.__name__)
def test_views_with_free_sizes(base, name):
    expect_same_views(base(VIEWS[name]), torch.float32)


COMPLEX = {
    "real": lambda v: last_half(v).real,
    "imaginary": lambda v: v.imag.narrow(0, v.shape[0] // 2, 2),
    "pairs": lambda v: torch.view_as_real(last_half(v))[1:, :, 1],
    "conjugate": lambda v: last_half(v.conj())[::2],
    "real of the conjugate": lambda v: last_half(v.conj().t()).real,
    "imaginary of the conjugate": lambda v: last_half(v).conj().imag,
    "whole": last_half,
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("base", [of_input, of_written], ids=lambda f: f.__name__)
def test_views_of_complex_numbers(base, name):
    expect_same_views(base(COMPLEX[name]), torch.complex64)


def test_views_in_another_type():
    """Of elements of one length: in shorter or longer ones torch sees what lies elsewhere, with every backend."""
    expect_same_views(of_input(lambda v: last_half(v.view(torch.int32))), torch.float32)


def test_pairs_that_are_seen_as_complex_numbers():
    expect_same_views(of_input(lambda v: torch.view_as_complex(v[1:].unflatten(-1, (-1, 2)))), torch.float32)


def test_views_of_complex_numbers_beside_gradients():
    """The graph of both directions gives them as the one of inference does."""

    def program(z, x):
        return last_half(z).real, (x * last_half(z).imag.sum()).sum()

    compiled = torch.compile(program, backend="coil", dynamic=True)
    for sizes in ((6, 8), (4, 10)):
        z, x = torch.randn(sizes, dtype=torch.complex64), torch.randn(sizes, requires_grad=True)
        want, got = program(z, x), compiled(z, x)
        assert torch.equal(want[0], got[0]) and want[0].data_ptr() == got[0].data_ptr()
        torch.testing.assert_close(*(torch.autograd.grad(loss, x)[0] for _, loss in (want, got)))


@pytest.mark.parametrize("length", [3, 10])
def test_a_size_that_may_be_one_has_a_view(length):
    """Whether the repeated half can be seen in other sizes does not hang on its being one element."""

    def program(x):
        half = last_half(x)
        return half.expand(3, half.shape[0]).view(1, 3, half.shape[0])

    x = torch.randn(length)
    got = torch.compile(program, backend="coil", dynamic=True)(x)
    assert torch.equal(got, program(x))
    assert got.data_ptr() == program(x).data_ptr()


def test_parts_of_complex_numbers_that_are_written():
    def program(z):
        z.real.mul_(2)
        return z.conj(), torch.view_as_real(z), z.imag, z[1:]

    compiled = torch.compile(program, backend="coil", dynamic=True)
    for rows in (4, 6):
        z = torch.randn(rows, 3, dtype=torch.complex64)
        y = z.clone()
        for want, got in zip(program(z), compiled(y), strict=True):
            assert torch.equal(want, got) and want.stride() == got.stride()
        assert torch.equal(z, y)


def expect_same_with_gradient(program, x):
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    got, want = torch.compile(program, backend="coil", dynamic=True)(mine), program(theirs)
    torch.testing.assert_close(got, want)
    got.sum().backward(), want.sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)


def test_strides_of_dimensions_of_one_element():
    """Traces may record any number for them, and ask for it."""

    def program(x):
        v = F.gelu(x * 2).transpose(0, -1).triu(1)
        w = v.transpose(0, -1)
        w[w > 0] = -1
        return v

    expect_same_with_gradient(program, torch.randn(17, 2, 5, 1))


LAYOUTS = {
    "gaps": lambda n: torch.arange(10.0 * n).reshape(n, 10)[:, ::2],
    "turned": lambda n: torch.arange(5.0 * n).reshape(5, n).t(),
    "a part": lambda n: torch.arange(15.0 * n).reshape(n, 15)[1:, 2:7],
}
WRITES = {
    "turned": lambda a, c: (a.add_(c), a.t(), a * 2),
    "rows": lambda a, c: (a.add_(c), a[1:], a.select(1, 2)),
    "pieces": lambda a, c: (a.mul_(c), *a.split(2, 0)),
    "a part": lambda a, c: (a[1:].add_(c[1:]), a.t(), a[1:, 2]),
    "repeated": lambda a, c: (a.add_(c), a.unsqueeze(1).expand(-1, 3, -1)),
    "windows": lambda a, c: (a.t().mul_(c.t()), a.t()[2:].unfold(0, 2, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_written_inputs_that_are_not_dense(name, layout):
    """What is written may have other strides than the input that it goes to, of which the results are views."""
    program, make = WRITES[name], LAYOUTS[layout]
    compiled = torch.compile(program, backend="coil", dynamic=True)
    for n in (4, 7):
        seen, given = make(n), make(n)
        c = torch.randn(seen.shape)
        for want, got in zip(program(seen, c), compiled(given, c), strict=True):
            assert torch.equal(want, got)
            assert (want.stride(), want.storage_offset()) == (got.stride(), got.storage_offset())
            if want._is_view():
                assert want.data_ptr() - seen.data_ptr() == got.data_ptr() - given.data_ptr()
        assert torch.equal(seen, given)


def test_sizes_that_a_guard_fixes_meanwhile():
    def program(x):
        return F.max_pool2d(x, 2, 1, (0, 0), 2, True)[..., ::2]

    expect_same_with_gradient(program, torch.randn(3, 4, 17, 3))


def test_what_lies_around_the_elements_of_an_input():
    """Only torch knows that there is memory."""
    rows = torch.randn(4, 5)

    def program(x):
        return x.as_strided((2, 5), (5, 1), 5) * 2

    assert torch.equal(torch.compile(program, backend="coil")(rows[2]), program(rows[2]))
    with pytest.raises(Exception, match="as_strided.* sees memory around an input's own elements, is not compiled"):
        torch._dynamo.reset()
        torch.compile(program, backend="coil", options={"fallback": False})(rows[2])
