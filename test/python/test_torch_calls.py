"""What a call of torch.compile leaves behind, against eager: values, layout, gradients, and which tensors share memory
or are the same object, in the arguments and in the results; before and after a write to a result.
"""

import collections
import contextlib

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from test_torch_compile import TOLERANCE, coil

pytestmark = pytest.mark.usefixtures("fresh")

R = torch.randn
Pair = collections.namedtuple("Pair", "first second")


class TimesExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.exp() * 3


CASES = {}


def case(*makers, grad=False, context=contextlib.nullcontext, dynamic=(False,), tolerance=None, **options):
    """`makers`: functions that make the arguments."""

    def put(f):
        CASES[f.__name__] = (f, makers[0], grad, context, dynamic, tolerance, options)
        return f

    return put


def views():
    x = R(3, 4)
    return x, x[1:], x.view(-1)


def one_twice(grad=False):
    x = R(3, 4, requires_grad=grad)
    return x, x


BOTH = (False, True)


@case(one_twice, dynamic=BOTH)
def one_tensor_twice(x, y):
    return x * 2 + y, y.t()


@case(one_twice, dynamic=BOTH)
def one_tensor_twice_written(x, y):
    x.add_(1)
    return y * 2


@case(lambda: one_twice(True), grad=True)
def one_tensor_twice_differentiated(x, y):
    return x.sin() * y


@case(views, dynamic=BOTH)
def views_of_one_memory(x, y, z):
    return x.sum(0) + y.sum(0) + z[:4]


@case(views, dynamic=BOTH)
def views_whose_base_is_written(x, y, z):
    x.mul_(2)
    return y + 1, z * 3


@case(views, dynamic=BOTH)
def views_that_are_written(x, y, z):
    y.add_(3)
    w = x * 2
    z[0] = 9
    return w, x + 0, y.sum()


@case(lambda: (lambda x: (x.t(), x[1:].t()))(R(4, 3)), dynamic=BOTH)
def columns_that_are_written(x, y):
    y.add_(3)
    x[0] *= 2
    return x + 1, y * 1


@case(lambda: (lambda x: (x[0:4], x[2:6]))(R(8)), dynamic=BOTH)
def overlapping_views_that_are_written(x, y):
    x.add_(1)
    y.mul_(2)
    return x + y


@case(lambda: (R(4, 6),), dynamic=BOTH)
def results_that_view_an_input(x):
    return x.t(), x[1:, 2], x.view(2, 12), x.unsqueeze(0), x.expand(2, 4, 6), x.detach(), x


@case(lambda: (R(4, 6, requires_grad=True),), grad=True, dynamic=BOTH)
def results_that_view_an_input_and_are_differentiated(x):
    return x.t(), x[1:, 2], x * 2, x.detach()


@case(lambda: (R(4, 6),), dynamic=BOTH)
def results_that_view_each_other(x):
    y = x + 1
    return y, y, y.t(), y[0], y.view(-1)[3:]


@case(lambda: (R(4, 6, requires_grad=True),), grad=True)
def results_that_view_each_other_and_are_differentiated(x):
    y = x.sin()
    return y, y.t(), y[0], y.detach()


@case(lambda: (R(3), R(3)))
def results_that_are_inputs(x, y):
    x.add_(y)
    return y, x, x[1:], (x,)


@case(lambda: (R(4, 6, requires_grad=True), torch.zeros(6)), grad=True)
def statistics_written_beside_gradients(x, b):
    b.add_(x.detach().sum(0))
    return (x * b).sum()


@case(lambda: (R(3), {"a": R(2), "b": [R(1), 3]}))
def containers(x, d):
    return {"s": x + 1, "t": (d["a"] * 2, [d["b"][0] - 1, d["b"][1] + 1]), "n": None, "p": Pair(x + 1, x * 2)}


@case(lambda: (R(4, 5), R(5, 6)), context=lambda: torch.autocast("cpu", torch.bfloat16))
def autocast_around(x, w):
    return (x @ w).relu(), torch.softmax(x @ w, -1), (x @ w) + x.sum()


