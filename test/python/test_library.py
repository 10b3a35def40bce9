"""Operators of one's own (`coil.Library`, coil_operator_register) in archives, torch.compile, packages and every form of output."""
import ctypes
import os
import pathlib
import subprocess
import sys

import pytest
import torch

from coil_harness import COIL, ENVIRONMENT, ROOT, coil as command, coil_ok, run
from emitted import BUILD, call_program, emit, load_module

sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")


@pytest.fixture(scope="module")
def library():
    """shop::soft_step (called), shop::twice (decomposed), shop::liar (says another shape than it gives)."""
    shop = coil.Library("shop")
    soft_step = shop.define("soft_step(Tensor x, float width=1.0) -> Tensor", shape=lambda x, width=1.0: torch.empty_like(x), implementation=lambda x, width=1.0: x / (x.abs() + width),
                            backward=lambda ctx, g: (g * ctx.saved_tensors[0] / (ctx.saved_tensors[1].abs() + ctx.saved_tensors[0]) ** 2, None),
                            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(torch.tensor(inputs[1]), inputs[0]))
    called = []
    twice = shop.define("twice(Tensor x) -> Tensor", shape=torch.empty_like, implementation=lambda x: called.append(1) or x * 2, decomposition=lambda x: x + x)
    split = shop.define("halves(Tensor x, int dim=0) -> (Tensor, Tensor)", shape=lambda x, dim=0: tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in x.chunk(2, dim)),
                        implementation=lambda x, dim=0: tuple(t.contiguous() for t in x.chunk(2, dim)))
    liar = shop.define("liar(Tensor x) -> Tensor", shape=torch.empty_like, implementation=lambda x: x[:1].clone())
    return dict(soft_step=soft_step, twice=twice, halves=split, liar=liar, called=called)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 8)

    def forward(self, x):
        y = torch.ops.shop.soft_step(self.linear(x).relu(), 0.5)
        a, b = torch.ops.shop.halves(y, 1)
        return torch.ops.shop.twice(a + b).sum(-1), b


ROWS = {"x": {0: torch.export.Dim("rows", min=2, max=64)}}


@pytest.fixture(scope="module")
def archive(library, tmp_path_factory):
    torch.manual_seed(0)
    net = Net().eval()
    path = tmp_path_factory.mktemp("library") / "m.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(net, (torch.randn(5, 6),), dynamic_shapes=ROWS), path)
    return net, path


def check(function, net):
    for rows in (5, 2, 31):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            torch.testing.assert_close(tuple(function(x)), net(x))


def test_torch_compile(library, archive):
    net, _ = archive
    torch._dynamo.reset()
    with torch.no_grad():
        check(torch.compile(net, backend="coil", fullgraph=True, dynamic=True, options={"fallback": False}), net)
    assert not library["called"] or len(library["called"]) <= 3  # eager's own calls alone
    torch._dynamo.reset()
    x, y = (torch.randn(4, 6).requires_grad_() for _ in range(2))
    y.data.copy_(x.data)
    one = OneOperator()  # the other operators have no backward
    torch.compile(one, backend="coil", fullgraph=True)(x).sum().backward()
    one(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_packages(library, archive, tmp_path):
    net, path = archive
    model = coil.compile(net, (torch.randn(5, 6),), dynamic_shapes=ROWS)
    check(model, net)
    model.save(tmp_path / "m.coil")
    check(coil.load(tmp_path / "m.coil"), net)
    # A host that lacks the operator refuses the package at load, by name and schema.
    done = subprocess.run([COIL, "run", tmp_path / "m.coil"], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1 and "leaves shop.halves.default (`shop::halves(Tensor x, SymInt dim=0) -> (Tensor, Tensor)`), shop.soft_step.default" in done.stderr, done.stderr
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'build/python')!r}); import coil; coil.load({str(tmp_path / 'm.coil')!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "shop.soft_step.default" in done.stderr and "no such operator" in done.stderr


class OneOperator(torch.nn.Module):
    def forward(self, x):
        return torch.ops.shop.soft_step(x * 2, 0.5) + 1


def test_command_with_a_library_in_c(library, tmp_path):
    """The same schema registered by a C library: compiled, run and written as C++ by the command."""
    built = tmp_path / "custom_operator.so"
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{ROOT}/include", ROOT / "examples/c/custom_operator.c", "-o", built], check=True)
    x = torch.randn(7, 3)
    torch.export.save(torch.export.export(OneOperator(), (x,), dynamic_shapes=ROWS), tmp_path / "m.pt2")
    assert "shop.soft_step.default" in command("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil").stderr
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--load", built)
    torch.testing.assert_close(run(tmp_path / "m.coil", {"x": x}, tmp_path, "--load", built)["output"], OneOperator()(x))

    source = emit(tmp_path / "m.pt2", "cpp", "--load", built)
    program = source.with_suffix("")
    subprocess.run(["gcc", "-std=c11", "-c", f"-I{ROOT}/include", ROOT / "examples/c/custom_operator.c", "-o", tmp_path / "operator.o"], check=True)
    subprocess.run(["g++", "-std=c++20", "-O1", "-DCOIL_MAIN", f"-I{ROOT}/include", source, tmp_path / "operator.o", "-o", program, f"-L{BUILD}/lib", "-lcoil_runtime", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    torch.testing.assert_close(call_program(program, {"x": x})["output"], OneOperator()(x))
    for language in ("python", "fx"):
        module = load_module(emit(tmp_path / "m.pt2", language, "--load", built))
        got = module.call([x])[0] if language == "python" else module.load()(x)[0]
        torch.testing.assert_close(got, OneOperator()(x))

    runtime = ctypes.CDLL(os.path.join(BUILD, "lib", "libcoil_runtime.so"))
    runtime.coil_model_load.restype = ctypes.c_void_p
    runtime.coil_last_error.restype = ctypes.c_char_p
    assert not runtime.coil_model_load(str(tmp_path / "m.coil").encode())
    assert b"shop.soft_step.default" in runtime.coil_last_error()


def test_what_is_refused(library):
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match=r"shop.liar.default gave f32\[1\] where f32\[4\] was expected"):
        torch.compile(lambda x: torch.ops.shop.liar(x) + 1, backend="coil")(torch.randn(4))
    with pytest.raises(coil.Error, match="position"):
        coil.Library("shop").define("bad(Tensor x, -> Tensor", shape=None, implementation=None)
    with pytest.raises(coil.Error, match="torch's own"):
        coil.Library("aten")
