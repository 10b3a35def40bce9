"""`torch.compile(backend="coil")` against eager: values, strides, aliasing, mutation, gradients. The package comes from
the build folder.
"""

import copy
import gc
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")

TOLERANCE = {torch.complex64: 1e-5, torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def compiled(f, **options):
    return torch.compile(f, backend="coil", fullgraph=True, **options)


def same(got, want):
    """Values within tolerance; everything else of a tensor exactly."""
    if isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w)
        return
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert (got.dtype, got.shape, got.stride(), got.storage_offset()) == (
        want.dtype,
        want.shape,
        want.stride(),
        want.storage_offset(),
    )
    t = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got, want, rtol=t, atol=t, equal_nan=True)


def check(f, *args, **options):
    """Compiled and eager agree, on results and on what they leave in their arguments."""
    mine, theirs = [a.clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args], args
    got = compiled(f, **options)(*mine)
    want = f(*theirs)
    same(got, want)
    same([a for a in mine if isinstance(a, torch.Tensor)], [a for a in theirs if isinstance(a, torch.Tensor)])


def test_needs_no_import():
    # The entry point is found by its metadata: what `pip install` leaves.
    from importlib.metadata import entry_points

    assert [e.value for e in entry_points(group="torch_dynamo_backends") if e.name == "coil"] == ["coil.dynamo:coil"]
    assert "coil" in torch._dynamo.list_backends()


def test_extension_exports_no_more_than_it_must():
    """The entry point, the C interface, and names of Coil's own that libraries from outside call."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", coil._native.__file__], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    names = [name for name in done.stdout.split() if name != "PyInit__native" and not name.startswith("coil_")]
    assert not [name for name in names if not re.match(r"_Z(N|NK|TVN|TIN|TSN)4coil", name)]
    assert len(names) < 400


def test_strides_of_inputs_and_outputs():
    def f(x, t, e, z, s):
        return x * 2 + t, t.relu(), e + 1, z + 1, s * 3, (x @ t.t()).softmax(-1)

    check(
        f,
        torch.randn(3, 4),
        torch.randn(4, 3).t(),
        torch.randn(3, 1).expand(3, 5),
        torch.randn(0, 4),
        torch.tensor(2.0),
    )


def test_aliases():
    x = torch.randn(4, 6)

    def f(x):
        y = x * 2
        return y, y.t(), y[1:, 2], x[1], x.view(-1), x, None, 3

    check(f, x)
    with torch.no_grad():
        got = compiled(f)(x)
    base = got[0].untyped_storage().data_ptr()
    assert got[1].untyped_storage().data_ptr() == base and got[2].untyped_storage().data_ptr() == base
    assert got[3].untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == got[4].untyped_storage().data_ptr()
    assert got[5] is x
    got[4].zero_()
    assert not x.any() and got[3].eq(0).all()


def test_mutation():
    def f(x, y):
        x.add_(y)
        y[0] = 7
        return x.sum(), y

    check(f, torch.randn(3, 3), torch.randn(3, 3))


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


def test_buffers_are_updated():
    m, n = Buffers(), Buffers()
    x = torch.randn(8, 4)
    with torch.no_grad():
        same(compiled(m)(x), n(x))
    same(list(m.state_dict().values()), list(n.state_dict().values()))


def test_graph_breaks():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(5)
    same(torch.compile(f, backend="coil")(x), f(x))


def test_dynamic_sizes():
    def f(x, n):
        return x.view(-1, 2).sum(0) * n, x.shape[0] * 2, x[: x.shape[0] // 2]

    g = compiled(f, dynamic=True)
    for size in (4, 10, 6):
        x = torch.randn(size)
        same(g(x, size + 1), f(x, size + 1))


def graphs_of(monkeypatch):
    """The compiled graphs that torch.compile makes from now on, to be called without Dynamo's guards."""
    from coil import dynamo, kept

    monkeypatch.setattr(kept, "can_keep", lambda options: False)  # what is kept is not compiled
    made, named = [], dynamo._named
    monkeypatch.setattr(dynamo, "_named", lambda graph, options: made.append(graph) or named(graph, options))
    return made


