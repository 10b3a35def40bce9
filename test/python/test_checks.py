"""Checks that a program makes of itself: each fails where its setting is on, and not where it is off, in every form of
output that can be called here.
"""

import pytest
import torch
from safetensors.torch import save_file

from coil_harness import coil, coil_ok, export
from emitted import emit, load_module


class Net(torch.nn.Module):
    def forward(self, x, h):
        y = 1 / x
        h.copy_(y[0] - y[0])
        return (y - y).t()[1:], y * 2


ROWS = torch.export.Dim("rows", min=2, max=8)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("checks") / "m.pt2"
    export(Net(), (torch.randn(3, 4), torch.randn(4)), path, ({0: ROWS}, None))
    return path


def calls(archive, *settings):
    """Each form as a function of two tensors that raises what the program says."""
    options = [word for s in settings for word in ("--set", s)]
    python, fx = load_module(emit(archive, "python", *options)).call, load_module(emit(archive, "fx", *options)).load()
    package = archive.with_name("-".join(["m", *(s.replace("=", "-") for s in settings)]) + ".coil")
    coil_ok("compile", archive, "-o", package, *options)

    def run_package(x, h):
        save_file({"x": x.contiguous(), "h": h}, archive.with_suffix(".in"))
        done = coil("run", package, "--inputs", archive.with_suffix(".in"), "--outputs", archive.with_suffix(".out"))
        if done.returncode:
            raise RuntimeError(done.stderr)

    return {"package": run_package, "python": lambda x, h: python([x, h]), "fx": fx}


def outcomes(functions, x, h=None):
    found = {}
    for form, function in functions.items():
        try:
            function(x, torch.zeros(4) if h is None else h)
            found[form] = ""
        except (RuntimeError, AssertionError) as error:
            found[form] = str(error)
    return found


def ones(rows=3):
    return torch.ones(rows, 4)


def zero_at(row, column):
    x = ones()
    x[row, column] = 0
    return x


@pytest.fixture(scope="module")
def plain(archive):
    return calls(archive)


@pytest.mark.parametrize(
    "setting, x, message",
    [
        ("assert_nan", zero_at(1, 2), "output '0' holds NaN"),  # y - y, seen through a view
        # The view leaves this column out.
        (
            "assert_nan",
            zero_at(0, 0),
            "input 'h', which the program writes to, holds NaN",
        ),
        ("assert_inf", zero_at(1, 2), "output '1' holds an infinity"),
    ],
)
def test_values(setting, x, message, archive, plain):
    assert set(outcomes(plain, x).values()) == {""}
    checked = calls(archive, f"{setting}=true")
    for form, error in outcomes(checked, x).items():
        assert message in error, form
    assert set(outcomes(checked, ones()).values()) == {""}


def test_strides(archive, plain):
    """(A package is run from a file, whose tensors are dense.)"""
    columns = torch.ones(4, 3).t()
    assert set(outcomes(plain, columns).values()) == {""}
    checked = calls(archive, "assert_strides=true")
    found = outcomes(checked, columns)
    assert (
        "the stride of x in dimension 0 must be 4" in found["python"]
        and "the stride of x in dimension 0 must be 4" in found["fx"]
    )
    assert set(outcomes(checked, ones()).values()) == {""}


def test_alignment(archive, plain):
    odd = torch.ones(3 * 4 + 1)[1:].view(3, 4)
    assert set(outcomes(plain, odd).values()) == {""}
    checked = calls(archive, "assert_alignment=true")
    found = outcomes(checked, odd)
    assert all("input 'x' lies at an address that is no multiple of 16" in found[form] for form in ("python", "fx"))
    # In a file that is mapped, tensors begin where its header ends.
    found = outcomes(checked, ones())
    assert found["python"] == found["fx"] == ""


def test_sizes(archive, plain):
    for form, error in outcomes(plain, ones(9)).items():
        assert "must be at most 8" in error, form
    assert set(outcomes(calls(archive, "assert_sizes=false"), ones(9)).values()) == {""}


FACTORED = {
    "inv": (torch.linalg.inv, "linalg.inv: the input matrix is singular"),
    "solve": (lambda a: torch.linalg.solve(a, a[:, 0]), "linalg.solve: the input matrix is singular"),
    "lu_factor": (torch.linalg.lu_factor, "lu_factor: the input matrix is singular"),
    "cholesky": (torch.linalg.cholesky, "linalg.cholesky: the input is not positive-definite"),
    "cholesky of NaN": (torch.linalg.cholesky, "linalg.cholesky: the input is not positive-definite"),
    "svd": (torch.linalg.svdvals, "linalg.svd: the algorithm did not converge"),
}


