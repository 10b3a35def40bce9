"""What a call of an operator in torch promises: arguments as eager gives them, results as tracing recorded them, order.

The operators here do what few operators do: give results in other strides, keep their arguments, draw numbers.
"""

import gc
import itertools
import pathlib
import sys
import threading

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = [pytest.mark.cpu("its operators are defined for the CPU"), pytest.mark.usefixtures("fresh")]

LIBRARY = torch.library.Library("promises", "FRAGMENT")
NUMBERS = itertools.count()


def operator(function, arguments="Tensor x", returns="Tensor", fake=torch.empty_like, tags=()):
    """A new operator of this function."""
    name = f"op{next(NUMBERS)}"
    LIBRARY.define(f"{name}({arguments}) -> {returns}", tags=tags)
    LIBRARY.impl(name, function, "CPU")
    LIBRARY.impl(name, fake, "Meta")
    return getattr(torch.ops.promises, name)


def compiled(fn, **options):
    return torch.compile(fn, backend="coil", **options)


def numbers():
    return torch.arange(12.0).reshape(3, 4)


def test_result_that_is_its_argument():
    same = operator(lambda x: x)
    x = numbers()
    computed = compiled(lambda t: same(t * 1))(x)
    given = compiled(lambda t: same(t))(x)
    given.add_(1)
    assert torch.equal(computed, numbers()) and torch.equal(x, numbers())
    assert given.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: [x, x],
        lambda x: [(y := x * 2), y],
        lambda x: [(y := x * 2).view(12).view(3, 4), y],
        lambda x: [x[:], x],
    ],
    ids=["argument", "twice", "view", "both"],
)
def test_results_that_share_memory(make):
    """Recorded as two tensors of their own: a write to one reaches neither the other nor the argument."""
    made = operator(make, returns="Tensor[]", fake=lambda x: [torch.empty_like(x) for _ in "ab"])

    def fn(t):
        a, b = made(t)
        a.add_(1)
        return a, b * 2, t + 0

    x, (want, _) = numbers(), make(numbers())
    a, b, t = compiled(fn)(x)
    assert torch.equal(a, want + 1) and torch.equal(b, want * 2)
    assert torch.equal(t, numbers()) and torch.equal(x, numbers())
    a.add_(5)
    assert torch.equal(b, want * 2) and torch.equal(x, numbers())


def test_results_that_are_sizes():
    sized = operator(
        lambda x: (x * 2, x.shape[0]), returns="(Tensor, SymInt)", fake=lambda x: (torch.empty_like(x), x.shape[0])
    )

    def program(x):
        y, n = sized(x)
        return y * n, n, x[: n - 1]

    call = compiled(program, dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 3)
        got, want = call(x), program(x)
        assert torch.equal(got[0], want[0]) and got[1] == want[1] and torch.equal(got[2], want[2])


def test_result_that_is_its_argument_in_gradients(monkeypatch):
    # Torch warns of such an operator, and takes it for an error where a variable of the environment says CI.
    monkeypatch.setattr(torch._functorch.config, "error_on_custom_op_aliasing", False)
    same = operator(lambda x: x)
    torch.library.register_autograd(same.default._schema.name, lambda ctx, grad: same(grad), lib=LIBRARY)
    x = numbers().requires_grad_()
    y = compiled(lambda t: same(same(t.sin()) * 2).cos())(x)
    y.sum().backward()
    z = numbers().requires_grad_()
    (z.sin() * 2).cos().sum().backward()
    torch.testing.assert_close(x.grad, z.grad)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x * 2).t().contiguous().t(),
        lambda x: (x * 2)[:1, :1].expand(3, 4),
        lambda x: torch.arange(100.0)[5:17].view(3, 4),
        lambda x: torch._neg_view(x * 2),
        lambda x: (x * 2).requires_grad_(),
        lambda x: torch.nn.Parameter(x * 2),
    ],
    ids=["transposed", "expanded", "offset", "negated", "differentiable", "parameter"],
)
def test_result_that_lies_otherwise_than_traced(make):
    made = operator(make)
    x = numbers()
    for result, want in ((compiled(lambda t: made(t))(x), make(x)), (compiled(lambda t: made(t) + 1)(x), make(x) + 1)):
        torch.testing.assert_close(result, want.detach().resolve_neg(), rtol=0, atol=0, check_stride=False)
        assert result.stride() == (4, 1) and result.storage_offset() == 0 and not result.requires_grad


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda x: x[:2].clone(), r"gave f32\[2, 4\] where f32\[3, 4\] was expected"),
        (lambda x: x.double(), r"gave f64\[3, 4\] where f32\[3, 4\] was expected"),
        (lambda x: None, r"gave a NoneType where f32\[3, 4\] was expected"),
        (lambda x: x.to_sparse(), "gave a Tensor that is no plain tensor on cpu"),
        (lambda x: TwoTensor(x, x), "gave a TwoTensor, which has no memory of its own"),
    ],
    ids=["sizes", "dtype", "none", "sparse", "wrapper"],
)
def test_result_that_is_none_of_the_traced_kind(make, words):
    fails = [True]
    made = operator(lambda x: make(x) if fails[0] else x * 2)
    graph = compiled(lambda t: made(t) + 1)
    with pytest.raises(Exception, match=r"promises\.op\d+\.default " + words):
        graph(numbers())
    fails[0] = False  # the next call is right
    assert torch.equal(graph(numbers()), numbers() * 2 + 1)