def changes():
    """What a program may do to a tensor that it keeps."""
    other = torch.randn(4, 6)
    return {
        "values": lambda x: x.mul_(3),
        "storage": lambda x: x.set_(torch.randn(4, 6)),
        "view of another": lambda x: x.set_(other.untyped_storage(), 3, (2, 6), (9, 1)),
        "fewer rows": lambda x: x.resize_(2, 6),
        "more rows": lambda x: x.resize_(64, 6).normal_(),
        "strides": lambda x: x.set_(torch.randn(6, 4)).t_(),
        "data": lambda x: setattr(x, "data", torch.randn(4, 12)[:, ::2]),
        "expanded": lambda x: x.set_(torch.randn(6)).as_strided_((4, 6), (0, 1)),
        "no rows": lambda x: x.resize_(0, 6),
    }


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_tensor_that_is_changed_in_place_between_calls(dynamic, monkeypatch):
    """Inputs that look like the last call's are taken as they were: whatever changed must be seen, in Dynamo's guards
    or behind them.
    """
    graphs = graphs_of(monkeypatch)

    def f(x, y):
        return x * 2 + y, x.sum(0)

    with torch.no_grad():
        g = compiled(f, dynamic=dynamic)
        x, y = torch.randn(4, 6), torch.randn(6)
        same(g(x, y), f(x, y))
        for change in changes().values():
            change(x)
            for _ in range(2):
                same(g(x, y), f(x, y))
        # Without the guards: another layout of the same sizes is taken as it is, other sizes are an error, and so is
        # another dtype.
        torch._dynamo.reset()
        x = torch.randn(4, 6)
        compiled(f)(x, y)
        graph = graphs[-1]
        for name, change in changes().items():
            change(x)
            for _ in range(2):
                if x.shape == (4, 6):
                    torch.testing.assert_close(graph(x, y), f(x, y))
                else:
                    with pytest.raises(coil.Error, match="size"):
                        graph(x, y)
            x.set_(torch.randn(4, 6))
            torch.testing.assert_close(graph(x, y), f(x, y))
        for other in (x.double(), x.to(torch.int32)):
            with pytest.raises(coil.Error, match="expected float32|is (float64|int32)|f32"):
                graph(other, y)
        torch.testing.assert_close(graph(x, y), f(x, y))


def test_inputs_of_other_classes(monkeypatch):
    graphs = graphs_of(monkeypatch)

    class Named(torch.Tensor):
        pass

    def f(x, y):
        return x * 2 + y

    with torch.no_grad():
        x, y = torch.randn(4, 6), torch.randn(6)
        compiled(f)(x, y)
        for other in (nn.Parameter(x), x.as_subclass(Named), nn.Buffer(x), x):
            same(graphs[-1](other, y)[0], f(x, y))
        for wrong in (x.to_sparse(), x.cpu().numpy(), 3, None, x.to("meta")):
            with pytest.raises(Exception) as error:
                graphs[-1](wrong, y)
            assert str(error.value)
        same(graphs[-1](x, y)[0], f(x, y))