@pytest.mark.parametrize("decomposed", (False, True), ids=("exported", "decomposed"))
@pytest.mark.parametrize("name", FACTORED)
def test_matrix_without_factors(name, decomposed, tmp_path):
    """Where eager raises, the call fails; a package goes on with the next input."""
    function, message = FACTORED[name]

    class Factored(torch.nn.Module):
        def forward(self, a):
            made = function(a)
            return tuple(made) if isinstance(made, tuple) else made

    export(Factored(), (torch.eye(3),), tmp_path / "m.pt2", decomposed=decomposed)
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil")
    has_nan = name in ("svd", "cholesky of NaN")
    bad = torch.full((3, 3), float("nan")) if has_nan else torch.diag(torch.tensor([1.0, 2.0, 0.0]))
    for a, fails in ((bad, True), (torch.eye(3), False)):
        save_file({"a": a}, tmp_path / "in")
        done = coil("run", tmp_path / "m.coil", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
        assert (done.returncode == 1 and message in done.stderr) if fails else done.returncode == 0, done.stderr


# ---- Lifetimes ----


def program(name):
    from models import SMALL
    from test_control_flow import Suppress, TwoNetworks
    from test_emitters import Masked, boxes

    if name in SMALL:
        module, args, dynamic, others = SMALL[name]()
        return module, args, dynamic, [args, *others]
    if name == "masks":
        return Masked(), (torch.randn(6, 3),), None, [(torch.randn(6, 3).abs() * sign,) for sign in (1, -1)]
    return (
        (TwoNetworks().eval(), (torch.ones(3, 4),), None, [(torch.ones(3, 4),), (-torch.ones(3, 4),)])
        if name == "branch"
        else (Suppress(), boxes(), None, [boxes(), boxes()])
    )


@pytest.mark.parametrize(
    "name", ["nested", "bert_dynamic", "unet", "buffers", "mobilenetv2", "encoder", "masks", "branch", "loop"]
)
def test_sound_programs_pass_watched(name, tmp_path):
    """Static arenas, sizes bound at the call, memory taken while the program runs, in-place reuse, branches and loops:
    watched, each gives the same bits.
    """
    from coil_harness import named_inputs, run, same

    module, args, dynamic, calls_of = program(name)
    export(module, args, tmp_path / "m.pt2", dynamic)
    for package, options in (("plain", ()), ("watched", ("--set", "assert_lifetimes=true", "--set", "verify=true"))):
        coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / f"{package}.coil", *options)
    for each in calls_of:
        plain, watched = (
            run(tmp_path / f"{package}.coil", named_inputs(module, each), tmp_path) for package in ("plain", "watched")
        )
        assert plain.keys() == watched.keys() and all(same(plain[k], watched[k]) for k in plain)


class Chain(torch.nn.Module):
    def forward(self, x):
        y = x.sin()
        return (y.cos() + y).sum(0)


def test_watched_programs_as_cpp(tmp_path):
    """Faults put into the source by hand: unwatched they go unseen."""
    import subprocess

    from coil_harness import ENVIRONMENT
    from emitted import build_program, call_program

    inputs = {"x": torch.randn(3, 4)}
    export(Chain(), (inputs["x"],), tmp_path / "m.pt2")
    source = emit(tmp_path / "m.pt2", "cpp", "--set", "assert_lifetimes=true", "--set", "fuse=false")
    text = source.read_text()
    torch.testing.assert_close(call_program(build_program(source), inputs)["output"], Chain()(inputs["x"]))
    freed = text.splitlines()
    last = max(i for i, line in enumerate(freed) if line.strip().endswith(".free();"))
    name = freed[last].strip().removesuffix(".free();")
    uses = [i for i, line in enumerate(freed[:last]) if f"{name}.data" in line]
    early = freed[: uses[-1]] + [freed[last]] + freed[uses[-1] : last] + freed[last + 1 :]
    overrun = [line if i != last else f"  {name}.data.at[{name}.bytes] = 1;\n{line}" for i, line in enumerate(freed)]
    for broken, message in (
        (early, "lifetimes: a buffer is used that is not allocated"),
        (overrun, "lifetimes: something was written behind the end of a buffer"),
    ):
        (tmp_path / "broken.cpp").write_text("\n".join(broken))
        broken_program = build_program(tmp_path / "broken.cpp")
        save_file(inputs, tmp_path / "in")
        done = subprocess.run(
            [broken_program, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True, env=ENVIRONMENT
        )
        assert done.returncode == 1 and message in done.stderr, done.stderr
    plain = tmp_path / "plain.cpp"
    plain.write_text("\n".join(line for line in overrun if "define COIL_CHECK_LIFETIMES" not in line))
    call_program(build_program(plain), inputs)
