"""coil bisect: the operator whose result first differs, the settings that mend it, and what is left of the program."""

import sys

import pytest
import torch

from coil_harness import ENVIRONMENT, ROOT, coil, export, run

sys.path.insert(0, str(ROOT / "build/python"))
module = pytest.importorskip("coil.bisect", reason="the Python extension is not built")

WITH_COIL = ENVIRONMENT | {"PYTHONPATH": str(ROOT / "build/python")}


class Net(torch.nn.Module):
    """Coil loses a NaN behind a product on request (`keep_nan=false`), which is the fault to be found."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x):
        h = torch.relu(self.second(torch.nn.functional.softplus(self.first(x)) + 1))
        return self.norm(h), torch.softmax(h, -1)


def bisect(*arguments):
    done = coil("bisect", "--python", sys.executable, *arguments, env=WITH_COIL, timeout=300)
    return done.returncode, done.stdout + done.stderr


def with_a_nan():
    x = torch.randn(4, 8)
    x[1, 3] = torch.nan
    return (x,)


def test_finds_operator_setting_and_program(tmp_path):
    archive, out = tmp_path / "net.pt2", tmp_path / "found"
    export(Net().eval(), with_a_nan(), archive)
    code, told = bisect(archive, "--set", "keep_nan=false", "--out", out)
    assert code == 3, told
    assert "first wrong: relu (aten.relu.default): NaN or infinities" in told
    assert "fuse_epilogues=false" in told.split("right with any of: ")[1].splitlines()[0]
    assert "shown by 2 operators" in told  # the product and what is fused behind it
    assert "test_bisect.py" in told
    assert (out / "explain.txt").read_text().startswith("main: ")
    again, told = bisect(out / "shown.pt2", "--set", "keep_nan=false", "--out", tmp_path / "again")
    assert again == 3 and "first wrong: relu" in told


class Several(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return y.sum(-1), y + 1, (y * 3).exp(), y.relu()


def test_a_result_that_is_wrong_beside_another_alone(tmp_path, monkeypatch):
    """A compiler that takes a tenth off a sum wherever it is compiled together with an exponential."""
    by_coil = module.Program.compiled

    def faulty(self, gm, inputs, *rest, whole=False, **named):
        made, report = by_coil(self, gm, inputs, *rest, whole=True, **named)
        results = [str(n.target) for n in gm.graph.output_node().args[0]]
        if any("exp" in r for r in results):
            made = [m * 0.9 if "sum" in r else m for m, r in zip(made, results)]
        return (made if whole else made[0]), report

    monkeypatch.setattr(module.Program, "compiled", faulty)
    exported = torch.export.export(Several(), (torch.randn(3, 5),))
    told = []
    assert module.bisect(exported, out=tmp_path, tell=told.append) == "aten.sum.dim_IntList"
    assert "  each is right by itself" in told
    assert any(line.startswith("first wrong: sum_1") and line.endswith("; beside exp") for line in told), told
    shown = torch.export.load(tmp_path / "shown.pt2")
    assert len(shown.graph.output_node().args[0]) == 2


def test_right_program(tmp_path):
    archive = tmp_path / "net.pt2"
    export(Net().eval(), with_a_nan(), archive)
    code, told = bisect(archive, "--out", tmp_path / "found")
    assert code == 0 and "every result is as in eager" in told
    assert not (tmp_path / "found").exists()


class Named(torch.nn.Module):
    def forward(self, state):
        return state["h"] * 2 + state["c"]


def test_inputs_are_those_of_coil_run(tmp_path):
    archive, given = tmp_path / "named.pt2", {"state.h": torch.randn(3), "state.c": torch.randn(3)}
    export(Named(), ({"h": torch.ones(3), "c": torch.ones(3)},), archive)
    run(archive, given, tmp_path)
    code, told = bisect(archive, "--inputs", tmp_path / "in.safetensors", "--out", tmp_path / "found")
    assert code == 0 and "every result is as in eager" in told, told


def test_bad_input(tmp_path):
    code, told = bisect(tmp_path / "none.pt2")
    assert code == 1 and "coil: error:" in told and "Traceback" not in told
    done = coil("bisect", "--python", tmp_path / "no-python", "x.pt2", env=ENVIRONMENT)
    assert done.returncode == 1 and "needs Python with the packages torch and coil" in done.stderr
    export(Named(), ({"h": torch.ones(3), "c": torch.ones(3)},), tmp_path / "named.pt2")
    (tmp_path / "cut.pt2").write_bytes((tmp_path / "named.pt2").read_bytes()[:3000])
    export(torch.nn.Dropout().train(), (torch.ones(3),), tmp_path / "drawn.pt2")
    wrong = [
        (["cut.pt2"], "cannot be read as an exported program"),
        (["named.pt2", "--set", "fuse"], "a setting is KEY=VALUE"),
        (["named.pt2", "--set", "nope=1"], "nope"),
        (["drawn.pt2"], "draws random numbers"),
    ]
    for (name, *options), message in wrong:
        code, told = bisect(tmp_path / name, *options, "--out", tmp_path / "found")
        assert code == 1 and message in told and "Traceback" not in told, told


class Parts(torch.nn.Module):
    """Views that begin behind the first element, an operator of several results, and floats of 8 bits."""

    def forward(self, x):
        values, places = torch.sort(x[:, 1:4])
        return values * 2, places, x[1].to(torch.float8_e5m2).float(), x.unbind(1)[2].exp()


def test_what_archives_do_not_say(tmp_path):
    archive = tmp_path / "parts.pt2"
    export(Parts(), (torch.randn(4, 5),), archive)
    code, told = bisect(archive, "--out", tmp_path / "found")
    assert code == 0 and "every result is as in eager" in told, told