def test_inputs_that_torch_has_put_off_to_negate_or_conjugate(tmp_path):
    """Such a tensor's memory has other values than the tensor: views like `z.conj().imag` are."""
    z = torch.randn(4, dtype=torch.complex64)
    x = z.conj().imag
    assert x.is_neg() and z.conj().is_conj()
    plain = torch.randn(4)

    def value(t):
        return t.resolve_conj().resolve_neg()

    def both(f, *args):
        """Compiled for tensors that are as they look first, and for those that are not."""
        for first in (args, [value(a).clone() for a in args]):
            torch._dynamo.reset()
            with torch.no_grad():
                g = compiled(f)
                g(*first)
                got, want = g(*args), f(*args)
            torch.testing.assert_close(value(got), value(want))

    both(lambda x: x + 1, x)
    both(lambda x, y: x * y, plain, x)
    both(lambda x: x[1:] * 2, x)
    both(lambda x: x[1:], x)
    both(lambda z: z * 2 + 1, z.conj())
    both(lambda z: z.conj().imag + 1, z)
    mine, theirs = z.clone().conj().imag, z.clone().conj().imag
    torch._dynamo.reset()
    with torch.no_grad():
        compiled(lambda x: x.add_(1))(mine)
        theirs.add_(1)
    torch.testing.assert_close(value(mine), value(theirs))

    # Gradients come as autograd made them.
    for x, gradient in (
        (torch.randn(3), torch.randn(3, dtype=torch.complex64).conj().imag),
        (torch.randn(3, dtype=torch.complex64), torch.randn(3, dtype=torch.complex64).conj()),
    ):
        torch._dynamo.reset()
        got = []
        for f in (compiled(lambda x: x * x), lambda x: x * x):
            leaf = x.clone().requires_grad_()
            f(leaf).backward(gradient)
            got.append(value(leaf.grad))
        torch.testing.assert_close(*got)

    model = coil.compile(nn.ReLU(), (torch.randn(4),))
    torch.testing.assert_close(model(z.conj().imag), value(z.conj().imag).relu())


def test_inference_mode_and_autocast():
    m = nn.Linear(4, 3)
    x = torch.randn(2, 4)
    with torch.inference_mode():
        got = compiled(m)(x)
        assert got.is_inference()
        same(got, m(x))
    torch._dynamo.reset()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        same(compiled(m)(x), m(x))


def test_options():
    def f(x):
        return x + 1

    x = torch.randn(3)
    same(compiled(f, options={"fuse": False, "cpu.isa": "avx2"})(x), x + 1)
    torch._dynamo.reset()
    same(compiled(f, mode="max-autotune")(x), x + 1)
    for wrong in ({"fuze": True}, {"fuse": "maybe"}, {"freeze": "maybe"}):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="fuze.*there are.*fuse|(fuse|freeze) takes true or false"):
            compiled(f, options=wrong)(x)


@pytest.mark.cpu("torch has no histogramdd elsewhere")
def test_operators_without_lowering_are_called_in_torch():
    def f(x):
        y = torch.fft.rfft(x * 2).abs() + 1
        counts, edges = torch.histogramdd((x @ x.t())[:, :2], [4, 4])
        return y, counts @ edges[0][1:]

    check(f, torch.randn(4, 4))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="aten.*has no lowering"):
        compiled(f, options={"fallback": False})(torch.randn(4, 4))


def torch_keeps_checks():
    """Whether AOTAutograd leaves the checks of torch.linalg in the graph; torch 2.11 does not."""
    try:
        torch.compile(torch.linalg.cholesky, backend="aot_eager")(-torch.eye(3))
    except RuntimeError:
        return True
    finally:
        torch._dynamo.reset()
    return False


def test_operators_with_effects():
    # What torch orders by tokens: checks of the solvers, and operators registered with an effect.
    def f(x):
        low = torch.linalg.cholesky(x @ x.t() + 3 * torch.eye(4, device=x.device))
        return torch.linalg.solve_triangular(low, x, upper=False) + 1, low

    x = torch.randn(4, 4)
    check(f, x)
    torch._dynamo.reset()
    if torch_keeps_checks():
        with pytest.raises((RuntimeError, coil.Error), match="positive-definite"):
            compiled(torch.linalg.cholesky)(-torch.eye(3))
    torch._dynamo.reset()
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled(f)(a)[0].sum().backward()
    f(b)[0].sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_frozen_weights_follow_writes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        g = torch.compile(model, backend="coil", options={"freeze": True})
        same(g(x), model(x))
        assert len(g(x)) == 2
        for write in (
            lambda: model[4].weight.mul_(2),
            lambda: model[1].running_mean.add_(1),
            lambda: setattr(model[0].weight, "data", torch.randn(8, 3, 3, 3)),
            lambda: model.load_state_dict(
                {k: v + 0.25 if v.is_floating_point() else v for k, v in model.state_dict().items()}
            ),
        ):
            write()
            same(g(x), model(x))
            same(g(x[:1]), model(x[:1]))  # another graph of the same weights
        model[4].weight = nn.Parameter(torch.randn(5, 8 * 36))
        same(g(x), model(x))