@case(lambda: (R(4, 5), R(5, 6)))
def autocast_inside(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ w.t()
    return y, z, y @ y.t()


# Gradients in bf16: eager rounds after each operator.
@case(
    lambda: (R(4, 5, requires_grad=True), R(5, 6, requires_grad=True)),
    grad=True,
    context=lambda: torch.autocast("cpu", torch.bfloat16),
    tolerance=3e-2,
)
def autocast_differentiated(x, w):
    return nn.functional.layer_norm(x @ w, (6,)), nn.functional.cross_entropy(x @ w, torch.tensor([0, 1, 2, 3]))


@case(lambda: (R(4, 5), R(5)), context=torch.inference_mode)
def inference_mode(x, w):
    x.add_(w)
    return x * 2, w[1:], x.t(), x


def made_in_inference_mode():
    with torch.inference_mode():
        return R(4, 5), R(5)


@case(made_in_inference_mode)
def inference_tensors_outside_of_it(x, w):
    return x * w, x.sum(0)


@case(lambda: (R(4, 5),), dynamic=BOTH)
def graph_breaks_between_writes(x):
    y = x.t()
    torch._dynamo.graph_break()
    y.add_(1)
    z = y[1:]
    torch._dynamo.graph_break()
    z.mul_(2)
    return x, y, z


@case(lambda: (R(4, 5, requires_grad=True),), grad=True)
def graph_breaks_differentiated(x):
    y = x * 2
    torch._dynamo.graph_break()
    z = y.sin()
    torch._dynamo.graph_break()
    return z[1:] * y[:-1]


@case(lambda: (R(4, 5, requires_grad=True),), grad=True)
def no_grad_inside(x):
    with torch.no_grad():
        s = x.sum()
    y = x * s
    with torch.no_grad():
        z = y * 2
    return y, z


@case(
    lambda: (
        torch.randint(-9, 9, (4,), dtype=torch.int8),
        torch.randint(0, 9, (4,), dtype=torch.uint8),
        torch.randint(0, 2, (4,)).bool(),
        R(4).half(),
        R(4, dtype=torch.complex64),
    )
)
def dtypes(a, b, c, d, z):
    return (
        a + 1,
        b * 2,
        ~c,
        d * 2,
        z * 2j,
        torch.add(z, d, alpha=1j),
        d * 1j,
        z == 1 + 1j,
        (a > 0) & c,
        a.to(torch.int16) * 300,
    )


@case(
    lambda: (
        R(4, 5).t(),
        R(3, 1).expand(3, 5),
        R(10)[::3],
        R(12)[5:].as_strided((3, 2), (2, 1)),
        R(()),
        R(0, 3),
        R(2, 3, 4, 5).to(memory_format=torch.channels_last),
    )
)
def strides(a, b, c, d, e, f, g):
    return (
        a * 2,
        b + 1,
        c - 1,
        d * d,
        e + 1,
        f * 2,
        g.relu(),
        a.t() + b[:1].sum(),
        torch.empty_like(a).fill_(1),
        a.clone(),
        a.contiguous(),
    )


@case(lambda: (R(4, 5),))
def sizes_and_strides_that_are_written(x):
    x.t_()
    y = x * 2
    x.unsqueeze_(0)
    return y


@case(lambda: (R(4),))
def a_buffer_that_grows(x):
    y = torch.empty(0)
    y.resize_(4).copy_(x)
    return y


@case(lambda: (R(4), R(4)))
def memory_of_another_argument(x, y):
    x.data = y
    return x * 2


@case(lambda: (R(4), R(4)))
def memory_of_a_result(x, y):
    before = x * 2
    x.data = y * 3
    return x + before


@case(lambda: (R(4), R(6)))
def memory_of_a_view(x, y):
    x.set_(y[1:5])
    y = y + 1
    return x + y[:4]


@case(lambda: (R(4, requires_grad=True),), grad=True)
def a_function_of_ones_own(x):
    return TimesExp.apply(x)


@case(lambda: (R(4, 4, requires_grad=True),), grad=True)
def a_checkpoint(x):
    return torch.utils.checkpoint.checkpoint(lambda x: x.sin() @ x, x, use_reentrant=False)


@case(lambda: (R(4),))
def functional_transforms(x):
    return torch.func.grad(lambda y: y.sin().sum())(x), torch.vmap(lambda a: a * 2)(x)


@case(lambda: (R(40),), options={"fallback_random": True})
def random_numbers(x):
    return nn.functional.dropout(x, 0.5), torch.rand_like(x), torch.randint(0, 9, (3,)), torch.randperm(5)


@case(lambda: (R(4), 0.5, 3, True, None, "s"), dynamic=BOTH)
def numbers(x, a, n, b, m, s):
    return x * a, x + n, (x if b else -x) * 1, n + 1, a * 2, x.shape, x.size(0) * 2.5


@case(lambda: (R(3), R(3), R(3)))
def out(x, y, o):
    torch.add(x, y, out=o)
    return o * 2


@case(lambda: (torch.arange(6), torch.tensor([1, 1, 3])))
def indices_that_repeat(x, i):
    x.index_add_(0, i, torch.tensor([10, 20, 30]))
    return x[i]


def tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def value(t):
    return t.detach().resolve_conj().resolve_neg()


def facts(t):
    empty = t.numel() == 0
    return (
        t.dtype,
        t.shape,
        None if empty else t.stride(),
        t.storage_offset(),
        t.requires_grad,
        t.is_leaf,
        t.is_inference(),
        type(t),
    )


def shared(ts):
    """For each tensor the first whose memory it has, and the first that it is."""
    memory = [t.untyped_storage().data_ptr() if t.numel() else -k for k, t in enumerate(ts)]
    return [(memory.index(m), [id(u) for u in ts].index(id(t))) for m, t in zip(memory, ts)]


def agree(got, want, tolerance=None):
    assert pytree.tree_structure(got) == pytree.tree_structure(want)
    for g, w in zip(pytree.tree_leaves(got), pytree.tree_leaves(want)):
        assert type(g) is type(w)
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert facts(g) == facts(w)
        limit = TOLERANCE.get(w.dtype, 0) if tolerance is None else tolerance
        torch.testing.assert_close(value(g), value(w), rtol=limit, atol=limit, equal_nan=True)


def gradients(arguments, results):
    total = sum(r.float().square().sum() for r in tensors(results) if r.requires_grad)
    return torch.autograd.grad(total, [a for a in dict.fromkeys(tensors(arguments)) if a.requires_grad])


@pytest.mark.parametrize(
    "name, dynamic", [pytest.param(n, d, id=n + ("-dynamic" if d else "")) for n, c in CASES.items() for d in c[4]]
)
def test_call(name, dynamic):
    f, make, grad, context, _, tolerance, options = CASES[name]
    compiled = torch.compile(f, backend="coil", dynamic=dynamic, **options)
    for turn in range(2):
        made = []
        for function in (compiled, f):
            torch.manual_seed(turn)
            arguments = make()
            with context(), torch.set_grad_enabled(grad):
                torch.manual_seed(5)
                made.append((arguments, function(*arguments)))
        got, want = made
        agree(got, want, tolerance)
        assert shared(tensors(got)) == shared(tensors(want))
        if grad:
            agree(gradients(*got), gradients(*want), tolerance)
            continue
        for g, w in zip(tensors(got[1]), tensors(want[1])):  # memory that is shared shows it when written to
            if w.is_floating_point() and not w.is_inference() and all(w.stride()):
                g.mul_(2), w.mul_(2)
        agree(got, want, tolerance)


# ---- Weights that torch has put off to negate or to conjugate: their memory has other values than they ----


class PutOff(nn.Module):
    def __init__(self, complex):
        super().__init__()
        z = R(4, dtype=torch.complex64)
        self.negative, self.weight, self.constant = nn.Buffer(z.conj().imag), nn.Parameter(R(4)), z.conj().imag
        self.conjugate = nn.Buffer(z.conj()) if complex else None

    def forward(self, x):
        more = () if self.conjugate is None else ((self.conjugate * 2).real, (self.conjugate * x).imag)
        return x * self.negative + self.weight, self.negative[1:] + 1, self.constant * x, *more


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_weights_put_off_under_torch_compile(freeze, complex):
    model, x = PutOff(complex), R(4)
    assert model.negative.is_neg() and model.constant.is_neg()
    with torch.no_grad():
        compiled = torch.compile(model, backend="coil", options={"freeze": freeze})
        for write in (lambda: None, lambda: model.negative.mul_(2), lambda: model.weight.add_(1)):
            write()
            for _ in range(2):
                agree(compiled(x), model(x))


def test_constants_of_a_graph_put_off():
    module, x = torch.fx.symbolic_trace(PutOff(False)), R(4)
    with torch.no_grad():
        agree(torch.compile(module, backend="coil")(x), module(x))


@pytest.mark.parametrize("complex", [False, True])
def test_weights_put_off_ahead_of_time(complex, tmp_path):
    model, x = PutOff(complex), R(4)
    compiled = coil.compile(model, (x,))
    compiled.save(tmp_path / "m.coil")
    for program in (compiled, coil.load(tmp_path / "m.coil")):
        with torch.no_grad():
            for got, want in zip(program(x), model(x), strict=True):
                # A part of a complex result is dense in a package.
                torch.testing.assert_close(got, want, check_stride=not complex)


def test_memory_of_another_without_fallback():
    def f(x, y):
        x.data = y
        return x * 2

    with pytest.raises(Exception, match="set_.* gives a tensor another's memory, is not compiled, and fallback is off"):
        torch.compile(f, backend="coil", options={"fallback": False})(R(4), R(4))


def test_what_is_no_tensor_is_refused():
    model = coil.compile(nn.Linear(3, 2), (R(4, 3),))
    for given in (None, "x", [1.0, 2.0]):
        with pytest.raises(
            coil.Error, match=f"a tensor should be given, not a {type(given).__name__}|arguments .* were given"
        ):
            model(given)


def test_complex_operators_ahead_of_time():
    """Where Coil has all of them it computes with parts; else all are torch's."""

    class Spectrum(nn.Module):
        def forward(self, x, z):
            return (
                (torch.fft.rfft(x) * 2).abs(),
                torch.linalg.eigvals(x[:, :4] @ x[:, :4].t()).abs().sum(),
                z * 2,
                (z + x[0, 0]).imag,
            )

    x, z = R(4, 8), R(3, dtype=torch.complex64)
    for module in (Spectrum(), PutOff(True)):
        arguments = (x, z) if isinstance(module, Spectrum) else (R(4),)
        with torch.no_grad():
            for got, want in zip(coil.compile(module, arguments)(*arguments), module(*arguments), strict=True):
                torch.testing.assert_close(value(got), value(want), rtol=1e-4, atol=1e-4)


VIEWED = {
    "element": lambda x: ((y := x.sin()), y[0]),
    "element first": lambda x: ((y := x.sin())[0], y),
    "turned": lambda x: ((y := x.view(2, 2).sin()).t(), y, y[1]),
    "channels last": lambda x: (
        (y := x.view(1, 2, 2, 1).contiguous(memory_format=torch.channels_last).sin()),
        y[0],
    ),
    "views alone": lambda x: ((y := x.sin()).view(2, 2), y.view(4, 1)),
}


@pytest.mark.parametrize("name", VIEWED)
def test_what_is_a_view_is_as_in_eager(name):
    """A value that is returned beside views of it is none itself; autograd counts on that where one is written to."""
    torch._dynamo.reset()
    compiled = torch.compile(VIEWED[name], backend="coil")
    for trains in (False, True):
        x = torch.randn(4, requires_grad=trains)
        got, want = compiled(x), VIEWED[name](x)
        if name != "views alone":
            assert [t._is_view() for t in got] == [t._is_view() for t in want]
        assert len({t.untyped_storage().data_ptr() for t in got}) == 1
        for results in (got, want):
            results[-1].mul_(2)
        for one, other in zip(got, want):
            torch.testing.assert_close(one, other)


def test_a_write_to_a_view_behind_a_graph_break():
    def program(x):
        y = (x @ x.mT).diagonal().sin()
        first = y[0]
        first[first > 0] = -1
        return y

    x = torch.ones(1, 2, requires_grad=True)
    got, want = torch.compile(program, backend="coil")(x), program(x)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))
