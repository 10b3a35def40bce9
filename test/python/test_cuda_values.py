"""Values of CUDA kernels where there is no GPU: the same text, run on the CPU a thread after the other, against eager.

A chunk of each family's cases; `coil compile --set cuda.emulate=true` runs any program so.
"""

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from batch import Batch, Case, outcomes
from coil_harness import check, coil, export
from test_ops import CHUNKS

EMULATE = ("--set", "cuda.emulate=true")
FAMILIES = ["reductions0", "indexing0", "special0", "selection0", "selection1", "recurrent0"]


def normalized(x, weight):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def online(x):
    return F.softmax(x.float(), -1)


def seeded(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes) + sizes[-1])).to(dtype)


BF16 = torch.bfloat16
# Shapes that take each form of kernel: runs with and without remainders, teams from one thread to a block, rows in
# registers and rows read again, tiles, columns, scans in several chunks.
SHAPES = [
    Case("forms", "run", lambda x, y: F.relu(x + y) * 2, (seeded(40, 64), seeded(40, 64))),
    Case("forms", "run_rest", lambda x, y: F.relu(x + y) * 2, (seeded(37, 13), seeded(37, 13))),
    Case(
        "forms",
        "gates",
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), 1 + torch.erf(x), torch.tanh(x) + 1),
        (torch.cat([seeded(56) * 3, torch.tensor([0.0, -0.0, 9.0, -9.0, 1e30, -1e30, float("inf"), float("nan")])]),),
    ),
    Case("forms", "broadcast", lambda x, y: F.gelu(x + y), (seeded(24, 72, dtype=BF16), seeded(72, dtype=BF16))),
    # Rows of several blocks, whose mean and variance come of one pass.
    Case(
        "forms",
        "moments_of_blocks",
        lambda x, b: torch.native_layer_norm(x * 1.5, (4353,), None, b, 1e-3),
        (seeded(4, 4353), seeded(4353)),
    ),
    Case(
        "forms",
        "moments_of_blocks_transposed",
        lambda x, b: torch.native_layer_norm(x.mT * 1.5, (256, 17), None, b, 1e-3),
        (seeded(2, 17, 256), seeded(256, 17)),
    ),
    Case("forms", "run_flat", lambda x: (x * 2, x + 1), (seeded(700, 1003),)),
    Case(
        "forms",
        "run_flat_rows",
        lambda x, y: x[:, 1:1004] + y,
        (seeded(701, 1008, dtype=BF16), seeded(1003, dtype=BF16)),
    ),
    Case("forms", "run_flat_deep", lambda x: x[:, :, :601].relu(), (seeded(30, 37, 608, dtype=BF16),)),
    Case("forms", "transposed", lambda x, y: x + y.t(), (seeded(70, 45), seeded(45, 70))),
    Case("forms", "transposed_packs", lambda x, y: x + y.t(), (seeded(136, 72), seeded(72, 136))),
    Case(
        "forms",
        "transposed_packs_bf16",
        lambda x, y: (x + y.t(), x.t() * y),
        (seeded(72, 200, dtype=BF16), seeded(200, 72, dtype=BF16)),
    ),
    Case("forms", "transposed_store", lambda x, y: (x.t() * 2).contiguous() + y.t(), (seeded(64, 96), seeded(64, 96))),
    Case("forms", "transposed_bf16", lambda x: x.permute(2, 1, 0).contiguous(), (seeded(33, 3, 65, dtype=BF16),)),
    Case("forms", "row_warp", lambda x: F.softmax(x, -1), (seeded(9, 200),)),
    Case("forms", "row_short", lambda x: F.softmax(x, -1), (seeded(35, 5),)),
    Case(
        "forms",
        "row_block",
        lambda x, w, b: F.layer_norm(x, (2048,), w, b),
        (seeded(3, 2048, dtype=BF16), seeded(2048, dtype=BF16), seeded(2048, dtype=BF16)),
    ),
    # Rows in another order than they lie in: those that read the same row of a mask come one after another.
    Case(
        "forms",
        "row_masked",
        lambda x, y: (F.softmax(x + y, -1), F.layer_norm(x + y[:, :, :1], (260,))),
        (seeded(3, 5, 4, 260), seeded(3, 1, 4, 260)),
    ),
    Case("forms", "row_odd", lambda x: F.layer_norm(x, (1537,)), (seeded(2, 1537),)),
    Case("forms", "row_long", online, (seeded(2, 40000, dtype=BF16),)),
    Case(
        "forms",
        "row_ends_short",
        lambda x: (F.log_softmax(x[:, :5003].float(), -1).logsumexp(-1), F.softmax(x[:, :5003].float(), -1)),
        (seeded(3, 5008, dtype=BF16),),
    ),
    Case(
        "forms",
        "row_ends_short_sums",
        lambda x: (
            x[:, :2050].sum(-1),
            x[:, :2050].amax(-1),
            x[:, :2050].argmin(-1),
            F.layer_norm(x[:, :2050], (2050,)),
        ),
        (seeded(5, 2056),),
    ),
    Case("forms", "row_ends_short_long", lambda x: x[:, :40003].float().logsumexp(-1), (seeded(2, 40008, dtype=BF16),)),
    Case(
        "forms",
        "row_long_masked",
        online,
        (torch.where(torch.arange(40000) < 39000, float("-inf"), 1.0).expand(2, 40000).contiguous(),),
    ),
    Case("forms", "row_long_variance", lambda x: torch.var_mean(x, -1), (seeded(2, 40000) * 3 + 100,)),
    Case(
        "forms",
        "row_group",
        lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)),
        (seeded(2, 16, 12, 12, dtype=BF16), seeded(16, dtype=BF16), seeded(16, dtype=BF16)),
    ),
    # Rows that several blocks share: whole runs, a rest, an extreme and its place, and what the row's blocks read of
    # each other's results.
    Case(
        "forms",
        "row_shared",
        lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)),
        (seeded(2, 8, 64, 128, dtype=BF16), seeded(8, dtype=BF16), seeded(8, dtype=BF16)),
    ),
    Case(
        "forms",
        "row_shared_not_finite",
        lambda x: F.layer_norm(x, (32768,)),
        (
            torch.stack(
                [
                    seeded(32768) * 3 + 70,
                    seeded(32768).index_fill(0, torch.tensor([5]), float("inf")),
                    seeded(32768).index_fill(0, torch.tensor([32767]), float("nan")),
                    seeded(32768) * 1e30,
                ]
            ),
        ),
    ),
    Case(
        "forms",
        "row_shared_rest",
        lambda x: (F.softmax(x, -1), x.argmax(-1), x - x.amin(-1, keepdim=True)),
        (seeded(2, 33000),),
    ),
    Case("forms", "row_shared_odd", lambda x: F.layer_norm(x, (36871,)), (seeded(2, 36871, dtype=BF16),)),
    Case("forms", "row_shared_again", lambda x: F.normalize(F.softmax(x.double(), -1), dim=-1), (seeded(2, 9000),)),
    # What ends in 16 bits may be computed more coarsely; infinities, NaN and numbers near the ends of the range stay as
    # they are.
    Case(
        "forms",
        "coarse",
        lambda x: (F.silu(x), torch.sigmoid(x), torch.exp(x), F.gelu(x, approximate="tanh"), x.float().exp().to(BF16)),
        (
            torch.cat(
                [
                    seeded(56, dtype=BF16) * 9,
                    torch.tensor([0.0, -0.0, 88.0, -88.0, 1e30, float("inf"), float("nan"), -20.0], dtype=BF16),
                ]
            ),
        ),
    ),
    Case("forms", "coarse_f16", lambda x: (F.silu(x), torch.exp(x), F.softmax(x, -1)), (seeded(3, 64).half() * 4,)),
    Case(
        "forms",
        "divided_rows",
        lambda x, y: (x / y, (x / y).to(BF16), (x / y).half()),
        (
            seeded(9, 40) * 10.0 ** (torch.arange(40) - 20),
            torch.tensor([1e-41, 1e-30, 3.0, 1e30, 3e38, 0.0, float("inf"), float("nan"), -7e-20]).view(9, 1),
        ),
    ),
    Case("forms", "row_gate", normalized, (seeded(6, 1024, dtype=BF16), seeded(1024, dtype=BF16))),
    Case("forms", "columns", lambda x: x.sum(0), (seeded(300, 96),)),
    Case("forms", "columns_long", lambda x: (x.sum(0), x.amax(0)), (seeded(3000, 72),)),
    Case("forms", "columns_bf16", lambda x: x.float().mean((0, 1)), (seeded(40, 30, 136, dtype=BF16),)),
    Case("forms", "columns_normalized", lambda x: F.softmax(x, 0), (seeded(50, 37),)),
    Case("forms", "columns_arg", lambda x: (x.argmax(0), x.argmin(0)), (seeded(70, 40).round(),)),
    Case("forms", "rows_arg", lambda x: (x.argmax(-1), x.argmin(-1)), (seeded(5, 3000).round(),)),
    Case(
        "forms",
        "rows_arg_used",
        lambda x: (x.argmax(-1) // 3, torch.where(x.argmin(-1) > 500, x.argmin(-1), -1), x.median(-1)),
        (seeded(5, 3000).round(),),
    ),
    Case("forms", "batch_statistics", lambda x: torch.var_mean(x, (0, 2, 3)), (seeded(6, 4, 10, 12),)),
    Case("forms", "all", lambda x: x.sum(), (seeded(300, 1000),)),
    Case("forms", "scan", lambda x: x.cumsum(-1), (seeded(3, 5000),)),
    Case("forms", "scan_bf16", lambda x: x.cumsum(-1), (seeded(3, 1032, dtype=BF16).round(),)),
    Case(
        "forms",
        "scan_odd",
        lambda x: (x.cumsum(-1), x.long().cumsum(-1), x.double().cumprod(-1)),
        (seeded(2, 1041).round(),),
    ),
    Case("forms", "scan_chunks", lambda x: (x.cumsum(-1), x.cummax(-1).values), (seeded(1, 40008),)),
    Case("forms", "scan_none", lambda x: (x.cumsum(-1), x.cumsum(0), (x > 0).nonzero()), (seeded(3, 0),)),
    Case(
        "forms",
        "scan_few_long",
        lambda x, y: (x.cumsum(-1), y.cumsum(1), x.long().cumsum(-1), (x * 1e-4 + 1).double().cumprod(-1)),
        (seeded(2, 40001).round(), seeded(1, 33000, 2, dtype=BF16).abs() * 1e-3),
    ),
    # One pass with tiles that tell each other their totals: all kinds, several rows, a rest, more than one group of
    # tiles, and the extremes' places.
    Case(
        "forms",
        "scan_tiles",
        lambda x: (
            x.cumsum(-1),
            x.cummax(-1),
            x.cummin(-1),
            x.logcumsumexp(-1),
            (x > 0).cumsum(-1),
            x.double().cumsum(-1),
        ),
        (seeded(2, 70003).round(),),
    ),
    Case(
        "forms",
        "scan_tiles_groups",
        lambda x, y: (
            x.cumsum(0),
            (y.double() * 1e-5 + 1).cumprod(0),
            y.to(BF16).cumsum(0),
            x.int().cumsum(0, dtype=torch.int32),
        ),
        (torch.arange(300000) % 7 - 3, seeded(150000)),
    ),
    Case(
        "forms",
        "scan_tiles_nan",
        lambda x: (x.cumsum(-1), x.cummax(-1).values),
        (torch.where(torch.arange(40000) == 20011, float("nan"), 1.0),),
    ),
    Case("forms", "scan_short", lambda x: x.cumsum(-1), (seeded(5, 7),)),
    Case("forms", "scan_columns", lambda x: x.cumsum(0), (seeded(70, 33),)),
    Case("forms", "scan_logsumexp", lambda x: x.logcumsumexp(-1), (seeded(3, 700),)),
    # Infinities at either end and NaN; sums that are hardly more than their greatest part; columns; tiles, in both
    # widths.
    Case(
        "forms",
        "scan_logsumexp_special",
        lambda x: (x.logcumsumexp(-1), x.double().logcumsumexp(-1), x.logcumsumexp(0), x.half().logcumsumexp(-1)),
        (
            torch.cat(
                [
                    torch.tensor(
                        [
                            [float("-inf")] * 3,
                            [0.0, -30.0, -20.0],
                            [float("inf"), 1.0, float("-inf")],
                            [1.0, float("nan"), float("-inf")],
                            [90.0, 90.0, -100.0],
                        ]
                    ),
                    seeded(5, 300) * 20,
                ],
                -1,
            ),
        ),
    ),
    Case(
        "forms",
        "scan_logsumexp_tiles",
        lambda x: (x.logcumsumexp(-1), x.float().logcumsumexp(-1)),
        (
            torch.cat(
                [torch.full((2, 5000), float("-inf"), dtype=torch.float64), seeded(2, 32001, dtype=torch.float64) * 5],
                -1,
            ),
        ),
    ),
    Case(
        "forms",
        "rotary",
        lambda x, c, s: x * c + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * s,
        (seeded(2, 3, 10, 16, dtype=BF16), seeded(10, 16, dtype=BF16), seeded(10, 16, dtype=BF16)),
    ),
    # Convolutions over few channels gather neighbours as channels.
    Case(
        "gathered",
        "patches",
        lambda x, w, b: (F.conv2d(x, w, b, stride=8), F.conv2d(x, w, None, stride=8).relu()),
        (seeded(2, 3, 37, 48, dtype=BF16), seeded(24, 3, 8, 8, dtype=BF16), seeded(24, dtype=BF16)),
    ),
    Case(
        "gathered",
        "patches_of_video",
        lambda x, w, b: F.conv3d(x, w, b, stride=(2, 4, 4)).flatten(2).transpose(1, 2),
        (seeded(2, 3, 6, 16, 20, dtype=BF16), seeded(10, 3, 2, 4, 4, dtype=BF16), seeded(10, dtype=BF16)),
    ),
    Case(
        "gathered",
        "stem",
        lambda x, w: F.conv2d(x, w, stride=2, padding=3).relu(),
        (seeded(2, 3, 31, 34, dtype=BF16), seeded(8, 3, 7, 7, dtype=BF16) * 0.1),
    ),
    Case(
        "gathered",
        "uneven",
        lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 3)), w, stride=(3, 1), padding=(0, 1)),
        (seeded(1, 5, 20, 17, dtype=BF16), seeded(9, 5, 4, 3, dtype=BF16) * 0.1),
    ),
    Case(
        "gathered",
        "recording",
        lambda x, w, b: F.gelu(F.conv1d(x, w, b, stride=5)),
        (
            seeded(2, 1, 403, dtype=torch.float16),
            seeded(12, 1, 10, dtype=torch.float16),
            seeded(12, dtype=torch.float16),
        ),
    ),
    # Integers have no library on a GPU: sums of products.
    Case(
        "integers",
        "int_mm",
        lambda x, y: (x @ y, x.t() @ x, torch.addmm(y, x[:17], y, beta=2, alpha=3)),
        (torch.arange(17 * 17).reshape(17, 17) % 11 - 5, torch.arange(17 * 17).reshape(17, 17) % 7 - 3),
    ),
    Case(
        "integers",
        "int_bmm",
        lambda x, y: (torch.bmm(x, y), torch.matmul(x, y[0])),
        (
            torch.arange(3 * 5 * 70).reshape(3, 5, 70).int() - 400,
            torch.arange(3 * 70 * 9).reshape(3, 70, 9).int() * 12345,
        ),
    ),
    Case(
        "integers",
        "int_narrow",
        lambda x, y: (x @ y, torch._int_mm(x, y)),
        (
            (torch.arange(33 * 40).reshape(33, 40) % 255 - 127).to(torch.int8),
            (torch.arange(40 * 24).reshape(40, 24) % 253 - 126).to(torch.int8),
        ),
    ),
    Case(
        "integers",
        "int_none",
        lambda x, y: x @ y,
        (torch.zeros(4, 0, dtype=torch.int64), torch.zeros(0, 6, dtype=torch.int64)),
    ),
    Case(
        "forms",
        "embedding",
        lambda i, e, p, w, b: F.layer_norm(e[i] + p, (64,), w, b),
        (torch.arange(24).reshape(2, 12) * 7 % 50, seeded(50, 64), seeded(12, 64), seeded(64), seeded(64)),
    ),
    Case(
        "forms",
        "scatter_add",
        lambda x, i, y: x.index_add(0, i, y),
        (seeded(10, 8), torch.arange(30) % 10, seeded(30, 8)),
    ),
    # Whole vectors that are added, or written, side by side.
    Case(
        "forms",
        "scatter_runs",
        lambda x, y, i: (x.index_add(0, i, y, alpha=2), torch.index_put(x, (i - 1000,), y.sigmoid(), accumulate=True)),
        (seeded(1000, 256), seeded(1100, 256), torch.arange(1100) * 7 % 1000),
    ),
    Case(
        "forms",
        "scatter_runs_16",
        lambda x, y, z, i: (x.index_add(0, i, y), z.index_add(0, i, y.half())),
        (
            seeded(1000, 256, dtype=BF16),
            seeded(1100, 256, dtype=BF16),
            seeded(1000, 256, dtype=torch.float16),
            torch.arange(1100) * 7 % 1000,
        ),
    ),
    Case(
        "forms",
        "scatter_runs_copied",
        lambda x, y, i: (x.index_copy(0, i, y), torch.index_put(x.char(), (i,), y.char())),
        (seeded(1200, 512) * 9, seeded(1100, 512) * 9, torch.arange(1100) * 7 % 1200),
    ),
    Case(
        "forms",
        "scatter_runs_odd",
        lambda x, y, i: x.index_add(0, i, y),
        (seeded(1000, 255), seeded(1100, 255), torch.arange(1100) * 7 % 1000),
    ),
    Case(
        "forms",
        "scatter_narrow",
        lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
        (seeded(9, dtype=BF16), torch.arange(40) % 9, seeded(40, dtype=BF16)),
    ),
    # Large products whose matrices grow to whole vectors: the result, its copy as an output, what is computed from it,
    # operands made so, and operands copied so.
    Case("grown", "head", lambda x, w: F.linear(x, w), (seeded(3500, 160, dtype=BF16), seeded(515, 160, dtype=BF16))),
    Case(
        "grown", "head_bias", lambda x, w, b: F.linear(x, w, b), (seeded(2, 1750, 160), seeded(515, 160), seeded(515))
    ),
    Case(
        "grown",
        "head_loss",
        lambda x, w, t: (F.cross_entropy(F.linear(x, w).float(), t), F.linear(x, w)),
        (seeded(3500, 160, dtype=BF16), seeded(515, 160, dtype=BF16), torch.arange(3500) % 515),
    ),
    Case(
        "grown",
        "operands",
        lambda x, y: (torch.relu(x) @ y, torch.relu(x).t() @ torch.relu(x)),
        (seeded(1100, 515), seeded(515, 500)),
    ),
    Case("grown", "copied", lambda x, y: x @ y, (seeded(1100, 515), seeded(515, 515))),
    Case("grown", "chain", lambda x, y, z: F.gelu(x @ y) @ z, (seeded(3500, 160), seeded(160, 515), seeded(515, 300))),
    Case(
        "grown",
        "shared",
        lambda x, y, z: (
            torch.sigmoid(x).t() @ y,
            torch.sigmoid(x) @ z,
            torch.sigmoid(x).sum(0),
            torch.sigmoid(x).view(2, 900, 515),
        ),
        (seeded(1800, 515), seeded(1800, 80), seeded(515, 90)),
    ),
    Case(
        "grown",
        "rows",
        lambda x, y, z: (F.softmax(x, -1) @ y, F.softmax(x, -1).t() @ z, F.softmax(x, -1).sum(0)),
        (seeded(1100, 515), seeded(515, 300), seeded(1100, 304)),
    ),
    Case(
        "grown",
        "viewed",
        lambda x, y: ((x @ y).view(4, 875, 515) * 2).transpose(1, 2),
        (seeded(3500, 160), seeded(160, 515)),
    ),
    # A row in a block's memory, rows of pieces that are merged, and the first of a long row, with equal values and NaN.
    Case(
        "sorted",
        "sort_rows",
        lambda x: (
            x.sort(dim=-1, stable=True),
            x.sort(dim=0, stable=True, descending=True),
            x.argsort(stable=True, dim=-1),
        ),
        (torch.cat([seeded(5, 70).round(), torch.full((5, 3), float("nan"))], -1),),
    ),
    Case(
        "sorted",
        "sort_merged",
        lambda x: (x.sort(stable=True), x.round().long().sort(stable=True, descending=True)),
        (
            torch.cat(
                [
                    seeded(12000) * 100,
                    torch.tensor([float("nan"), float("inf"), -0.0, 0.0, float("-inf"), float("nan")]),
                ]
            ),
        ),
    ),
    Case(
        "sorted",
        "sort_merged_rows",
        lambda x: (x.round().sort(dim=-1, stable=True), x.t().contiguous().sort(dim=0, stable=True, descending=True)),
        (seeded(2, 8195, dtype=BF16),),
    ),
    Case(
        "sorted",
        "topk_long",
        lambda x: (x.topk(50), x.topk(3, largest=False), x.sort(-1).values.topk(70), x.topk(2048).values),
        (seeded(2, 9001),),
    ),
    Case("sorted", "topk_short", lambda x: (x.topk(8, 0), x.topk(1), x.topk(33, largest=False)), (seeded(40, 33),)),
    Case(
        "forms",
        "cross_entropy",
        lambda x, t: F.cross_entropy(x.float(), t),
        (seeded(6, 9000, dtype=BF16), torch.arange(6) * 1400),
    ),
    # Attention in f32: several pieces of keys and of heads, rests of each, causal patterns with more queries than keys
    # and less, heads that share keys, masks, and the sums' logarithms.
    Case(
        "attention",
        "attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        (seeded(2, 3, 40, 64), seeded(2, 3, 140, 64), seeded(2, 3, 140, 64)),
    ),
    Case(
        "attention",
        "attention_causal",
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(k, q, q, is_causal=True),
        ),
        (seeded(1, 2, 150, 32), seeded(1, 2, 70, 32), seeded(1, 2, 70, 32)),
    ),
    Case(
        "attention",
        "attention_rests",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        (seeded(1, 4, 33, 20), seeded(1, 2, 77, 20), seeded(1, 2, 77, 20)),
    ),
    Case(
        "attention",
        "attention_wide",
        lambda q, k, v: F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.mT, scale=0.3),
        (seeded(1, 70, 2, 160), seeded(1, 71, 2, 160), seeded(1, 2, 97, 71)),
    ),
    Case(
        "attention",
        "attention_masked",
        lambda q, k, v, m: (
            F.scaled_dot_product_attention(q, k, v, m),
            F.scaled_dot_product_attention(q, k, v, m < 0.5),
        ),
        (
            seeded(2, 2, 37, 35),
            seeded(2, 2, 41, 35),
            seeded(2, 2, 41, 3),
            torch.where(seeded(2, 1, 37, 41) + torch.arange(37).view(37, 1) / 20 > 1, float("-inf"), 0.25),
        ),
    ),
    Case(
        "attention",
        "attention_sums",
        lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True),
        (seeded(2, 2, 37, 64), seeded(2, 2, 41, 64), seeded(2, 2, 41, 64)),
    ),
]