def test_frozen_graphs_hold_packed_weights():
    from coil import dynamo

    kept = []
    original = dynamo._compile_frozen
    dynamo._compile_frozen = lambda *args: kept.append(original(*args)) or kept[-1]
    try:
        model = nn.Linear(64, 64).eval()
        x = torch.randn(8, 64)
        with torch.no_grad():
            same(torch.compile(model, backend="coil", options={"freeze": "true"})(x), model(x))
        graph = kept[0].graph
        assert graph.inputs == ["arg2_1"] and graph.arguments == 3
        # Training graphs read weights as they come.
        torch._dynamo.reset()
        torch.compile(model, backend="coil", options={"freeze": True})(x).sum().backward()
        assert len(kept) == 1 and model.weight.grad is not None
    finally:
        dynamo._compile_frozen = original


def test_errors_in_torch_come_through(request):
    if request.config.getoption("--device") != "cpu":
        pytest.skip("a failed assertion on a GPU ends all work there")
    g = compiled(lambda x: torch.multinomial(x, 2) + 1)
    with pytest.raises(RuntimeError, match="sum of probabilities"):
        g(torch.zeros(3))


def losses(model, backend, steps, inputs, targets):
    """The losses of a few steps of training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)

    def loss_of(x, y):
        return nn.functional.cross_entropy(model(x), y)

    forward = torch.compile(loss_of, backend=backend) if backend else loss_of
    step = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
    out = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = forward(inputs, targets)
        loss.backward()
        step()
        out.append(loss.item())
    return out


def test_training():
    def net():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))

    x, y = torch.randn(12, 16), torch.randint(10, (12,))
    torch.testing.assert_close(losses(net(), "coil", 8, x, y), losses(net(), None, 8, x, y), rtol=1e-4, atol=1e-5)


def test_threads_may_call_at_once():
    from concurrent.futures import ThreadPoolExecutor

    def f(x):
        return (x * 2).sum(-1) + x[:, 0]

    g = compiled(f)

    def call(x):
        with torch.no_grad():  # a thread's own
            return g(x)

    inputs = [torch.randn(64, 64) for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        pool.submit(call, inputs[0]).result()  # compiled as one of these threads wants it
        for x, got in zip(inputs, pool.map(call, inputs)):
            same(got, f(x))


def test_memory_stays_flat():
    import resource

    def f(x):
        return x + 1, x.view(-1)

    with torch.no_grad():
        g = compiled(f)
        x = torch.randn(4, 4)
        for _ in range(2000):
            g(x)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20000):
            g(x)
        # KiB: what the process itself may wobble.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048


# ---- What each stage made ----


def test_debug_folder_and_logs(tmp_path, capfd, monkeypatch):
    def f(x):
        return torch.softmax(x.sin() @ x.t(), -1).cumsum(0)

    x = torch.randn(5, 5)
    with torch.no_grad():
        torch.compile(f, backend="coil", options={"debug_dir": tmp_path / "debug"})(x)
        torch._dynamo.reset()
        monkeypatch.setenv("COIL_LOGS", "+output_code,ir_post_fusion")
        torch.compile(f, backend="coil")(x)
    (graph,) = (tmp_path / "debug").iterdir()
    assert graph.name == "0_inference"
    names = {p.name for p in graph.iterdir()}
    assert {
        "00_graph.txt",
        "fx_graph_transformed.txt",
        "ir_pre_fusion.txt",
        "ir_post_fusion.txt",
        "wrapper.txt",
        "kernels.cpp",
        "timings.txt",
    } <= names
    assert (
        "aten.sin.default" in (graph / "00_graph.txt").read_text()
        and "reduce.max" in (graph / "ir_pre_fusion.txt").read_text()
        and "kernel over" in (graph / "ir_post_fusion.txt").read_text()
    )
    assert "extern " in (graph / "wrapper.txt").read_text() and 'extern "C"' in (graph / "kernels.cpp").read_text()
    assert {"schedule", "lower", "kernels", "in all"} <= {
        line.split("  ")[-1] for line in (graph / "timings.txt").read_text().splitlines()
    }
    logged = capfd.readouterr().err
    assert "wrapper" in logged and "kernel over" in logged and "aten.sin" not in logged
    monkeypatch.setenv("COIL_LOGS", "nonsense")
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="nonsense"):
        torch.compile(f, backend="coil")(x)


# ---- The wrapper as an FX graph, in process ----


class Stateful(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, h):
        self.calls.add_(1)
        h.mul_(2)
        return torch.softmax(self.linear(x), -1), x.t()[1:], h.sum() + self.calls


def test_fx_wrapper_in_process():
    module = Stateful()
    x, h = torch.randn(5, 6), torch.randn(3)
    rows = torch.export.Dim("rows", min=2, max=64)
    graph = coil.fx_wrapper(copy.deepcopy(module), (x, h), dynamic_shapes=({0: rows}, None))
    assert isinstance(graph, torch.fx.GraphModule) and any(
        n.target in (torch.ops.coil_wrapper.kernel.default, torch.ops.coil_wrapper.launch.default)
        for n in graph.graph.nodes
    )
    again = torch.fx.symbolic_trace(graph)
    for turn, (form, rows) in enumerate(
        [(graph, 5), (graph, 31), (again, 7), (lambda *a: torch.fx.Interpreter(again).run(*a), 4)]
    ):
        x, h = torch.randn(rows, 6), torch.randn(3)
        theirs, ours = h.clone(), h.clone()
        with torch.no_grad():
            want = copy.deepcopy(module)(x, theirs)
        got = form(x, ours)
        torch.testing.assert_close(got[:2], want[:2])
        torch.testing.assert_close(got[2], want[2] + turn)  # it counts on
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(AssertionError, match="must be at most 64"):
        graph(torch.randn(65, 6), h)


def test_fx_wrapper_of_training_graphs():
    """Forward and backward as AOTAutograd makes them."""
    from torch._dynamo.backends.common import aot_autograd

    def compiler(gm, inputs):
        wrapper = coil.fx_wrapper(gm, tuple(inputs))
        return lambda *args: wrapper(*(a for a in args))

    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
    x = torch.randn(4, 6, requires_grad=True)
    compiled = torch.compile(copy.deepcopy(module), backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    want = torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()])
    got = torch.autograd.grad(compiled(x).square().sum(), [x, *compiled.parameters()])
    torch.testing.assert_close(got, want)


def test_sizes_from_strides_and_offsets():
    """Symbols that no size tells: of slices' strides and beginnings, in every order of inputs."""

    def sliced(n, m):
        return torch.randn(n, m)[:, 1:4]

    def f(x, y, z):
        return (x * 2).t() @ y, y.as_strided((2, 2), (y.stride(0), 1)) + x.stride(0), z.sum() + z.storage_offset()

    g = compiled(f, dynamic=True)
    with torch.no_grad():
        for n, a, b, k in ((6, 10, 11, 3), (7, 13, 9, 5), (5, 9, 21, 9)):
            x, y, z = sliced(n, a), sliced(n, b), torch.randn(40)[k:]
            same(g(x, y, z), f(x, y, z))