@pytest.mark.parametrize("count", [1, 3])
def test_list_of_another_length(count):
    made = operator(
        lambda x: [x * 2 for _ in range(count)], returns="Tensor[]", fake=lambda x: [torch.empty_like(x) for _ in "ab"]
    )
    with pytest.raises(Exception, match=rf"promises\.op\d+\.default gave {count} where 2 results were expected"):
        compiled(lambda t: made(t)[1] + 1)(numbers())


def test_result_that_is_not_ready():
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed part")
    distributed = torch._C._distributed_c10d

    class Later(distributed.Work):
        """Fills the result when somebody waits."""

        def __init__(self, result, value):
            super().__init__()
            self.result, self.value = result, value

        def wait(self, timeout=None):
            self.result.copy_(self.value)
            return True

    works = []

    def begin(x):
        result = torch.full_like(x, -1)
        works.append(Later(result, x * 2))
        distributed._register_work(result, works[-1])
        return result

    pending = operator(begin)
    assert torch.equal(compiled(lambda t: pending(t) + 1)(numbers()), numbers() * 2 + 1)


def rounds(keeping):
    def fn(x):
        for i in range(4):
            x = keeping(x.sin() * i + 1).cos()
        return x

    return fn


@pytest.mark.parametrize(
    "what", [lambda x: x, lambda x: x[1:], lambda x: x.detach().view(-1)], ids=["itself", "part", "view"]
)
def test_argument_that_is_kept(what):
    kept = []
    keeping = operator(lambda x: (kept.append(what(x)), x * 1)[1])
    graph = compiled(rounds(keeping))
    rounds(keeping)(numbers())
    want = [k.clone() for k in kept]
    for _ in range(3):
        kept.clear()
        graph(numbers())
        graph(torch.zeros(3, 4))  # into the same memory
        assert all(torch.equal(a, b) for a, b in zip(want, kept))


def test_argument_that_only_a_later_call_keeps():
    kept, keeps = [], [False]
    keeping = operator(lambda x: (kept.append(x) if keeps[0] else None, x * 1)[1])
    graph = compiled(rounds(keeping))
    graph(numbers())
    keeps[0] = True
    rounds(keeping)(numbers())
    want = [k.clone() for k in kept]
    kept.clear()
    graph(numbers())
    assert all(torch.equal(a, b) for a, b in zip(want, kept))


def test_argument_that_a_thread_works_on():
    gate, threads, sums = threading.Event(), [], []

    def begin(x):
        threads.append(threading.Thread(target=lambda: (gate.wait(10), sums.append(x.sum().item()))))
        threads[-1].start()
        return x * 1

    later = operator(begin)
    compiled(lambda t: later(t * 3).mul(5).cos())(numbers())
    gate.set()
    threads[0].join()
    assert sums == [3 * numbers().sum().item()]


def test_argument_of_the_graph_is_that_very_object():
    seen = []
    see = operator(
        lambda x, y: (seen.extend([x, y]), x + y)[1], "Tensor x, Tensor y", fake=lambda x, y: x.new_empty(3, 4)
    )
    x = numbers()
    compiled(lambda t: see(t, t * 2))(x)
    assert seen[0] is x and torch.equal(seen[1], x * 2)


def test_effects_in_order():
    """Operators registered with an effect, among writes to what they look at."""
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    log = []
    note = operator(lambda x, s: log.append((s, x.sum().item())), "Tensor x, str s", "()", fake=lambda x, s: None)
    handle = _register_effectful_op(note.default, _EffectType.ORDERED)

    def fn(t, u):
        note(t, "a")
        t.add_(1)
        note(t, "b")
        y = t * 2
        note(y, "c")
        y.mul_(2)
        note(y[1:], "d")
        u.copy_(y)
        note(u, "e")
        note(t, "f")
        return y

    try:
        fn(numbers(), torch.zeros(3, 4))
        want = list(log)
        log.clear()
        compiled(fn)(numbers(), torch.zeros(3, 4))
        assert log == want
    finally:
        handle.destroy() if handle is not None else None