@pytest.fixture(scope="module")
def forms():
    return outcomes(SHAPES, False, *EMULATE)


@pytest.mark.xdist_group("forms on the CPU")  # compiled once
@pytest.mark.parametrize("name", [c.name for c in SHAPES])
def test_form(forms, name):
    assert not forms[name]


def test_scatters_in_a_fixed_order(tmp_path):
    """With deterministic=true no sum of floats is left to atomics, and f32 sums are those of a loop in program order,
    to the bit.
    """
    i, j, many = torch.arange(60) * 7 % 10, torch.arange(60) * 3 % 4, torch.arange(9000) * 31 % 50
    rows, columns, wide = seeded(60, 8), torch.arange(60 * 8).reshape(60, 8) * 5 % 10, seeded(9000, 3)
    programs = {
        "index_add": (lambda x, y: x.index_add(0, i, y, alpha=2), (seeded(10, 8), rows)),
        "scatter_add": (lambda x, y: x.scatter_add(0, columns, y), (seeded(10, 8), rows)),
        "scatter_add_last": (lambda x, y: x.scatter_add(1, columns.t(), y), (seeded(8, 10), rows.t().contiguous())),
        "index_put": (lambda x, y: torch.index_put(x, (i, j), y, accumulate=True), (seeded(10, 4, 8), rows)),
        "index_put_apart": (
            lambda x, y: torch.ops.aten.index_put(x, [i, None, j], y, True),
            (seeded(10, 5, 4), seeded(60, 5)),
        ),
        "index_copy": (lambda x, y: (x.index_copy(0, i, y), torch.index_put(x, (i,), y)), (seeded(10, 8), rows)),
        "scatter": (lambda x, y: x.scatter(0, columns, y), (seeded(10, 8), rows)),
        "product": (lambda x, y: x.scatter_reduce(0, columns, y, "prod"), (seeded(10, 8), rows)),
        "many": (lambda x, y: x.index_add(0, many, y), (seeded(50, 3), wide)),
        "embedding": (lambda g: torch.ops.aten.embedding_dense_backward(g, i, 12, -1, False), (rows,)),
        "counts": (lambda w: torch.bincount(i, weights=w, minlength=12), (seeded(60).double(),)),
    }
    cases = [Case("ordered", name, f, args) for name, (f, args) in programs.items()]
    wrong = {
        name: text for name, text in outcomes(cases, False, *EMULATE, "--set", "deterministic=true").items() if text
    }
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())
    export(Batch(cases), ({case.name: case.args for case in cases},), tmp_path / "m.pt2")
    done = coil(
        "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATE, "--set", "deterministic=true", "--log", "ir"
    )
    scatters = [line for line in (done.stdout + done.stderr).splitlines() if " scatter." in line]
    assert len(scatters) >= len(cases) and all("sorted along" in line for line in scatters), "\n".join(scatters)