@pytest.mark.parametrize(
    "write",
    [
        lambda z: z.mul_(2),
        lambda z: z.real.add_(1),
        lambda z: z.diagonal().zero_(),
        lambda z: torch.view_as_real(z)[1].neg_(),
    ],
    ids=["whole", "real", "diagonal", "pairs"],
)
@pytest.mark.parametrize(
    "seen", [lambda z: z, lambda z: z.t(), lambda z: z[:, ::2]], ids=["dense", "transposed", "gaps"]
)
def test_complex_inputs_that_are_written(write, seen):
    def f(z):
        write(z)
        return z.sum()

    z = torch.randn(4, 4, dtype=torch.complex64)
    mine, theirs = (seen(z.clone()) for _ in "ab")
    same(compiled(f)(mine), f(theirs))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "repeat",
    [
        lambda z: z.expand(3, 5),
        lambda z: z[:, None].expand(5, 3),
        lambda z: z[None, :, None].expand(4, 5, 3).permute(2, 0, 1),
        lambda z: (z.real + 0j).unfold(-1, 1, 1).broadcast_to(3, 5, 1),
        lambda z: z[0].expand(2, 2),
        lambda z: z[:0].expand(4, 0),
    ],
)
def test_complex_results_that_repeat_themselves(repeat):
    f = lambda z: repeat(z * 2)
    z = torch.randn(5, dtype=torch.complex64)
    mine, theirs = compiled(f)(z), f(z)
    same(mine, theirs)
    assert mine.stride() == theirs.stride()