def test_random_operators_in_order():
    drawing = operator(lambda x: x + torch.rand(3, 4), tags=(torch.Tag.nondeterministic_seeded,))

    def fn(t):
        first = drawing(t)
        drawing(t)  # nobody needs it, but it moves the generator on
        return first, drawing(t)

    torch.manual_seed(3)
    want = fn(numbers())
    torch.manual_seed(3)
    got = compiled(fn, options={"fallback_random": True})(numbers())
    assert not torch.equal(*got)
    assert torch.equal(got[0], want[0])


def test_generators():
    def fn(t, generator):
        t = t * 1
        t.normal_(generator=generator)
        return t + torch.rand(3, 4, generator=generator) + torch.bernoulli(torch.full((3, 4), 0.5), generator=generator)

    ours, eagers = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    graph = compiled(fn)
    for _ in range(2):
        assert torch.equal(graph(numbers(), ours), fn(numbers(), eagers))


def test_hooks_on_tensors():
    twice = operator(lambda x: x * 2)
    torch.library.register_autograd(
        twice.default._schema.name,
        lambda ctx, grad: twice(grad),
        setup_context=lambda ctx, inputs, output: None,
        lib=LIBRARY,
    )

    def fn(t):
        y = twice(t.sin())
        y.register_hook(lambda grad: grad * 3)
        return twice(y).sum()

    grads = []
    for run in (fn, compiled(fn)):
        seen = []
        x = numbers().requires_grad_()
        x.register_hook(lambda grad: seen.append(grad.clone()))
        run(x).backward()
        grads.append((x.grad, *seen))
    torch.testing.assert_close(grads[1], grads[0])
    assert len(grads[1]) == 2


def test_subclass_arguments():
    twice = operator(lambda x: x * 2)

    def fn(t):
        return twice(t.sin()) + 1

    x = TwoTensor(numbers(), numbers() + 1)
    got, want = compiled(fn)(x), fn(x)
    assert type(got) is TwoTensor
    torch.testing.assert_close((got.a, got.b), (want.a, want.b))


def test_memory_that_is_given_twice_and_written():
    both = operator(
        lambda x, y: (x.add_(1), y.mul_(2)) and None, "Tensor(a!) x, Tensor(b!) y", "()", fake=lambda x, y: None
    )

    def fn(t):
        t = t * 1
        both(t[:2], t[1:])
        return t

    with pytest.raises(Exception, match=r"promises\.op\d+\.default writes to memory of .* that it is given twice"):
        compiled(fn)(numbers())


def test_views_that_are_written_on_both_sides_of_a_graph_break():
    def fn(x):
        y = x * 1
        a, b, c = y.t(), y[1:], y.view(-1)
        a.add_(1)
        b.mul_(3)
        torch._dynamo.graph_break()
        a.add_(1)
        b.mul_(2)
        c.add_(y.sum())
        return a + 1, b, c

    got, want = compiled(fn)(numbers()), fn(numbers())
    torch.testing.assert_close(got, want, rtol=0, atol=0)


MANY = "Tensor x, Tensor[] xs, Tensor? maybe, Tensor? none, Tensor?[] some, int[] numbers, *, str word='a'"


def mixed(x, xs, maybe, none, some, numbers, *, word="a"):
    assert none is None and some[1] is None and numbers == [1, 2] and word == "b"
    return [x + sum(xs) + maybe, some[0] * numbers[1]]


def run_mixed(op, x, y):
    z = y * 3
    first, second = op(x * 2, [y + 1, z], z, None, [x + y, None], [1, 2], word="b")
    return first + second, z


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
def test_no_handle_of_any_argument_is_left(raises):
    """Tensors, lists, optional ones and None: neither tensors nor their memory stay behind, call after call."""
    fail = []

    def function(*args, **named):
        if fail:
            raise ValueError("not today")
        return mixed(*args, **named)

    op = operator(
        function, MANY, "Tensor[]", lambda x, xs, maybe, none, some, *_, **named: [x.new_empty(x.shape) for _ in (1, 2)]
    )
    call = compiled(lambda x, y: run_mixed(op, x, y))
    x, y = numbers(), numbers() + 1
    for got, want in zip(call(x, y), run_mixed(mixed, x, y)):
        assert torch.equal(got, want)

    def calls(count):
        for _ in range(count):
            if raises:
                with pytest.raises(ValueError, match="not today"):
                    call(x, y)
            else:
                call(x, y)
        gc.collect()
        return sum(isinstance(o, torch.Tensor) for o in gc.get_objects())

    fail += [1] * raises
    before = calls(20)
    references = [sys.getrefcount(o) for o in (x, y)]
    assert calls(200) <= before  # what tests before this one left may go meanwhile
    assert [sys.getrefcount(o) for o in (x, y)] == references
    fail.clear()
    for got, want in zip(call(x, y), run_mixed(mixed, x, y)):
        assert torch.equal(got, want)
