"""Values of a backward graph that are made where saved ones lay: those who still have these do not see it."""

import pathlib
import re
import sys

import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")


class Gated(nn.Module):
    """Of what it saves a kernel of the backward graph reads two matrices last."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.norm = nn.Linear(48, 256), nn.Linear(256, 48), nn.LayerNorm(256)

    def forward(self, x, scale=0.1):
        gate = torch.exp(self.wide(x) * scale)
        return self.narrow(self.norm(torch.sin(gate)) * gate)


class Shown(Gated):
    """The same, with a result that is saved as well."""

    def forward(self, x):
        hidden = self.wide(x)
        return self.narrow(self.norm(torch.sin(torch.exp(hidden * 0.1)))), hidden


def gradients(call, model, x, **backward):
    model.zero_grad()
    x = x.clone().requires_grad_()
    out = call(x)
    out = out if isinstance(out, tuple) else (out,)
    sum(t.square().mean() for t in out).backward(**backward)
    if backward:
        model.zero_grad()
        x.grad = None
        sum(t.square().mean() for t in out).backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())], [t.detach() for t in out]


def taken(folder):
    """Inputs of the backward graph in whose memory something is made."""
    text = next(pathlib.Path(folder).glob("*backward/wrapper.txt")).read_text()
    inputs = set(re.findall(r"^buffer (\w+) : [^\n]* input", text, re.M))
    return {name for name in re.findall(r"^reuse (\w+) as", text, re.M) if name in inputs}


def compiled(model, tmp_path, dynamic=None, **options):
    torch._dynamo.reset()
    options |= {"cache": "none", "debug_dir": str(tmp_path)}
    return torch.compile(model, backend="coil", dynamic=dynamic, options=options)


@pytest.mark.parametrize("options", [{}, {"cuda.emulate": "true"}], ids=["cpu", "emulated"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_saved_matrix_is_written_over(tmp_path, dynamic, options):
    torch.manual_seed(0)
    model = Gated()
    call = compiled(model, tmp_path, dynamic, **options)
    for rows in (300, 300, 70):
        x = torch.randn(rows, 48)
        torch.testing.assert_close(gradients(call, model, x), gradients(model, model, x), rtol=1e-4, atol=2e-5)
    assert taken(tmp_path) or options, "on the CPU the saved matrix is written over"


def test_what_others_hold_is_copied(tmp_path):
    """A hook's tensors, those of a retained graph, and a view of saved memory."""
    torch.manual_seed(0)
    model, x = Gated(), torch.randn(300, 48)
    want = gradients(model, model, x)
    call = compiled(model, tmp_path)
    held = []

    def pack(t):
        held.append((t, t.detach().clone()))
        return t

    def pack_view(t):
        held.append((t[:1], t[:1].clone()))
        return t

    for hook in (pack, pack_view):
        with torch.autograd.graph.saved_tensors_hooks(hook, lambda t: t):
            torch.testing.assert_close(gradients(call, model, x), want, rtol=1e-4, atol=2e-5)
    assert taken(tmp_path)
    assert len(held) > 4
    for tensor, copy in held:
        torch.testing.assert_close(tensor, copy, rtol=0, atol=0)
    with torch._functorch.config.patch(donated_buffer=False):
        call = compiled(model, tmp_path)
        again = gradients(call, model, x, retain_graph=True)
        torch.testing.assert_close(again, want, rtol=1e-4, atol=2e-5)


def test_results_stay(tmp_path):
    """A saved value that is a result, too, is the caller's."""
    torch.manual_seed(0)
    model, x = Shown(), torch.randn(300, 48)
    want = gradients(model, model, x)
    got = gradients(compiled(model, tmp_path), model, x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)
    forward = next(tmp_path.glob("*forward/wrapper.txt")).read_text()
    results = set(re.findall(r"^output (\w+) = ", forward, re.M))
    assert not taken(tmp_path) & {name for name in results if name.startswith("addmm")}