def test_eight_bit_floats_that_are_written():
    def f(x):
        x.copy_(x.float() * 2)

    x = torch.tensor([[0.5, 1.0], [2.0, -3.0]])
    mine = x.to(torch.float8_e4m3fn)
    compiled(f)(mine)
    assert torch.equal(mine.float(), x * 2)


def test_sizes_of_complex_tensors_that_are_free():
    def f(x):
        return torch.fft.rfft(x, dim=-1).sum(-1).abs(), torch.view_as_complex(x.view(-1, 2)).reshape(x.shape[0], -1) * 2

    graph = compiled(f, dynamic=True)
    for n in (4, 6):
        x = torch.randn(3, n)
        same(graph(x), f(x))


def test_gradient_of_overlapping_frames():
    window = torch.hann_window(16)

    def f(x):
        return torch.istft(x, 16, 4, window=window, length=64)

    x = torch.randn(2, 9, 17, dtype=torch.complex64, requires_grad=True)
    (want,) = torch.autograd.grad(f(x).square().sum(), x)
    (got,) = torch.autograd.grad(compiled(f)(x).square().sum(), x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradient_of_bags(mode):
    at, starts = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])

    def f(table):
        return torch.nn.functional.embedding_bag(at, table, starts, mode=mode, padding_idx=1)

    table = torch.randn(10, 3, requires_grad=True)
    (want,) = torch.autograd.grad(f(table).square().sum(), table)
    (got,) = torch.autograd.grad(compiled(f)(table).square().sum(), table)
    torch.testing.assert_close(got, want)


def test_every_second_of_a_free_size_less_one():
    def f(x):
        y = (x * 2)[:-1]
        y[::2] += 1
        return y

    graph = compiled(f, dynamic=True)
    for n in (8, 5):
        x = torch.randn(n)
        same(graph(x), f(x))


