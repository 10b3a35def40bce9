"""Attention masks made of sizes alone: the causal one and the one that lets everything through are recognised by value,
all others stay, in archives and under torch.compile.
"""

import pathlib
import sys
import unittest.mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
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


KINDS = {
    "causal": causal,
    "everything": everything,
    "band": band,
    "below_the_diagonal": below_the_diagonal,
    "added": added,
    "of_data": of_data,
}
FOUND = {"causal": "causal=1 has_mask=0", "everything": "causal=0 has_mask=0", "added": "causal=1 has_mask=0"}


class Attention(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x.flip(-1), x * 2, attn_mask=self.mask(x))


@pytest.mark.parametrize("kind", KINDS)
def test_archive(kind, tmp_path, on_cpu):
    module, args = Attention(KINDS[kind]), (torch.randn(2, 3, 16, 8),)
    archive = tmp_path / "m.pt2"
    export(module, args, archive)
    done = coil("compile", archive, "-o", tmp_path / "m.coil", "--log", "ir")
    assert done.returncode == 0, done.stderr
    if on_cpu:  # a GPU has no kernel for attention in f32
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
    (call,) = seen
    found = (
        ("causal" if call.kwargs.get("is_causal") else "everything") if call.kwargs.get("attn_mask") is None else None
    )
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


# ---- Of free sizes: shown, not looked at ----


def positions(x):
    return torch.arange(x.shape[-2])


def triangle(x):
    i = positions(x)
    return i[None, :] <= i[:, None]


def packed(x):
    """As transformers finds sequences that are packed behind each other: here there is one."""
    i = positions(x)[None].expand(x.shape[0], -1)
    sequence = (torch.diff(i, prepend=i[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    rows, columns = positions(x)[:, None], positions(x)[None]
    batch = torch.arange(x.shape[0])[:, None, None]
    return ((sequence[batch, rows] == sequence[batch, columns]) & (i[batch, columns] <= i[batch, rows]))[:, None]


def apart(x):
    """Two sequences behind each other: every second position begins anew."""
    i = positions(x) // 2
    return (i[:, None] == i[None, :]) & triangle(x)


FREE = {
    "triangle": triangle,
    "packed": packed,
    "tril": lambda x: torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril(),
    "added": lambda x: torch.where(triangle(x), 0.0, float("-inf")),
    "negated": lambda x: torch.where(positions(x)[None] > positions(x)[:, None], float("-inf"), 0.0),
    "everything": everything,
    "band": band,
    "below_the_diagonal": below_the_diagonal,
    "apart": apart,
    "shifted": lambda x: torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril(1),
    "of_data": lambda x: triangle(x) & (x[0, 0, :, :1] < 9),
}
SHOWN = {name: "causal=1 has_mask=0" for name in ("triangle", "packed", "tril", "added", "negated")} | {
    "everything": "causal=0 has_mask=0"
}


@pytest.mark.parametrize("kind", FREE)
def test_free_sizes(kind, tmp_path, on_cpu):
    module, dynamic = (
        Attention(FREE[kind]),
        ({0: torch.export.Dim("batch", min=1, max=8), 2: torch.export.Dim("length", min=2, max=64)},),
    )
    export(module, (torch.randn(2, 3, 16, 8),), tmp_path / "m.pt2", dynamic)
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--log", "ir")
    assert done.returncode == 0, done.stderr
    if on_cpu:
        (call,) = [line for line in (done.stdout + done.stderr).splitlines() if "extern attention" in line]
        assert SHOWN.get(kind, "has_mask=1") in call
    check(
        module,
        (torch.randn(2, 3, 16, 8),),
        dynamic,
        others=[(torch.randn(b, 3, n, 8),) for b, n in ((1, 2), (3, 7), (2, 64))],
    )


def laid_out(mask, device):
    """The mask of a Dynamo graph's attention call, once it lies as kernels of the device take it."""
    graph = torch.fx.Graph()
    query, given = graph.placeholder("query"), graph.placeholder("mask")
    with FakeTensorMode():
        given.meta["example_value"] = torch.empty_strided(mask.shape, mask.stride(), dtype=mask.dtype, device=device)
    call = graph.call_function(F.scaled_dot_product_attention, (query, query, query), {"attn_mask": given})
    graph.output(call)
    gm = torch.fx.GraphModule({}, graph)
    masks.lay_out(gm)
    seen = []
    with unittest.mock.patch.object(torch.fx.Interpreter, "call_function", autospec=True) as carry_out:
        carry_out.side_effect = lambda _, target, args, kwargs: (
            seen.append(kwargs["attn_mask"]) if "attn_mask" in kwargs else target(*args, **kwargs)
        )
        torch.fx.Interpreter(gm).run(None, mask)
    return seen[0]


def test_masks_lie_as_kernels_for_gpus_take_them():
    rows = torch.arange(6) % 3 > 0
    repeated = rows[None, None, :, None].expand(4, 2, -1, 5)
    made = laid_out(repeated, "cuda")
    assert made.stride() == (30, 30, 5, 1) and made.shape == (1, 1, 6, 5)
    assert torch.equal(made.expand_as(repeated), repeated)
    assert laid_out(repeated, "cpu") is repeated
    dense = torch.rand(4, 1, 6, 5) > 0.5
    assert laid_out(dense, "cuda") is dense
    turned = (torch.rand(4, 5, 6) > 0.5).mT
    assert torch.equal(laid_out(turned, "cuda"), turned) and laid_out(turned, "cuda").is_contiguous()
