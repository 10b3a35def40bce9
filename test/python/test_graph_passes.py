"""Graph passes keep values: the graph after each, run with torch, against the program in eager."""

import pytest
import torch
import torch.nn.functional as F

from coil_harness import Call
from text_ir import Program, opt


def after(module, args, folder, passes, decomposed):
    """(targets, results) of the exported program after these passes."""
    exported = torch.export.export(module, args)
    torch.export.save(exported.run_decompositions() if decomposed else exported, folder / "m.pt2")
    program = Program(
        opt(folder / "m.pt2", "remove-noops", "functionalize", *passes, "propagate", "eliminate-dead-code")
    )
    attributes = {**exported.state_dict, **exported.constants}
    names = [line.split()[0][1:] for line in program.lines if "= placeholder[" in line]
    with torch.no_grad():
        return program.targets, program(dict(zip(names, args)), attributes)


def statistics(module):
    """Statistics as after training, not 0 and 1."""
    generator = torch.Generator().manual_seed(0)
    for m in module.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.running_mean.uniform_(-1, 1, generator=generator)
            m.running_var.uniform_(0.5, 2, generator=generator)
            if m.affine:
                torch.nn.init.uniform_(m.weight, 0.5, 1.5, generator=generator)
                torch.nn.init.uniform_(m.bias, -1, 1, generator=generator)
    return module.eval()


nn = torch.nn
LAYERS = {
    "conv2d": (lambda: [nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)], (2, 4, 9, 9)),
    "bias": (lambda: [nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)], (2, 4, 9, 9)),
    "depthwise": (lambda: [nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4, affine=False)], (2, 4, 9, 9)),
    "conv1d": (lambda: [nn.Conv1d(4, 6, 3, dilation=2), nn.BatchNorm1d(6, eps=0.1)], (2, 4, 9)),
    "conv3d": (lambda: [nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3)], (1, 2, 4, 4, 4)),
    "transposed": (lambda: [nn.ConvTranspose2d(4, 6, 3), nn.BatchNorm2d(6)], (2, 4, 5, 5)),
    "linear": (lambda: [nn.Linear(4, 6), nn.BatchNorm1d(6)], (5, 4)),
    "same": (lambda: [nn.Conv2d(4, 6, 3, padding="same"), nn.BatchNorm2d(6), nn.ReLU()], (2, 4, 9, 9)),
}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_fold_batch_norm(name, decomposed, tmp_path):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    module, x = statistics(nn.Sequential(*make())), torch.randn(shape)
    targets, (got,) = after(module, (x,), tmp_path, ["fold-batch-norm"], decomposed)
    if not (decomposed and name == "linear"):  # by then it is addmm
        assert not any("batch_norm" in t for t in targets)
    with torch.no_grad():
        torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-5)


Q, K, V = (2, 4, 8, 16), (2, 4, 10, 16), (2, 4, 10, 16)


def by_hand(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v


def finite_mask(q, k, v, m):
    bias = torch.where(m, 0.0, -1e4).to(q.dtype)
    return torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4 + bias, -1) @ v


def repeated(x):
    """Each head twice, as models have it that share keys."""
    return x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, 10, 16)


ATTENTION = {
    "plain": (F.scaled_dot_product_attention, [Q, K, V], None),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [Q, K, V], None),
    "scale": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), [Q, K, V], None),
    "grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [Q, (2, 2, 10, 16), (2, 2, 10, 16)],
        None,
    ),
    "repeated": (
        lambda q, k, v: F.scaled_dot_product_attention(q, repeated(k), repeated(v)),
        [Q, (2, 2, 10, 16), (2, 2, 10, 16)],
        None,
    ),
    "bool mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        [Q, K, V],
        torch.arange(80).reshape(8, 10) % 3 > 0,
    ),
    "row masked": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        [Q, K, V],
        torch.arange(80).reshape(8, 10) > 12,
    ),
    "float mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        [Q, K, V],
        torch.linspace(-1, 1, 160).reshape(2, 1, 8, 10),
    ),
    "three dimensions": (F.scaled_dot_product_attention, [Q[1:], K[1:], V[1:]], None),
    "by hand": (by_hand, [Q, K, V], None),
    "by hand, three dimensions": (by_hand, [Q[1:], K[1:], V[1:]], None),
    "by hand, finite mask": (finite_mask, [Q, K, V], torch.arange(80).reshape(8, 10) % 3 > 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ATTENTION)
def test_fuse_attention(name, dtype, tmp_path):
    f, shapes, mask = ATTENTION[name]
    torch.manual_seed(0)
    args = [torch.randn(s).to(dtype) for s in shapes]
    if mask is not None:
        args.append(mask if mask.dtype == torch.bool else mask.to(dtype))
    targets, (got,) = after(Call(f), tuple(args), tmp_path, ["fuse-attention"], True)
    assert dtype != torch.float32 or "aten.scaled_dot_product_attention.default" in targets
    assert name != "repeated" or "aten.expand.default" not in targets
    want = f(*args)
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2  # weights rounded to bf16 in one of the two
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_attention_with_weights_in_use_stays(tmp_path):
    def f(q, k, v):
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        return weights @ v, weights

    args = tuple(torch.randn(s) for s in (Q, K, V))
    targets, (got, weights) = after(Call(f), args, tmp_path, ["fuse-attention"], True)
    assert "aten.scaled_dot_product_attention.default" not in targets
    torch.testing.assert_close(got, f(*args)[0], rtol=1e-5, atol=1e-5)


def test_fuse_linear(tmp_path):
    torch.manual_seed(0)
    module, x = nn.Linear(16, 8).bfloat16(), torch.randn(2, 5, 16).bfloat16()
    targets, (got,) = after(module, (x,), tmp_path, ["fuse-linear"], True)
    assert "aten.bmm.default" not in targets
    with torch.no_grad():
        torch.testing.assert_close(got, module(x), rtol=2e-2, atol=2e-2)
