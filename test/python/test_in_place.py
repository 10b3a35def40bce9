"""Writes to inputs and states happen where these lie: no whole copy of what changes in a part, and eager's values
whatever the order of reads and writes.
"""

import ctypes
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import check, coil_ok, differences, eager, export, run
from test_cuda_text import NVRTC
from test_output_layout import Tensor, as_coil, library

ROWS, COLUMNS = 256, 64


def program(statements):
    """A module over a large state x, a row y, another large y2 and a position p, as eager runs it."""

    class Net(nn.Module):
        def forward(self, x, y, z, p):
            scope = {"x": x, "y": y, "z": z, "p": p, "torch": torch, "F": F}
            for line in statements[:-1]:
                exec(line, scope)
            return eval(statements[-1], scope)

    return Net()


def arguments():
    return torch.randn(ROWS, COLUMNS), torch.randn(3, COLUMNS), torch.randn(ROWS, COLUMNS), torch.tensor([7, 3, 200])


# Each: how many buffers of x's size the compiled program may allocate for itself (None: not said), and what it does.
PROGRAMS = {
    "index_copy": (0, "x.index_copy_(0, p, y)", "x[1] + 1"),
    "index_put": (0, "x[p] = y", "x[7] * 2"),
    "index_put_accumulate": (0, "x.index_put_((p,), y, accumulate=True)", "x.sum(1)"),
    "index_add": (0, "x.index_add_(0, p, y)", "x[3] + 1"),
    "index_fill": (0, "x.index_fill_(0, p, 2.5)", "x[3] + 1"),
    "scatter": (0, "x.scatter_(0, p[:, None], 4.0)", "x[3] + 1"),
    "scatter_add": (0, "x.scatter_add_(0, p[:, None].expand(3, 64), y)", "x[3] + 1"),
    "slice": (0, "x[5:8] = y", "x[4:9].sum(0)"),
    "strided_slice": (0, "x[1:200:67] = y", "x[::60] + 1"),
    "column": (0, "x[:, 3] = 1.5", "x.sum(1)"),
    "corner": (0, "x[10:13, 5:9] = y[:, :4]", "x.sum(1)"),
    "select": (0, "x.select(1, 5).fill_(7)", "x[0] * 2"),
    "select_negative": (0, "x[-2] = y[0]", "x[-3:] * 2"),
    "nested_views": (0, "x.view(16, 16, 64)[3].narrow(0, 2, 3).copy_(y)", "x[48:60].sum()"),
    "transposed": (0, "x.t()[2:4] = 3", "x.sum(0)"),
    "two_slices": (0, "x[2:5] = y", "x[4:7] = y * 2", "x[:8] * 1"),
    "many_rows": (0, "for i in range(0, 20, 3): x[i] = y[0] * i", "x[:21].sum(1)"),
    "scaled_row": (0, "x[4] *= 3", "x[3:6] + 0"),
    "row_from_row": (0, "x[4] = x[5]", "x[3:7] + 0"),
    "rows_exchanged": (0, "t = x[0].clone()", "x[0] = x[1]", "x[1] = t", "x[:2] + 0"),
    "rows_by_data": (0, "x[p] = x[p] + 1", "x[p] * 1"),
    "rows_by_repeated_data": (0, "q = torch.cat([p, p])", "x[q] = x[q] * 2", "x[p] * 1"),
    "shifted_rows": (0, "x[1:4] = x[0:3].clone()", "x[:5] + 0"),
    "put_then_whole": (None, "x[p] = y", "x.mul_(2)", "x[p] + 0"),
    "whole": (0, "x.mul_(0.9).add_(z, alpha=0.1)", "x.sum()"),
    "whole_used_twice": (0, "x.lerp_(z, 0.1)", "(x.exp().sum(), x.max())"),
    "product": (0, "x.copy_(z @ (y.t() @ y))", "x.relu().sum(1)"),
    "old_read_before": (0, "s = x.sum(0)", "x[5:8] = y", "s + x[6]"),
    "old_row_kept": (None, "s = x[6].clone()", "x[5:8] = y", "(s, x[6] + s)"),
    # Somebody reads the old value later, or elsewhere than it is written.
    "old_returned": (None, "s = x.clone()", "x[5:8] = y", "s"),
    "flipped": (None, "x.copy_(x.flip(0))", "x[0] + 1"),
    "product_with_itself": (None, "x.copy_(x @ (y.t() @ y))", "x.sum(1)"),
    "both": (None, "x.add_(z)", "z.add_(x)", "x - z"),
    "exchanged": (None, "t = x.clone()", "x.copy_(z)", "z.copy_(t)", "x[0] + z[0]"),
    "softmax_in_place": (None, "x.copy_(x.softmax(1))", "x[0] + 1"),
    "cumulative": (None, "x.copy_(x.cumsum(1))", "x[0] + 1"),
    "transposed_whole": (None, "x.view(4, 64, 64).transpose(1, 2).copy_(x.view(4, 64, 64).clone())", "x[0] + 1"),
    "view_read_between": (
        None,
        "v = x[4:9]",
        "a = v.sum(0)",
        "x[5] = y[0]",
        "b = v.sum(0)",
        "x[8] = y[1]",
        "(a, b, v.sum(0))",
    ),
}


