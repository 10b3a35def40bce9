"""Attention masks made of sizes alone: the causal one and the one that lets everything through are recognised by value, all others stay, in archives and under torch.compile."""
import pathlib
import sys

import pytest
import torch
from torch.nn import functional as F

from coil_harness import check, coil, export

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/python"))
masks = pytest.importorskip("coil.masks", reason="the Python extension is not built")


def causal(x):
    i = torch.arange(x.shape[-2])
    return (i[None, :] <= i[:, None]) & (i.cumsum(0) >= 0)[None, :]


def everything(x):
    return (torch.arange(x.shape[-2]) >= 0)[None, None, :, None].expand(x.shape[0], 1, -1, x.shape[-2])


def band(x):
    i = torch.arange(x.shape[-2])
    return (i[None, :] <= i[:, None]) & (i[None, :] > i[:, None] - 4)


def below_the_diagonal(x):
    i = torch.arange(x.shape[-2])
    return i[None, :] <= i[:, None] + 1


def added(x):
    return torch.where(causal(x), 0.0, float("-inf"))


def of_data(x):
    return causal(x) & (x[0, 0, :, :1] < 9)


KINDS = {"causal": causal, "everything": everything, "band": band, "below_the_diagonal": below_the_diagonal, "added": added, "of_data": of_data}
FOUND = {"causal": "causal=1 has_mask=0", "everything": "causal=0 has_mask=0", "added": "causal=1 has_mask=0"}


class Attention(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x.flip(-1), x * 2, attn_mask=self.mask(x))


@pytest.mark.parametrize("kind", KINDS)
def test_archive(kind, tmp_path):
    module, args = Attention(KINDS[kind]), (torch.randn(2, 3, 16, 8),)
    archive = tmp_path / "m.pt2"
    export(module, args, archive)
    done = coil("compile", archive, "-o", tmp_path / "m.coil", "--log", "ir")
    assert done.returncode == 0, done.stderr
    assert FOUND.get(kind, "causal=0 has_mask=1") in done.stdout + done.stderr
    check(module, args)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled(kind):
    torch._dynamo.reset()
    seen = []

    def backend(gm, inputs):
        masks.simplify(gm)
        seen.extend(n for n in gm.graph.nodes if "scaled_dot_product_attention" in str(n.target))
        return gm

    module, x = Attention(KINDS[kind]), torch.randn(2, 3, 16, 8)
    got = torch.compile(module, backend=backend)(x)
    torch.testing.assert_close(got, module(x))
    call, = seen
    found = ("causal" if call.kwargs.get("is_causal") else "everything") if call.kwargs.get("attn_mask") is None else None
    assert found == {"added": "causal"}.get(kind, kind if kind in FOUND else None)


def test_other_work_stays():
    """What a graph does to its inputs for nobody's use is not taken away with the mask."""
    class Counting(Attention):
        def __init__(self):
            super().__init__(causal)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls.add_(1)
            return super().forward(x)

    torch._dynamo.reset()
    module = Counting()
    compiled = torch.compile(module, backend=lambda gm, inputs: masks.simplify(gm) or gm)
    for _ in range(3):
        compiled(torch.randn(2, 3, 16, 8))
    assert module.calls == 3