def test_second_half_of_a_free_size():
    def f(x):
        return (x.sin().chunk(2)[-1] // 2).movedim(0, -1)

    graph = compiled(f, dynamic=True)
    for n in (3, 4, 7):
        x = torch.randn(n, 4)
        same(graph(x), f(x))


def test_batch_norm_of_narrow_parameters_in_training():
    """Running statistics, which torch traces as wide, stay narrow."""
    torch.manual_seed(0)
    module = torch.nn.BatchNorm2d(3).bfloat16()
    other = copy.deepcopy(module)
    x = torch.randn(4, 3, 5, 5, dtype=torch.bfloat16)
    want, got = module(x), compiled(other)(x)
    (want.sum() + want.square().sum()).backward()
    (got.sum() + got.square().sum()).backward()
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(dict(other.named_buffers()), dict(module.named_buffers()))
    for mine, theirs in zip(other.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=2e-2, atol=0.1)


def test_numbers_as_operands_of_prims():
    """`addcmul` on some types becomes `prims.fma` of a tensor and a number."""

    def f(v, g):
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        return torch.addcmul(v, g, v, value=0.3), torch.addcdiv(v, g, v.abs() + 1, value=2)

    v, g = torch.randn(5), torch.randn(5)
    mine, theirs = v.clone(), v.clone()
    same(compiled(f)(mine, g), f(theirs, g))
    same(mine, theirs)


def test_eight_bit_floats_that_view_each_other():
    def f(x):
        z = x.to(torch.float8_e4m3fn)
        return z, z.t(), z[1:]

    results = compiled(f)(torch.randn(4, 6))
    assert len({t.untyped_storage().data_ptr() for t in results}) == 1
    assert [t.float().tolist() for t in results[1:]] == [
        results[0].t().float().tolist(),
        results[0][1:].float().tolist(),
    ]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("labels", [[-1] * 4, [1, -1, 0, 2], [3, 2, 1, 0], [2, 2, -1, -1]])
def test_multilabel_margin_loss(labels, reduction):
    """Torch's own decomposition counts a label 0 for what comes behind the first -1."""

    def f(x, y):
        return torch.nn.functional.multilabel_margin_loss(x, y, reduction=reduction)

    y = torch.tensor([labels, [0, -1, 3, 3], labels])
    mine, theirs = (torch.linspace(-1, 1, 12).reshape(3, 4).sin().requires_grad_() for _ in "ab")
    got, want = compiled(f)(mine, y), f(theirs, y)
    torch.testing.assert_close(got, want)
    got.sum().backward(), want.sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(compiled(f)(mine.detach()[0], y[0]), f(mine.detach()[0], y[0]))


REFUSED = {"order_of_a_norm": lambda x, p: torch.linalg.vector_norm(x, p, dim=1) * 2}


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_operators_that_coil_refuses_are_called_in_torch(f):
    """Known operators with arguments that Coil does not take, such as a number that is no constant of the graph."""
    graph = compiled(f, dynamic=True)
    for p in (3, 4, 5):
        mine, theirs = (torch.linspace(-1, 1, 20).reshape(4, 5).sin().requires_grad_() for _ in "ab")
        got, want = graph(mine, p), f(theirs, p)
        torch.testing.assert_close(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="aten.linalg_vector_norm.default"):
        compiled(f, dynamic=True, options={"fallback": False})(torch.rand(4, 5, requires_grad=True), 3)


def test_zeros_without_memory():
    """What torch gives for the gradient of `sgn`."""
    x = torch.randn(4, requires_grad=True)
    compiled(lambda x: x.sgn() * 2)(x).sum().backward()
    assert torch.equal(x.grad, torch.zeros(4))


def test_a_free_size_that_is_one_is_broadcast():
    """By a guard, where no constant says so: the second half of three rows is one."""

    def f(x, y, z):
        half = x.chunk(2)[-1]
        return half * y, half.expand(5, 4) + 1, torch.where(half > 0, half, y), z[half[:, 0].long()].clone() + y

    x = torch.linspace(0, 2, 12).reshape(3, 4)
    y, z = torch.randn(5, 4), torch.randn(3, 4)
    same(compiled(f, dynamic=True)(x, y, z), f(x, y, z))

    def g(x, y):
        i = x.chunk(2)[-1][:, :1].long()
        return y.clone().index_put((i, torch.arange(4)), y[0] * 2), y[i, torch.arange(4)]

    same(compiled(g, dynamic=True)(x, y), g(x, y))