@pytest.mark.full
def test_other_launch_configs():
    """Shapes that only a measurement would choose give the same values."""
    cases = [
        c
        for c in SHAPES
        if c.name.startswith(("run", "broadcast", "transposed", "row", "columns", "scan", "batch"))
        and "long" not in c.name
        and "chunks" not in c.name
    ][::2]
    wrong = {
        name: text for name, text in outcomes(cases, False, *EMULATE, "--set", "cuda.launch_config=4").items() if text
    }
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    wrong = {name: text for name, text in outcomes(CHUNKS[family], False, *EMULATE).items() if text}
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


def test_large_products_take_whole_vectors(tmp_path):
    """515 columns are 516 for the library, and 515 again for who reads them; a small product stays as it is."""

    def columns(rows, *options):
        module = torch.nn.Linear(80, 515, bias=False)
        export(module, (torch.randn(rows, 80),), tmp_path / "m.pt2")
        done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATE, *options, "--log", "ir")
        assert done.returncode == 0, done.stderr
        (call,) = [line for line in (done.stdout + done.stderr).splitlines() if "extern linear" in line]
        return int(call.split("-> ")[1].split("]")[0].split(", ")[-1])

    copied = ("--set", "cuda.direct_rows=false")
    # 14 MB are not worth parts.
    assert (columns(7000), columns(5), columns(9000), columns(9000, *copied)) == (
        516,
        515,
        515,
        516,
    )


