"""Kernels in Triton that are written as they are: attention and its gradient in f32 by Triton's interpreter, where no
emulated GPU has them, their compile for a GPU, and products of runs of rows.
"""

import importlib.util
import math
import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from batch import Case
from coil_harness import ROOT, coil_ok, export
from test_triton_text import FOR_GPU, wrong

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

# Of each case: heads, heads that share keys, queries, keys, elements of a key and of a value, causal, kind of mask.
CASES = [
    (2, 1, 40, 40, 24, 16, False, None),
    (4, 2, 33, 33, 16, 32, True, None),
    (2, 1, 20, 50, 16, 16, False, "numbers"),
    (2, 2, 20, 37, 16, 16, False, "truth values"),
    (2, 1, 50, 20, 20, 20, True, None),
]
LAUNCHES = """
import triton
import triton.language as tl

@triton.jit
def places(rows, ROWS: tl.constexpr):
    block = tl.cast(tl.program_id(0), tl.int64)
    parts = (rows + ROWS - 1) // ROWS
    return block // parts, block % parts * ROWS

@triton.jit
def forward(q, k, v, m, y, logs, G, Q, K, D, W, scale, C: tl.constexpr, R: tl.constexpr, P: tl.constexpr,
            S: tl.constexpr):
    head, first = places(Q, R)
    group = head // G
    if m is not None:
        m = m + head * Q * K
    c_attention(q + head * Q * D, D, 1, k + group * K * D, D, 1, v + group * K * W, W, 1, m, K, 1,
                y + head * Q * W, W, 1, logs + head * Q, 1, first, Q, K, D, W, scale, C, R, R, P, S)

@triton.jit
def of_queries(dy, q, k, v, y, logs, m, dq, sums, G, Q, K, D, W, scale, C: tl.constexpr, R: tl.constexpr,
               P: tl.constexpr, S: tl.constexpr):
    head, first = places(Q, R)
    group = head // G
    if m is not None:
        m = m + head * Q * K
    c_attention_queries(dy + head * Q * W, W, 1, q + head * Q * D, D, 1, k + group * K * D, D, 1,
                        v + group * K * W, W, 1, y + head * Q * W, W, 1, logs + head * Q, 1, m, K, 1,
                        dq + head * Q * D, D, 1, sums + head * Q, 1, first, Q, K, D, W, scale, C, R, R, P, S)

@triton.jit
def of_keys(dy, q, k, v, logs, sums, m, dk, dv, G, Q, K, D, W, scale, C: tl.constexpr, R: tl.constexpr,
            P: tl.constexpr, S: tl.constexpr):
    group, first = places(K, R)
    head = group * G
    if m is not None:
        m = m + head * Q * K
    c_attention_keys(dy + head * Q * W, W, 1, Q * W, q + head * Q * D, D, 1, Q * D, k + group * K * D, D, 1,
                     v + group * K * W, W, 1, logs + head * Q, 1, Q, sums + head * Q, 1, Q, m, K, 1, Q * K,
                     dk + group * K * D, D, 1, dv + group * K * W, W, 1, first, Q, K, G, D, W, scale, C, R, R, P, S)
"""


def expected(q, k, v, shared, causal, mask):
    scores = q @ k.repeat_interleave(shared, 0).mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[1:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.masked_fill(mask == 0, -math.inf)
    seen = (scores > -math.inf).any(-1, keepdim=True)  # a query that sees no key gives 0
    weights = torch.where(seen, scores, 0.0).softmax(-1)
    return torch.where(seen, weights, 0.0) @ v.repeat_interleave(shared, 0)


def check(kernels, heads, shared, queries, keys, depth, width, causal, kind):
    groups = heads // shared
    sizes = (heads, queries, depth), (groups, keys, depth), (groups, keys, width)
    q, k, v = (torch.randn(s, requires_grad=True) for s in sizes)
    mask = None
    if kind == "numbers":
        mask = torch.randn(heads, queries, keys)
    elif kind:
        mask = (torch.rand(heads, queries, keys) > 0.3).to(torch.uint8)
        mask[:, 3] = 0
    y, dy = torch.empty(heads, queries, width), torch.randn(heads, queries, width)
    logs, sums = torch.empty(2, heads, queries)
    dq, dk, dv = (torch.empty(s) for s in sizes)
    padded = [max(16, 1 << (n - 1).bit_length()) for n in (depth, width)]
    rest = shared, queries, keys, depth, width, 1 / math.sqrt(depth), causal, 16, *padded
    blocks = lambda n, rows: (n * -(-rows // 16),)
    with torch.no_grad():
        kernels["forward"][blocks(heads, queries)](q, k, v, mask, y, logs, *rest)
        kernels["of_queries"][blocks(heads, queries)](dy, q, k, v, y, logs, mask, dq, sums, *rest)
        kernels["of_keys"][blocks(groups, keys)](dy, q, k, v, logs, sums, mask, dk, dv, *rest)
    want = expected(q, k, v, shared, causal, mask)
    grads = torch.autograd.grad(want, (q, k, v), dy)
    for got, right in zip((y, dq, dk, dv), (want.detach(), *grads), strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-5)


def main(path):
    spec = importlib.util.spec_from_file_location("attention_in_triton", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    for case in CASES:
        check(vars(module), *case)
    print(f"{len(CASES)} right")


def test_attention_and_its_gradient(tmp_path):
    text = (ROOT / "src/device/triton/attention.py").read_text()
    text = text.replace("from triton.language.extra import libdevice", "").replace("libdevice.", "tl.")
    (tmp_path / "kernels.py").write_text(text + LAUNCHES)
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / "kernels.py")],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and f"{len(CASES)} right" in done.stdout, done.stdout + done.stderr


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_attention_is_compiled_for_a_gpu(tmp_path):
    q = torch.randn(2, 4, 64, 32)
    export(Attention(), (q, q, q), tmp_path / "m.pt2")
    settings = ("--set", "cuda.arch=sm_90a", "--log", "wrapper")
    done = coil_ok("compile", tmp_path / "m.pt2", *FOR_GPU, *settings, "-o", tmp_path / "m.coil")
    assert "user_kernel coil_attention_" in done.stderr + done.stdout


def test_products_of_runs_of_rows(monkeypatch):
    product = lambda x, w, ends: torch._grouped_mm(x, w, offs=ends)
    bf16 = lambda *sizes: torch.randn(*sizes).bfloat16()
    ends = lambda *rows: torch.tensor(rows, dtype=torch.int32)
    found = wrong(
        [
            Case("grouped", "runs", product, (bf16(64, 32), bf16(4, 32, 48), ends(16, 20, 48, 64)), 0.05),
            Case("grouped", "empty", product, (bf16(200, 64), bf16(3, 64, 160), ends(0, 130, 200)), 0.1),
        ],
        monkeypatch,
    )
    assert not found, found


if __name__ == "__main__":
    main(sys.argv[1])
