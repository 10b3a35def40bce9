"""`cuda.tf32`: the calls that are told of it, and torch's switches, which Python's front doors follow."""

import pathlib
import subprocess
import sys
import types

import pytest
import torch

from coil_harness import CoilError, coil_ok, difference, export
from emitted import emit
from emulated_cuda import library_calls_of_its_own, load_emulated  # noqa: F401 (the fixture serves by being here)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
CUDA = ["--device", "cuda", "--set", "cuda.arch=sm_90"]


class Net(torch.nn.Module):
    """Every call that takes the attribute, and a product of bf16, which does not."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(10, 6)

    def forward(self, x, g):
        y = self.wide(torch.relu(self.narrow(x)))
        dw = torch.ops.aten.convolution_backward(
            g, x, self.narrow.weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
        )[1]
        return y, x @ x.mT, x.bfloat16() @ x.bfloat16().mT, dw


ARGS = torch.randn(2, 3, 10, 10), torch.randn(2, 8, 10, 10)
PRODUCTS, CONVOLUTIONS = {"linear", "matmul"}, {"convolution", "convolution_weights"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("tf32") / "m.pt2"
    export(Net().eval(), ARGS, path)
    return path


def calls(archive, *settings, device=CUDA):
    """Names of the program's library calls: of those that have the attribute, and of the others."""
    path = archive.with_suffix(".wrap")
    coil_ok(
        "compile", archive, "-o", path, "--emit", "wrapper", *device, *[word for s in settings for word in ("--set", s)]
    )
    lines = [line for line in path.read_text().splitlines() if line.strip().startswith("extern ")]
    told, others = (
        [line.split(" = ")[1].split("(")[0] for line in lines if (" tf32=1" in line) == has] for has in (True, False)
    )
    return told, others


class Sum(torch.nn.Module):
    """A product of matrices that eager adds up in f32, whatever its products may do."""

    def forward(self, x):
        return (x[:, None] * x).sum(-1)


def test_sums_that_become_products_are_not_rounded(tmp_path):
    export(Sum(), (torch.randn(512, 64),), tmp_path / "m.pt2")
    assert calls(tmp_path / "m.pt2", "cuda.tf32=all") == ([], ["matmul"])


@pytest.mark.parametrize(
    "choice, told",
    [("none", set()), ("products", PRODUCTS), ("convolutions", CONVOLUTIONS), ("all", PRODUCTS | CONVOLUTIONS)],
)
def test_calls_are_told(archive, choice, told):
    found, others = calls(archive, f"cuda.tf32={choice}")
    assert set(found) == told
    assert others.count("matmul") == (1 if "matmul" in told else 2)


def test_off_where_nothing_is_said_and_on_the_cpu(archive):
    assert calls(archive)[0] == []
    assert calls(archive, "cuda.tf32=all", device=())[0] == []


def test_other_values_are_refused(archive):
    with pytest.raises(CoilError, match="cuda.tf32 takes none, products, convolutions or all, not 'true'"):
        calls(archive, "cuda.tf32=true")


def test_programs_as_python(archive):
    emitted = load_emulated(emit(archive, "python", *CUDA, "--set", "cuda.tf32=all"))
    torch.manual_seed(0)
    module = torch.export.load(archive).module()
    for got, want in zip(emitted.call(list(ARGS)), module(*ARGS)):
        assert not difference(got, want)


# Each in a process of its own, since torch refuses to answer some questions once old and new names were mixed.
SWITCHES = {
    "": "convolutions",
    "cudnn.allow_tf32 = False": "none",
    "cuda.matmul.allow_tf32 = True": "all",
    "cuda.matmul.allow_tf32 = True; b.cudnn.allow_tf32 = False": "products",
    "cuda.matmul.fp32_precision = 'tf32'; b.cudnn.conv.fp32_precision = 'ieee'": "products",
    "cuda.matmul.fp32_precision = 'ieee'; b.cudnn.conv.fp32_precision = 'tf32'": "convolutions",
    "fp32_precision = 'tf32'": "all",
    "cuda.matmul.fp32_precision = 'ieee'; b.cudnn.fp32_precision = 'tf32'; b.cudnn.conv.fp32_precision = 'none'": (
        "convolutions"
    ),
    "cuda; torch.set_float32_matmul_precision('high')": "all",
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_torchs_switches_are_followed(switch):
    pytest.importorskip("coil", reason="the Python extension is not built")
    if "fp32_precision" in switch and not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this torch has the old names alone")
    text = (
        f"import torch; b = torch.backends; {switch and 'b.' + switch}\nfrom coil.options import "
        f"parse\nprint(parse().settings['cuda.tf32'], parse({{'cuda.tf32': 'none'}}).settings['cuda.tf32'])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "build/python"), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.split() == [SWITCHES[switch], "none"], done.stderr


@pytest.mark.parametrize("products, convolutions, choice", [(False, True, "convolutions"), (True, False, "products")])
def test_torch_before_2_9(products, convolutions, choice):
    """Where only the old names are."""
    pytest.importorskip("coil", reason="the Python extension is not built")
    from coil.options import _tf32

    names = types.SimpleNamespace
    assert (
        _tf32(
            names(backends=names(cuda=names(matmul=names(allow_tf32=products)), cudnn=names(allow_tf32=convolutions)))
        )
        == choice
    )


def test_a_graph_is_compiled_for_torchs_switches(monkeypatch, tmp_path):
    """What a compile gets, and with it the name of its entry in the cache."""
    pytest.importorskip("coil", reason="the Python extension is not built")
    import coil.dynamo

    seen = []
    parse = coil.dynamo.parse
    monkeypatch.setattr(coil.dynamo, "parse", lambda *given: seen.append(parse(*given)) or seen[-1])
    for allowed in (True, False):
        torch._dynamo.reset()
        # Not the switch itself: once torch's own testing modules are imported, only this may turn it.
        with torch.backends.cudnn.flags(allow_tf32=allowed):
            torch.compile(torch.relu, backend="coil", options={"cache": str(tmp_path)})(torch.randn(5))
    assert [o.settings["cuda.tf32"] for o in seen] == ["convolutions", "none"]
    assert seen[0].key() != seen[1].key()
