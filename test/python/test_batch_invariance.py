"""`deterministic=batch`: a row of a batch has the same bits, however many rows there are and wherever it stands."""

import inspect
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coil_harness import ROOT, CoilError, coil_ok, difference, export, run, same
from models import BERT, transformer

sys.path.insert(0, str(ROOT / "build/python"))
ROWS = (1, 2, 3, 7, 64)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SETTING = ("--set", "deterministic=batch")


def of(function):
    return type("Of", (nn.Module,), {"forward": lambda self, x: function(x)})()


class Bmm(nn.Module):
    """Of two values for each row."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        rows, inner, columns = self.sizes
        a, b = x[:, : rows * inner], x[:, rows * inner :]
        return torch.bmm(a.view(-1, rows, inner), b.reshape(-1, inner, columns))


class Attention(nn.Module):
    def __init__(self, causal, written_out=False):
        super().__init__()
        self.causal, self.written_out = causal, written_out
        self.qkv = nn.Linear(48, 3 * 48)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (3, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.written_out:
            y = ((q @ k.transpose(-2, -1)) * 0.25).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).flatten(2)


class Logits(nn.Module):
    """A small GPT: embeddings, blocks, logits."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(100, 48), nn.Embedding(16, 48)
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(5))
        self.attention = nn.ModuleList(Attention(True) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(48, 192), nn.GELU(approximate="tanh"), nn.Linear(192, 48)) for _ in range(2)
        )

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for i in range(2):
            x = x + self.attention[i](self.norms[2 * i](x))
            x = x + self.mlp[i](self.norms[2 * i + 1](x))
        return self.norms[4](x) @ self.words.weight.t()


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(20, 33, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


def bert(dtype):
    return transformer("BertModel", "BertConfig", (64, 16), 200, dtype, **BERT)[0]


# name -> (module, sizes of a row); a row of integers where the sizes end in a type
PROGRAMS = {
    "linear": lambda: (nn.Linear(300, 200), (300,)),
    "narrow linear": lambda: (nn.Linear(37, 5), (37,)),
    "linear with relu": lambda: (nn.Sequential(nn.Linear(129, 70), nn.ReLU(), nn.Linear(70, 64)), (129,)),
    "linear over steps": lambda: (nn.Linear(128, 96), (5, 128)),
    "long sums": lambda: (nn.Linear(4000, 65), (4000,)),
    "bmm": lambda: (Bmm((6, 50, 40)), (6 * 50 + 50 * 40,)),
    "bmm of one row": lambda: (Bmm((1, 300, 9)), (300 + 2700,)),
    "conv": lambda: (nn.Conv2d(8, 16, 3, padding=1), (8, 13, 13)),
    "strided conv": lambda: (nn.Sequential(nn.Conv2d(3, 24, 7, stride=2), nn.ReLU(), nn.Conv2d(24, 8, 1)), (3, 32, 32)),
    "conv1d": lambda: (nn.Conv1d(16, 32, 5), (16, 50)),
    "grouped conv": lambda: (nn.Conv2d(16, 16, 3, groups=16), (16, 9, 9)),
    "transposed conv": lambda: (nn.ConvTranspose2d(8, 6, 2, stride=2), (8, 7, 7)),
    "attention": lambda: (Attention(False), (17, 48)),
    "causal attention": lambda: (Attention(True), (16, 48)),
    "attention written out": lambda: (Attention(False, True), (17, 48)),
    "layer norm": lambda: (nn.LayerNorm(1000), (1000,)),
    "short layer norm": lambda: (nn.LayerNorm(24), (24,)),
    "group norm": lambda: (nn.GroupNorm(4, 12), (12, 5, 5)),
    "rms norm": lambda: (nn.RMSNorm(770), (770,)),
    "softmax": lambda: (of(lambda x: x.softmax(-1)), (1001,)),
    "log softmax": lambda: (of(lambda x: x.log_softmax(-1)), (50,)),
    "mean": lambda: (of(lambda x: x.mean(-1)), (5000,)),
    "long mean": lambda: (of(lambda x: x.mean(-1)), (200_000,)),
    "mean over steps": lambda: (of(lambda x: x.mean(1)), (77, 40)),
    "sum of all but rows": lambda: (of(lambda x: x.sum((1, 2))), (77, 41)),
    "variance": lambda: (of(lambda x: x.var(-1)), (333,)),
    "cumsum": lambda: (of(lambda x: x.cumsum(-1)), (700,)),
    "pointwise": lambda: (of(lambda x: (x.exp() * x.tanh()).erf() + x.sigmoid().log() * x.sin()), (37,)),
    "pooling": lambda: (nn.Sequential(nn.AvgPool2d(3), nn.AdaptiveAvgPool2d(1)), (6, 20, 20)),
    "norm": lambda: (of(lambda x: x / x.norm(dim=-1, keepdim=True)), (129,)),
    "lstm": lambda: (Rnn(), (6, 20)),
}


def rows_of(module, x, folder, *options, dynamic=None):
    """The results of batches of the first rows, by their number; each batch a program of its own, or one for all."""
    results = {}
    package = folder / "m.coil"
    if dynamic:
        export(module, (x,), folder / "m.pt2", dynamic=({0: torch.export.Dim("n", min=1, max=len(x))},))
        coil_ok("compile", folder / "m.pt2", "-o", package, *options)
    for n in ROWS:
        if not dynamic:
            export(module, (x[:n].clone(),), folder / "m.pt2")
            coil_ok("compile", folder / "m.pt2", "-o", package, *options)
        results[n] = run(package, {next(iter(names(module))): x[:n].clone()}, folder)
    return results


def names(module):
    return list(inspect.signature(module.forward).parameters)


def wrong_rows(results):
    """`N rows: result, rows that differ` where a batch has other bits than all rows together."""
    whole = results[max(results)]
    lines = []
    for n, got in results.items():
        for name, value in got.items():
            differing = [i for i in range(n) if not same(value[i].contiguous(), whole[name][i].contiguous())]
            if differing:
                lines.append(f"{n} rows: {name}, {differing}")
    return lines


def check(module, x, folder, *options, tolerance=None):
    module = module.eval()
    for dynamic in (True, False):
        results = rows_of(module, x, folder, *SETTING, *options, dynamic=dynamic)
        assert not (wrong := wrong_rows(results)), "\n".join(["free sizes" if dynamic else "fixed sizes", *wrong])
        with torch.no_grad():
            want = module(x)
        for name, value in results[len(x)].items():
            expected = want if isinstance(want, torch.Tensor) else want[name]
            assert not (line := difference(value, expected.contiguous(), tolerance)), line


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows(name, dtype, tmp_path):
    module, sizes = PROGRAMS[name]()
    x = torch.randn(64, *sizes).to(DTYPES[dtype])
    check(module.to(DTYPES[dtype]), x, tmp_path, tolerance=2e-4 if dtype == "f32" else 4e-2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_models(name, dtype, tmp_path):
    module = bert(DTYPES[dtype]) if name == "bert" else Logits().to(DTYPES[dtype])
    ids = torch.randint(0, 100, (64, 16))
    check(module, ids, tmp_path, tolerance=5e-4 if dtype == "f32" else 8e-2)


@pytest.mark.parametrize("isa", ["avx2", "baseline"])
def test_other_instruction_sets(isa, tmp_path):
    for name in ("linear", "long sums", "attention", "layer norm", "pointwise"):
        module, sizes = PROGRAMS[name]()
        check(module, torch.randn(64, *sizes), tmp_path, "--set", f"cpu.isa={isa}", tolerance=2e-4)


def test_anywhere_in_a_batch(tmp_path):
    """A row has its bits at every place, with any neighbours, NaN among them."""
    module = nn.Sequential(nn.Linear(130, 300), nn.ReLU(), nn.Linear(300, 65), nn.LayerNorm(65)).eval()
    x = torch.randn(64, 130)
    x[1:] = x[0]
    x[5] = torch.nan
    export(module, (x,), tmp_path / "m.pt2", dynamic=({0: torch.export.Dim("n", min=1, max=64)},))
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *SETTING)
    y = run(tmp_path / "m.coil", {"input": x}, tmp_path)["output"]
    alone = run(tmp_path / "m.coil", {"input": x[:1].clone()}, tmp_path)["output"]
    assert all(same(y[i], alone[0]) for i in range(64) if i != 5) and y[5].isnan().all()


def test_threads(tmp_path):
    module, sizes = PROGRAMS["linear with relu"]()
    x = torch.randn(64, *sizes)
    export(module.eval(), (x,), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *SETTING)
    one, two = (run(tmp_path / "m.coil", {"input": x}, tmp_path, "--threads", n)["output"] for n in (1, 2))
    assert same(one, two)


def test_refusals(tmp_path):
    export(nn.Linear(4, 3), (torch.randn(2, 4),), tmp_path / "m.pt2")
    for options, message in (
        (("--set", "deterministic=rows"), "takes true, false or batch"),
        ((*SETTING, "--device", "cuda"), "deterministic=batch"),
        ((*SETTING, "--set", "cuda.emulate=true"), "deterministic=batch"),
        ((*SETTING, "--emit", "python"), "deterministic=batch"),
    ):
        with pytest.raises(CoilError, match=message):
            coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", *options)


def test_torch_compile():
    pytest.importorskip("coil", reason="the Python extension is not built")
    module = nn.Sequential(nn.Linear(130, 300), nn.GELU(), nn.Linear(300, 65)).eval()
    compiled = torch.compile(module, backend="coil", options={"deterministic": "batch"})
    x = torch.randn(64, 130)
    with torch.no_grad():
        whole = compiled(x)
        for n in ROWS:
            assert torch.equal(compiled(x[:n].clone()), whole[:n]), n