def allocated(archive, *options):
    """Sizes in elements of what the compiled program allocates for itself."""
    done = coil_ok("compile", archive, "-o", archive.with_suffix(".coil"), "--log", "wrapper", *options)
    log = (done.stdout + done.stderr).replace("[wrapper] ", "")
    sizes = {
        m[1]: eval(m[2].replace(", ", "*") or "1") for m in re.finditer(r"^buffer (\S+) : \w+\[(.*?)\]", log, re.M)
    }
    assert sizes, log
    return [sizes[name] for name in re.findall(r"^ *allocate (\S+)", log, re.M)]


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
def test_writes(tmp_path, decomposed):
    """All of them in one program with states of their own, so that they cost one compile."""

    class All(nn.Module):
        def __init__(self):
            super().__init__()
            self.each = nn.ModuleList(program(lines) for _, *lines in PROGRAMS.values())

        def forward(self, *states):
            p = states[-1]
            return [net(*states[3 * k : 3 * k + 3], p) for k, net in enumerate(self.each)]

    torch.manual_seed(5)
    states = [t for _ in PROGRAMS for t in arguments()[:3]] + [arguments()[3]]
    module = All()
    export(module, tuple(states), tmp_path / "m.pt2", decomposed=decomposed)
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    before, want = eager(module, tuple(states))
    got = run(tmp_path / "m.coil", before, tmp_path)
    # An input that eager leaves as it was (x[4] = x[4]) is among the outputs all the same.
    wrong = differences({k: v for k, v in got.items() if k in want or not torch.equal(v, before[k])}, want)
    names = list(PROGRAMS)

    def named(line):
        m = re.search(r"(?:_|^)([0-9]+)", line)
        return f"{line} ({names[int(m[1]) // 3 if 'states' in line else int(m[1])] if m else ''})"

    assert not wrong, "\n".join(map(named, wrong))


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, (whole, *_) in PROGRAMS.items()
        if whole == 0
        and n in ("index_copy", "slice", "many_rows", "rows_by_data", "product", "whole_used_twice", "transposed")
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_copy_of_the_whole(tmp_path, name, dtype, on_cpu):
    if name == "whole_used_twice" and not on_cpu:
        pytest.skip("on a GPU sums over a whole tensor are of many blocks, and do not share a kernel with the write")
    given = [x.to(dtype) if x.is_floating_point() else x for x in arguments()]
    export(program(PROGRAMS[name][1:]), tuple(given), tmp_path / "m.pt2")
    assert max(allocated(tmp_path / "m.pt2"), default=0) < ROWS * COLUMNS


class Cache(nn.Module):
    """Keys and values of one layer, as static caches of decoders keep them."""

    def __init__(self, heads, length, width, how):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, heads, length, width))
        self.register_buffer("values", torch.zeros(1, heads, length, width))
        self.how = how

    def update(self, position, k, v):
        for cache, new in ((self.keys, k), (self.values, v)):
            if self.how == "index_copy":
                cache.index_copy_(2, position, new)
            elif self.how == "index_put":
                cache[:, :, position] = new
            else:
                cache[:, :, 40:41] = new
        return self.keys, self.values