def test_a_reader_joins_an_earlier_one(tmp_path):
    """The copy of a product out of its whole vectors goes with the kernel of its rows, though another kernel has read
    the product since.
    """

    class Module(torch.nn.Module):
        def forward(self, x, w, i):
            y = x @ w
            return y.logsumexp(-1), y.gather(1, i).sum(), y

    export(
        Module(),
        (torch.randn(3500, 160), torch.randn(160, 515), torch.zeros(3500, 1, dtype=torch.long)),
        tmp_path / "m.pt2",
    )
    done = coil("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *EMULATE, "--log", "schedule")
    assert done.returncode == 0, done.stderr
    items = (done.stdout + done.stderr).split("item")
    (rows,) = [item for item in items if "kernel over [3500] x [515]" in item]
    assert " reduce " in rows and " inner " in rows, rows
    assert not any("kernel over [3500, 515] x []" in item for item in items)


class MaskedScores(torch.nn.Module):
    """Attention's weights where a mask puts the least number, or an infinity, in place of scores; and where the least
    number is all there is.
    """

    def forward(self, scores, mask):
        least, infinite = (torch.where(mask, scores, low) for low in (torch.finfo(torch.float32).min, float("-inf")))
        return (
            F.softmax(least, -1),
            F.log_softmax(least, -1),
            F.softmax(infinite, -1),
            least.logsumexp(-1),
            F.softmax(torch.full_like(scores, torch.finfo(torch.float32).min), -1),
        )


def masked_scores(rows, length):
    kept = torch.tensor([1, (length + 1) // 2, length])[torch.arange(rows) % 3]
    return seeded(rows, length), torch.arange(length) < kept[:, None]


def test_masked_rows_of_free_length():
    """Most threads of a row see nothing but masked scores."""
    dynamic = {name: {0: Dim("rows", max=4096), 1: Dim("length", max=4096)} for name in ("scores", "mask")}
    check(
        MaskedScores(),
        masked_scores(33, 130),
        dynamic=dynamic,
        others=[masked_scores(*sizes) for sizes in ((4, 33), (8, 1), (40, 700))],
        settings=EMULATE[1:],
    )
