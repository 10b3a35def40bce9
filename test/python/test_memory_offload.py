"""`memory.offload`: gradients, what stays in the device's memory, and the order of copies. The device is the CPU here,
and in the place of a GPU's streams is the worst that they may do: a copy moves nothing until somebody waits for it.
"""

import contextlib
import ctypes
import functools
import logging
import pathlib
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")
from coil import budget, dynamo, offload  # noqa: E402
from coil.options import parse  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Late:
    """Copies when it is waited for, from wherever the value lay; until then the host's memory holds NaN."""

    made = []

    def __init__(self, device):
        self.pending, self.log = {}, []
        self.made.append(self)

    def send(self, slot, value):
        host = torch.full_like(value, float("nan"))
        self._begin("send", slot, host, value)
        return host

    def fetch(self, slot, host):
        value = torch.full_like(host, float("nan"))
        self._begin("fetch", slot, value, host)
        return value

    def _begin(self, what, slot, to, value):
        # Nothing is held: what the program is to keep alive, it must keep by itself.
        held = value if what == "fetch" else None
        size = value.untyped_storage().nbytes() if what == "fetch" else value.numel() * value.element_size()
        self.pending[slot] = (to, held, to.data_ptr(), value.data_ptr(), size)
        self.log.append((what, slot))

    def end(self, slot):
        _, _, to, value, size = self.pending.pop(slot)
        ctypes.memmove(to, value, size)
        self.log.append(("end", slot))

    def wait(self):
        self.log.append(("wait", None))


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(offload, "_DEVICES", {"cpu"})
    monkeypatch.setattr(offload, "_MOVERS", {"cpu": Late})
    monkeypatch.setattr(offload, "_LEAST", 1 << 12)
    monkeypatch.setattr(Late, "made", [])
    return Late.made