class Decoder(nn.Module):
    """One step of a decoder: rotary positions, grouped queries, a mask over what is in the cache."""

    def __init__(self, how, layers=2, vocabulary=50, heads=4, groups=2, width=16, length=128, hidden=64):
        super().__init__()
        self.heads, self.groups, self.width, self.length = heads, groups, width, length
        self.repeats = how == "index_put"
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.RMSNorm(hidden),
                    "q": nn.Linear(hidden, heads * width, bias=False),
                    "k": nn.Linear(hidden, groups * width, bias=False),
                    "v": nn.Linear(hidden, groups * width, bias=False),
                    "o": nn.Linear(heads * width, hidden, bias=False),
                    "post": nn.RMSNorm(hidden),
                    "gate": nn.Linear(hidden, 2 * hidden, bias=False),
                    "up": nn.Linear(hidden, 2 * hidden, bias=False),
                    "down": nn.Linear(2 * hidden, hidden, bias=False),
                    "cache": Cache(groups, length, width, how),
                }
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)

    def rotate(self, x, position):
        half = self.width // 2
        angle = position[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def repeated(self, x):
        """As transformers has it where a mask is given."""
        each = self.heads // self.groups
        return x[:, :, None].expand(-1, -1, each, -1, -1).reshape(1, self.heads, self.length, self.width)

    def forward(self, token, position):
        h = self.embedding(token)
        mask = torch.arange(self.length) <= position[:, None]
        for layer in self.layers:
            x = layer["norm"](h)
            split = lambda t, n: t.view(1, -1, n, self.width).transpose(1, 2)
            q, k, v = (
                split(layer["q"](x), self.heads),
                split(layer["k"](x), self.groups),
                split(layer["v"](x), self.groups),
            )
            keys, values = layer["cache"].update(position, self.rotate(k, position), v)

            if self.repeats:
                keys, values = self.repeated(keys), self.repeated(values)
            attended = F.scaled_dot_product_attention(
                self.rotate(q, position), keys, values, attn_mask=mask, enable_gqa=not self.repeats
            )
            h = h + layer["o"](attended.transpose(1, 2).reshape(1, -1, self.heads * self.width))
            x = layer["post"](h)
            h = h + layer["down"](F.silu(layer["gate"](x)) * layer["up"](x))
        return self.head(self.norm(h))


@pytest.mark.cpu("compiles for a GPU that is not there")
@pytest.mark.skipif(NVRTC is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", ["index_copy", "index_put", "slice"])
def test_static_cache_on_a_gpu(tmp_path, how, dtype):
    """Of a cache that is a state, a step writes its part alone; keys and values are not repeated for the heads that
    share them.
    """
    module = Decoder(how).eval().to(dtype)
    export(module, (torch.tensor([[3]]), torch.tensor([40])), tmp_path / "m.pt2")
    assert (
        max(
            allocated(
                tmp_path / "m.pt2", "--device", "cuda", "--set", "cuda.arch=sm_90", "--set", f"cuda.nvrtc={NVRTC}"
            )
        )
        < module.layers[0]["cache"].keys.numel()
    )


@pytest.mark.parametrize("how", ["index_copy", "index_put", "slice"])
def test_decoder_with_static_cache(tmp_path, how):
    """The caches are states of the program: steps one after the other see what those before wrote, and no step copies a
    cache.
    """
    torch.manual_seed(2)
    module = Decoder(how).eval()
    example = (torch.tensor([[3]]), torch.tensor([40]))
    export(module, example, tmp_path / "m.pt2")
    assert max(allocated(tmp_path / "m.pt2")) < module.layers[0]["cache"].keys.numel()
    steps = [(torch.tensor([[7 * t % 50]]), torch.tensor([40 + t if how != "slice" else 40])) for t in range(4)]
    with torch.no_grad():
        want = [module(*step) for step in steps]
    model = library()
    loaded = ctypes.c_void_p(model.coil_model_load(str(tmp_path / "m.coil").encode()))
    assert loaded, model.coil_last_error()
    context = ctypes.c_void_p(model.coil_context_create(loaded))
    for step, expected in zip(steps, want):
        operands, results = (Tensor * 2)(*map(as_coil, step)), (Tensor * 1)()
        assert model.coil_context_run(context, operands, ctypes.c_size_t(2), results, ctypes.c_size_t(1)) == 0, (
            model.coil_last_error()
        )
        got = (
            torch.frombuffer((ctypes.c_float * expected.numel()).from_address(results[0].data), dtype=torch.float32)
            .clone()
            .view(expected.shape)
        )
        model.coil_tensor_release(ctypes.byref(results[0]))
        torch.testing.assert_close(got, expected, rtol=2e-5, atol=2e-5)
    model.coil_context_free(context), model.coil_model_free(loaded)


def test_dynamic_position():
    """A slice whose place is a number, an input whose length is free."""

    class Net(nn.Module):
        def forward(self, x, y, at):
            x[:, at : at + y.shape[1]] = y
            x[at] += 1
            return x.sum(1)

    n = torch.export.Dim("n", min=40, max=300)
    make = lambda n, at: (torch.randn(n, 300), torch.randn(n, 4), at)
    check(
        Net(),
        make(100, 5),
        {"x": {0: n}, "y": {0: n}, "at": torch.export.Dim.DYNAMIC},
        others=[make(41, 17), make(300, 1)],
    )


WRITES = {
    "copy": "x[:3] = z[p]",
    "copy_whole": "x.copy_(z[p[0]] + z[p[1]])",
    "copy_reused": "t = z[p]; x[:3] = t * 2; x[3:6] = t",
    "index_put": "x[p] = y",
    "index_add": "x.index_add_(0, p, y)",
    "index_copy": "x.index_copy_(0, p, y)",
    "scatter": "x.scatter_(0, p[:, None].expand(3, 64), y)",
}


@pytest.mark.parametrize("name", list(WRITES))
def test_wrong_index(tmp_path, name):
    """The run fails, and memory of the caller's that no index names is as it was: eager may have written what comes
    before the wrong one, too.
    """
    export(program([WRITES[name], "x.sum(1)"]), arguments(), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    lib = library()
    model = ctypes.c_void_p(lib.coil_model_load(str(tmp_path / "m.coil").encode()))
    context = ctypes.c_void_p(lib.coil_context_create(model))
    x, y, z, p = arguments()
    p[1] = ROWS
    before = x.clone()
    with pytest.raises((IndexError, RuntimeError)):
        program([WRITES[name], "x.sum(1)"])(x.clone(), y, z, p)
    ports = [x, y, z, p]
    operands, results = (Tensor * 4)(*map(as_coil, ports)), (Tensor * 1)()
    assert lib.coil_context_run(context, operands, ctypes.c_size_t(4), results, ctypes.c_size_t(1)) != 0
    assert b"out of range" in lib.coil_last_error(), lib.coil_last_error()
    named = torch.zeros(ROWS, dtype=torch.bool)
    named[[7, 200]] = True
    assert torch.equal(x[~named], before[~named])
    p[1] = 3  # the next call is as any other
    want = before.clone()
    x.copy_(before)
    program([WRITES[name], "x.sum(1)"])(want, y, z, p)
    assert lib.coil_context_run(context, operands, ctypes.c_size_t(4), results, ctypes.c_size_t(1)) == 0, (
        lib.coil_last_error()
    )
    for r in results:
        lib.coil_tensor_release(ctypes.byref(r))
    lib.coil_context_free(context), lib.coil_model_free(model)
    assert torch.equal(x, want)


@pytest.mark.parametrize("shift", [0, 3, -2], ids=["same", "later", "earlier"])
def test_inputs_that_overlap(tmp_path, shift):
    """Each input is read as it was before the run, though it lies in memory that the run writes to."""

    class Net(nn.Module):
        def forward(self, x, y):
            x.mul_(2)
            return y + 1, x.sum()

    export(Net(), (torch.randn(40), torch.randn(40)), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    memory = torch.randn(60)
    before = memory.clone()
    x, y = memory[8:48], memory[8 + shift : 48 + shift]
    lib = library()
    model = ctypes.c_void_p(lib.coil_model_load(str(tmp_path / "m.coil").encode()))
    assert model, lib.coil_last_error()
    context = ctypes.c_void_p(lib.coil_context_create(model))
    operands, results = (Tensor * 2)(as_coil(x), as_coil(y)), (Tensor * 2)()
    assert lib.coil_context_run(context, operands, ctypes.c_size_t(2), results, ctypes.c_size_t(2)) == 0, (
        lib.coil_last_error()
    )
    got = torch.frombuffer((ctypes.c_float * 40).from_address(results[0].data), dtype=torch.float32).clone()
    for r in results:
        lib.coil_tensor_release(ctypes.byref(r))
    lib.coil_context_free(context), lib.coil_model_free(model)
    assert torch.equal(got, before[8 + shift : 48 + shift] + 1)
    want = before.clone()
    want[8:48] *= 2
    assert torch.equal(memory, want)
