"""`--emit python` and `--emit fx` of CUDA programs where there is no GPU: their kernels' text compiles by the files'
own way to NVRTC, and behind the machine of `cuda.emulate` the files give eager's results.
"""

import copy
import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from coil_harness import CoilError, coil_ok, difference, export
from emitted import emit
from emulated_cuda import (  # noqa: F401 (the fixture serves by being here)
    library_calls_of_its_own,
    load_emulated,
    on_the_cpu,
)

FOUND = importlib.util.find_spec("nvidia")
PLACE = next(
    (p for p in (FOUND.submodule_search_locations if FOUND else []) if list(pathlib.Path(p).rglob("libnvrtc.so*"))),
    None,
)
CUDA = ["--device", "cuda", "--set", "cuda.arch=sm_90"]
ROWS = Dim("rows", min=2, max=64)


def of(function):
    return type("Of", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()


class Net(torch.nn.Module):
    """Products with what follows them, a state, an input that is written to, sizes that are free, views of inputs."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.words = (
            torch.nn.Linear(16, 32),
            torch.nn.Linear(32, 8),
            torch.nn.Embedding(10, 16),
        )
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x, h, i):
        self.calls.add_(1)
        h.mul_(2)
        z = self.second(torch.relu(self.first(x + self.words(i))))
        values, indices = z.sort(-1)
        return torch.softmax(z, -1), z.sum(0), x[:, ::2], h.t(), self.calls * 2, x.shape[0] * 3, values, indices


class Loop(torch.nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: (x * 2,), (x,))[0]
        return torch.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), y))


class Selected(torch.nn.Module):
    """Sizes that depend on data, and indices that may be out of range before them."""

    def forward(self, x, i, n):
        k = i[0].item()
        torch._check(k >= 0)
        torch._check(k < 4)
        rows = x[i]
        return rows[rows[:, 0] > 0] * n, x[:k] * 2, torch.nonzero(x > 0), torch.unique(i)


class Convolved(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)) + 1)


def gradients(x, w, g):
    return torch.ops.aten.convolution_backward(
        g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
    )[:2]


def gradients_of_patches(x, w, g, h):
    """Of windows side by side, which leave some places out, in f32, and of windows that overlap in 16 bits."""
    back = lambda x, w, g, stride, padding: torch.ops.aten.convolution_backward(
        g, x, w, None, stride, padding, [1, 1], False, [0, 0], 1, [False, True, False]
    )[1]
    return back(x, w, g, [4, 4], [0, 0]), back(x.bfloat16(), w.bfloat16(), h.bfloat16(), [2, 2], [0, 0])


def linalg(a, b):
    lu, pivots = torch.linalg.lu_factor(a)
    q, r = torch.linalg.qr(b)
    return (
        torch.linalg.solve(a, b),
        *torch.lu_unpack(lu, pivots),
        torch.linalg.cholesky(a @ a.mT),
        q @ r,
        torch.linalg.eigvals(a).abs().sum(),
        torch.matrix_exp(a / 8),
    )


def seeded(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


BF16 = torch.bfloat16


def attention_and_gradient(q, k, v, dy, mask=None):
    y, logarithms = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, mask is None, attn_mask=mask
    )
    return (
        y,
        logarithms,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            dy, q, k, v, y, logarithms, 0.0, mask is None, attn_mask=mask
        ),
    )


PROGRAMS = {
    "pointwise": (of(lambda x, y: (x.sin() + y, (x > y).sum())), [(seeded(70, 33), seeded(33))], None),
    "reduction": (of(lambda x: (x.softmax(-1), x.sum(0), x.var(1), x.amax())), [(seeded(9, 700),)], None),
    "net": (
        Net(),
        [(seeded(5, 16), seeded(4, 3), torch.arange(5)), (seeded(64, 16), seeded(4, 3), torch.arange(64) % 10)],
        ({0: ROWS}, None, {0: ROWS}),
    ),
    "epilogue": (
        of(
            lambda x, w, b, r: (
                F.gelu(F.linear(x, w, b), approximate="tanh"),
                torch.relu(x @ w.t()) + r,
                torch.addmm(r, x, w.t()),
            )
        ),
        [(seeded(6, 16), seeded(24, 16), seeded(24), seeded(6, 24))],
        None,
    ),
    "narrow": (
        of(lambda x, w, b: (F.linear(x, w, b).relu(), F.linear(x, w).float(), x @ x.mT)),
        [(seeded(2, 6, 16, dtype=BF16), seeded(24, 16, dtype=BF16), seeded(24, dtype=BF16))],
        None,
    ),
    "grown": (
        of(lambda x, w: F.cross_entropy(F.linear(x, w).float(), torch.arange(3500) % 515)),
        [(seeded(3500, 32, dtype=BF16), seeded(515, 32, dtype=BF16))],
        None,
    ),
    "batched": (of(lambda x, y: torch.bmm(x, y) * 2), [(seeded(3, 5, 7), seeded(3, 7, 9))], None),
    "attention": (
        of(
            lambda q, k, v: (
                F.scaled_dot_product_attention(q, k, v, is_causal=True),
                F.scaled_dot_product_attention(q, k, v, (q @ k.mT).sign().to(q.dtype)),
            )
        ),
        [(seeded(2, 3, 8, 16, dtype=BF16), seeded(2, 3, 8, 16, dtype=BF16), seeded(2, 3, 8, 16, dtype=BF16))],
        None,
    ),
    "attention in training": (
        of(attention_and_gradient),
        [
            (
                seeded(2, 4, 8, 16, dtype=BF16),
                seeded(2, 2, 9, 16, dtype=BF16),
                seeded(2, 2, 9, 16, dtype=BF16),
                seeded(2, 4, 8, 16, dtype=BF16),
            )
        ],
        None,
    ),
    "attention in training, masked": (
        of(attention_and_gradient),
        [(*(seeded(2, 4, n, 16, dtype=BF16) for n in (8, 9, 9, 8)), seeded(2, 1, 8, 9, dtype=BF16))],
        None,
    ),
    # Coil's own kernels: pieces of heads with and without rests, causal and masked, heads that share keys, two calls in
    # one launch.
    "attention in f32": (
        of(
            lambda q, k, v, seen: (
                F.scaled_dot_product_attention(q, k, v, is_causal=True),
                F.scaled_dot_product_attention(q, v, k, is_causal=True),
                F.scaled_dot_product_attention(q[..., :20], k[..., :20], v[..., :33], seen),
            )
        ),
        [(*(seeded(2, 3, n, 72) for n in (150, 70, 70)), seeded(150, 70) > -1)],
        None,
    ),
    "attention in f32 in training": (
        of(attention_and_gradient),
        [(seeded(2, 4, 70, 80), seeded(2, 2, 90, 80), seeded(2, 2, 90, 80), seeded(2, 4, 70, 80))],
        None,
    ),
    "attention in f32 in training, masked": (
        of(attention_and_gradient),
        [(*(seeded(2, 4, n, 16) for n in (20, 30, 30, 20)), seeded(2, 1, 20, 30).exp().log())],
        None,
    ),
    "blocks": (Loop(), [(torch.ones(3),), (-torch.ones(3),)], None),
    "selected": (
        Selected(),
        [(seeded(6, 3), torch.tensor([2, 0, 5]), 3), (-seeded(6, 3).abs(), torch.tensor([0, 0, 1]), 5)],
        (None, None, Dim.DYNAMIC),
    ),
    "convolution": (Convolved(), [(seeded(2, 3, 10, 12),)], None),
    # Products of what the windows read: of whole windows and past an end, padded, dilated, of recordings and volumes.
    "convolution of patches": (
        of(
            lambda x, a, b, y, c, z, d: (
                F.conv2d(x, a, b, 8).relu(),
                F.conv2d(x, a, None, (4, 5), (2, 3)),
                F.conv2d(x[:, :, ::2], a, b, 6, 4, (2, 1)).sum(1),
                F.conv1d(y, c, stride=8),
                F.conv3d(z, d, stride=(2, 4, 4)),
            )
        ),
        [
            (
                *(seeded(n, 3, 34, 40), seeded(32, 3, 8, 8), seeded(32)),
                *(seeded(n, 1, 40), seeded(16, 1, 16), seeded(n, 3, 4, 8, 9), seeded(20, 3, 2, 4, 4)),
            )
            for n in (2, 3)
        ],
        (({0: ROWS}, None, None, {0: ROWS}, None, {0: ROWS}, None),),
    ),
    "convolution gradient of patches": (
        of(gradients_of_patches),
        [(seeded(2, 3, 16, 18), seeded(16, 3, 4, 4), seeded(2, 16, 4, 4), seeded(2, 16, 7, 8))],
        None,
    ),
    "convolution gradient": (of(gradients), [(seeded(2, 3, 9, 9), seeded(4, 3, 3, 3), seeded(2, 4, 9, 9))], None),
    "sorts and scans": (
        of(
            lambda x: (
                *x.sort(dim=-1, stable=True),
                *x.topk(3),
                x.cumsum(0),
                x.median(),
                x.logcumsumexp(1),
                x.sort(0).indices,
            )
        ),
        [(seeded(20, 300),)],
        None,
    ),
    "scattered": (
        of(lambda x, i, y: (x.index_add(0, i, y), torch.index_put(x, (i,), y, accumulate=True))),
        [(seeded(10, 8), torch.arange(30) % 10, seeded(30, 8))],
        None,
    ),
    "complex": (of(lambda x: torch.fft.rfft(x).abs()), [(seeded(4, 16),)], None),
    "factors": (of(linalg), [(seeded(4, 4) + 3 * torch.eye(4), seeded(4, 3))], None),
    "lstm": (torch.nn.LSTM(4, 5), [(seeded(3, 2, 4),)], None),
    "many alike": (of(lambda *xs: tuple((x * 2).tanh() for x in xs)), [tuple(seeded(300) for _ in range(12))], None),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request, tmp_path_factory):
    """Name, module, calls, archive."""
    torch.manual_seed(0)
    module, calls, dynamic = PROGRAMS[request.param]
    module = module.eval()
    archive = tmp_path_factory.mktemp("emit") / "m.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(copy.deepcopy(module), calls[0], dynamic_shapes=dynamic), archive)
    return request.param, module, calls, archive


def check_calls(function, module, calls):
    module = copy.deepcopy(module)
    for args in calls:
        given, theirs = copy.deepcopy(args), copy.deepcopy(args)
        results = function(*given)
        with torch.no_grad():
            want = torch.utils._pytree.tree_leaves(module(*theirs))
        assert len(results) == len(want)
        for k, (got, expected) in enumerate([*zip(results, want), *zip(given, theirs)]):
            if isinstance(expected, torch.Tensor):
                wrong = difference(got, expected)
                assert not wrong, (k, wrong)
            else:
                assert got == expected, k


@pytest.mark.skipif(PLACE is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("arch", ["sm_90", "sm_80"])
def test_kernels_compile(program, arch, monkeypatch, tmp_path):
    """By the functions of the file itself, to a cubin that is in the cache then."""
    monkeypatch.setenv(
        "COIL_NVRTC",
        str(PLACE + "/cu13") if (pathlib.Path(PLACE) / "cu13").is_dir() else str(pathlib.Path(PLACE).parent),
    )
    monkeypatch.setenv("COIL_CACHE", str(tmp_path))
    text = emit(program[3], "python", "--device", "cuda", "--set", f"cuda.arch={arch}").read_text()
    scope = {"__file__": str(tmp_path / "m.py"), "__name__": "m"}
    exec(
        compile(
            text[: text.index("\nKERNELS = ")] if "\nKERNELS = " in text else text[: text.index("\ndef call(")],
            "m.py",
            "exec",
        ),
        scope,
    )
    if "KERNEL_TEXTS" in scope:
        flags = re.search(r"\nKERNELS = .*?(\[.*?\])", text)[1]
        cubins = scope["compile_kernels"](scope["KERNEL_HEAD"], scope["KERNEL_TEXTS"], eval(flags), arch)
        assert (
            cubins
            and all(c.startswith(b"\x7fELF") for c in cubins)
            and len(list(tmp_path.glob("*.cubin"))) == len(set(cubins))
        )


def test_python(program):
    _, module, calls, archive = program
    emitted = load_emulated(emit(archive, "python", *CUDA))
    check_calls(lambda *args: emitted.call(list(args)), module, calls)


def test_fx(program):
    _, module, calls, archive = program
    emitted = load_emulated(emit(archive, "fx", *CUDA))
    check_calls(emitted.load(), module, calls)


def test_fx_through_passes(program, tmp_path):
    _, module, calls, archive = program
    emitted = load_emulated(emit(archive, "fx", *CUDA))
    text = tmp_path / "m.fx"
    text.write_text(emitted.text())
    passes = [
        word
        for name in ("propagate", "eliminate-common-subexpressions", "eliminate-dead-code", "propagate")
        for word in ("--pass", name)
    ]
    check_calls(emitted.read(coil_ok("opt", *passes, text).stdout), module, calls)


def test_wrapper_text_gives_the_same_program(program, tmp_path):
    archive, text = program[3], tmp_path / "m.wrap"
    coil_ok("compile", archive, "-o", text, "--emit", "wrapper", "--set", "pack_weights=false", *CUDA)
    body = lambda source: source[source.index("def call(args):") :]
    assert body(coil_ok("opt", "--emit", "python", text).stdout) == body(emit(archive, "python", *CUDA).read_text())


@pytest.mark.parametrize("language", ["python", "fx"])
def test_an_index_out_of_range(language, tmp_path):
    """The message, and the caller's memory as it was."""

    def written(x, i, h):
        y = x[i]
        h.add_(1)
        return y

    export(of(written), (seeded(6, 3), torch.tensor([2, 0]), torch.zeros(2)), tmp_path / "m.pt2")
    emitted = load_emulated(emit(tmp_path / "m.pt2", language, *CUDA))
    call = emitted.load() if language == "fx" else lambda *args: emitted.call(list(args))
    h = torch.zeros(2)
    with pytest.raises(RuntimeError, match="an index read from a tensor is out of range"):
        call(seeded(6, 3), torch.tensor([2, 6]), h)
    assert (h == 0).all()
    assert torch.equal(call(seeded(6, 3), torch.tensor([2, -1]), h)[0], seeded(6, 3)[[2, 5]]) and (h == 1).all()


@pytest.mark.parametrize("language", ["python", "fx"])
def test_random_numbers(language, tmp_path):
    export(of(lambda x: F.dropout(x, 0.25, True)), (torch.ones(40, 50),), tmp_path / "m.pt2")
    emitted = load_emulated(emit(tmp_path / "m.pt2", language, *CUDA))
    call = emitted.load() if language == "fx" else lambda *args: emitted.call(list(args))
    one, two = call(torch.ones(40, 50))[0], call(torch.ones(40, 50))[0]
    assert (
        not torch.equal(one, two)
        and all(t in (0.0, 4 / 3) or abs(t - 4 / 3) < 1e-6 for t in one.unique().tolist())
        and 0.7 < (one > 0).float().mean() < 0.8
    )
    torch.manual_seed(3)
    one = call(torch.ones(40, 50))[0]
    torch.manual_seed(3)
    assert torch.equal(one, call(torch.ones(40, 50))[0])


def test_lines_say_how_kernels_are_launched(tmp_path):
    export(of(lambda x: x.sin()), (seeded(5, 16),), tmp_path / "m.pt2", {"args": ({0: ROWS},)})
    text = emit(tmp_path / "m.pt2", "python", "--device", "cuda:3", "--set", "cuda.arch=sm_90").read_text()
    assert 'DEVICE = torch.device("cuda:3")' in text and '"-std=c++17", "-default-device", "-w"' in text
    assert re.search(
        r"^    coil_\w+\(\[\w+, \w+\], \[s\d+\], grid=\(\(.* // \d+,\), block=\d+\)$", text, re.MULTILINE
    ), text[text.index("def call") :]
    assert "RUNTIME" not in text


def test_what_torch_has_no_form_of_is_refused(tmp_path):
    text = tmp_path / "m.wrap"
    export(of(lambda x, y: x @ y), (seeded(5, 16), seeded(16, 4)), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", text, "--emit", "wrapper", *CUDA)
    text.write_text(text.read_text().replace("= matmul(", "= my_product("))
    for language in ("python", "fx"):
        with pytest.raises(
            CoilError,
            match=(
                "library operation 'my_product' has no form in torch, which programs in Python call on cuda:0; write "
                "a package instead"
            ),
        ):
            coil_ok("opt", "--emit", language, text)


def test_inputs_belong_on_the_device(tmp_path):
    export(of(lambda x: x.sin()), (seeded(5),), tmp_path / "m.pt2")
    path = emit(tmp_path / "m.pt2", "python", *CUDA)
    emitted = load_emulated(path)
    with pytest.raises(RuntimeError, match="input 'x' is on cpu, but the program takes it on cuda:0; move it there"):
        emitted.take("x", seeded(5), torch.float32, 1, torch.device("cuda:0"))


@pytest.mark.parametrize("first", ["cpu", "cuda"])
def test_graphs_for_both_devices_share_a_process(first, tmp_path):
    """The operators are the process's, whichever file comes first."""
    torch.manual_seed(0)
    export(Net(), PROGRAMS["net"][1][0], tmp_path / "m.pt2")
    (tmp_path / "cpu").mkdir()
    on_cpu = emit(tmp_path / "m.pt2", "fx").rename(tmp_path / "cpu" / "m.py")
    (tmp_path / "emitted_fx_m.fx.weights.safetensors").rename(tmp_path / "cpu" / "emitted_fx_m.fx.weights.safetensors")
    files = [on_cpu, on_the_cpu(emit(tmp_path / "m.pt2", "fx", *CUDA))]
    script = f"""
import pathlib, sys, torch
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from emitted import load_module
paths = {[str(f) for f in (files if first == "cpu" else files[::-1])]!r}
one, two = [
    load_module(pathlib.Path(path)).load()(torch.ones(5, 16), torch.ones(4, 3), torch.arange(5)) for path in paths
]
assert torch.allclose(one[0], two[0], atol=1e-5)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