class Stream:
    """Of torch.cuda's, as much as copies need; notes what is asked of it."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} behind {other.name}")

    def wait_event(self, event):
        self.log.append(f"{self.name} behind {event}")

    def record_event(self):
        self.log.append(f"{self.name} copies")
        return f"copy {self.log.count(f'{self.name} copies')}"

    def synchronize(self):
        self.log.append(f"host behind {self.name}")


class Layers(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.widen = nn.ModuleList(nn.Linear(64, 256) for _ in range(count))
        self.narrow = nn.ModuleList(nn.Linear(256, 64) for _ in range(count))
        self.norm = nn.ModuleList(nn.LayerNorm(64) for _ in range(count))

    def forward(self, x):
        for widen, narrow, norm in zip(self.widen, self.narrow, self.norm, strict=True):
            x = x + narrow(torch.softmax(nn.functional.gelu(widen(norm(x))), -1))
        return x.square().mean()


def compiled(model, share, **more):
    return torch.compile(model, backend="coil", options={"cache": "none", "memory.offload": share}, **more)


def gradients(model, loss, **more):
    model.zero_grad()
    loss.backward(**more)
    return [p.grad.clone() for p in model.parameters()]


def step(monkeypatch, model, x, share):
    """Gradients of a step, and the planned peaks of its two graphs."""
    torch._dynamo.reset()
    peaks = {}
    compile = dynamo._compile

    def noted(traced, options, name, **keep):
        graph = compile(traced, options, name, **keep)
        peaks[name] = graph.peak_bytes
        return graph

    with monkeypatch.context() as patched:
        patched.setattr(dynamo, "_compile", noted)
        return gradients(model, compiled(model, share)(x)), peaks["forward"], peaks["backward"]


def test_gradients_are_the_same_and_peaks_fall(late, monkeypatch):
    torch.manual_seed(0)
    model, x = Layers(), torch.randn(512, 64)
    want, forward, backward = step(monkeypatch, model, x, 0)
    assert not late
    peak = forward
    for share in (0.3, "0.6", 1):
        late.clear()
        got, now, then = step(monkeypatch, model, x, share)
        assert all(map(torch.equal, got, want))
        assert now < peak, "a larger share stays"
        assert then < backward + forward / 10, "values come back one by one"
        peak = now
    assert peak < 0.25 * forward


def test_a_larger_share_never_has_the_higher_planned_peak(late):
    """Of what may move as much moves as the lowest planned peak asks for."""
    peaks = []
    for share in (0, 0.2, 0.5, 0.8, 1):
        torch._dynamo.reset()
        options = parse({"cache": "none", "memory.offload": share}, None)
        divided = budget.Partitioner(options)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(budget, "Partitioner", lambda _: divided)
            dynamo_backend = functools.partial(dynamo.coil, options={"cache": "none", "memory.offload": share})
            torch.compile(Layers(), backend=dynamo_backend)(torch.randn(512, 64)).backward()
        peaks.append(max(budget.planned_peaks(divided.chosen.graphs, options)))
    assert peaks == sorted(peaks, reverse=True) and peaks[-1] < 0.5 * peaks[0]


def test_a_value_that_moved_before_its_copy_ended_is_refused(late):
    call = offload._Sending(torch.device("cpu"))
    value = torch.randn(64)
    call.send(0, value)
    call.send(1, value)
    call.end(0, value)
    assert torch.equal(call.hosts[0], value)
    with pytest.raises(coil.Error, match="moved while it was on its way"):
        call.end(1, value.clone())


def test_copies_run_beside_the_graph(late):
    """Never more than two at a time, each ended once; those to the device begin before the value is asked for."""
    model, x = Layers(), torch.randn(512, 64)
    compiled(model, 1)(x).backward()
    sent, fetched = (mover.log for mover in late)
    for log, what in ((sent, "send"), (fetched, "fetch")):
        begun = [slot for kind, slot in log if kind == what]
        assert len(begun) > 10 and sorted(begun) == sorted(slot for kind, slot in log if kind == "end")
        on_the_way = 0
        for kind, _ in log:
            on_the_way += 1 if kind == what else -1
            assert 0 <= on_the_way <= offload._AHEAD
        assert sum(a[0] == what and b == ("end", a[1]) for a, b in zip(log, log[1:])) <= 1
    assert [s for kind, s in fetched if kind == "fetch"] == sorted(s for kind, s in fetched if kind == "fetch")


def test_a_gpu_copies_on_a_stream_of_its_own(monkeypatch):
    """Behind what was computed before; what is computed later waits for it, and the host only where it reads."""
    log = []
    main, beside = Stream("main", log), Stream("beside", log)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: beside)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: main)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(offload._Streams, "_beside", {})
    empty = torch.empty_strided
    monkeypatch.setattr(torch, "empty_strided", lambda *args, pin_memory=False, **more: empty(*args, **more))
    value = torch.randn(4, 6).T
    mover = offload._Streams(torch.device("cpu"))
    host = mover.send(3, value)
    assert host.stride() == value.stride() and torch.equal(host, value)
    mover.end(3)
    mover.wait()
    assert torch.equal(mover.fetch(3, host), value)
    copy = ["beside behind main", "beside copies"]
    assert log == [*copy, "main behind copy 1", "host behind beside", *copy]


def test_calls_that_overlap_and_graphs_that_are_kept(late):
    model = Layers()
    first, second = torch.randn(512, 64), torch.randn(512, 64)
    made = compiled(model, 1)
    want = [gradients(model, model(x)) for x in (first, second)]
    losses = [made(x) for x in (first, second)]
    for k in (1, 0):
        torch.testing.assert_close(gradients(model, losses[k], retain_graph=True), want[k], rtol=1e-4, atol=1e-6)
    again = gradients(model, losses[1])
    torch.testing.assert_close(again, want[1], rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="second time"):
        losses[1].backward()
    losses[0].backward()


def test_free_sizes_and_hooks(late):
    """Values of every size move; a hook finds what it is given complete."""
    model = Layers()
    made = compiled(model, 1, dynamic=True)
    for rows in (512, 300, 700):
        x = torch.randn(rows, 64)
        got, want = gradients(model, made(x)), gradients(model, model(x))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    assert len(late) == 6 and all(("send", 0) in mover.log for mover in late[::2])
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value.clone(), lambda value: value):
        loss = made(x)
    assert late[-1].log[-1] == ("wait", None)
    torch.testing.assert_close(gradients(model, loss), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("returned", [False, True])
def test_what_others_have_stays(returned, late):
    """Results, and what shares memory with them, free nothing: they do not move."""

    class Chain(nn.Module):
        def forward(self, x, w):
            all = []
            for k in range(8):
                x = torch.tanh(x @ w)
                all.append(x.T if k % 2 else x)
            return all if returned else all[-1:]

    w = torch.randn(64, 64).div(8).requires_grad_()
    x = torch.randn(512, 64)
    sum(y.square().mean() for y in compiled(Chain(), 1)(x, w)).backward()
    got, w.grad = w.grad, None
    sum(y.square().mean() for y in Chain()(x, w)).backward()
    torch.testing.assert_close(got, w.grad, rtol=1e-4, atol=1e-6)
    assert bool(late) != returned


def test_on_the_cpu_nothing_moves_and_the_log_says_so_once(caplog):
    model, x = Layers(2), torch.randn(64, 64)
    offload._tell.cache_clear()
    with caplog.at_level(logging.WARNING, "coil"):
        got = gradients(model, compiled(model, 1)(x))
        torch._dynamo.reset()
        compiled(model, 0.5)(x).backward()
    torch.testing.assert_close(got, gradients(model, model(x)), rtol=1e-4, atol=1e-6)
    assert [r.message for r in caplog.records] == [
        "memory.offload moves nothing: what the forward graph keeps lies in the host's memory"
    ]


@pytest.mark.parametrize("share", [-0.1, 1.01, float("nan"), "all", True, None])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(Exception, match=r"memory\.offload takes a number from 0 to 1"):
        compiled(Layers(1), share)(torch.randn(4, 64))


def test_without_calls_of_torch_it_is_refused(late):
    made = torch.compile(Layers(), backend="coil", options={"memory.offload": 1, "fallback": False})
    with pytest.raises(Exception, match="memory.offload moves values by calls of torch"):
        made(torch.randn(512, 64))
