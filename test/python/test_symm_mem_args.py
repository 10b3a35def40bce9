"""Arguments of operators in memory that ranks share: what `register_symm_mem_args` takes and refuses in Python and C,
and what compiled programs then do.
"""

import os
import subprocess
import sys

import pytest
import torch

import coil_harness
from coil_harness import ROOT, RUNTIME

sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

SCRIPT = ROOT / "test/python/symm_mem_programs.py"
lib = coil.Library("symmtest")
OPERATORS = {
    "push": "push(Tensor x, Tensor? y, Tensor[] more, float by=1.0, *, str group_name) -> Tensor",
    "fill": "fill(Tensor x, Tensor(a!) out, int[2] sizes) -> ()",
    "swap": "swap(Tensor(a!) x) -> Tensor(a!)",
    "mixed": "mixed(Tensor(a!) x, Tensor y) -> (Tensor, Tensor(a!))",
    "push.out": "push.out(Tensor x, Tensor(a!) out) -> ()",
    "again": "again(Tensor x, Tensor y) -> Tensor",
    "whole": "whole(Tensor x) -> Tensor",
    "none": "none(Tensor x) -> Tensor",
}


@pytest.fixture(scope="module", autouse=True)
def world(tmp_path_factory):
    """One process alone: what it compiles here it could run as well."""
    os.environ |= {
        "COIL_GROUP_STORE": f"file:{tmp_path_factory.mktemp('store')}",
        "COIL_GROUPS": "tp=0",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    yield
    for name in ("COIL_GROUP_STORE", "COIL_GROUPS", "RANK", "WORLD_SIZE"):
        del os.environ[name]


@pytest.fixture(scope="module", autouse=True)
def defined():
    for name, schema in OPERATORS.items():
        if name == "swap" or name == "mixed":
            continue
        lib.define(schema, shape=lambda x, *a, **k: torch.empty_like(x), implementation=lambda x, *a, **k: x.clone())


# ---- The registry ----


def test_names_are_kept_in_order():
    lib.register_symm_mem_args("push", ["more", "x"])
    assert lib.symm_mem_args("push") == ["more", "x"]
    assert lib.symm_mem_args(torch.ops.symmtest.push.default) == ["more", "x"]


def test_nothing_is_registered_at_first():
    assert lib.symm_mem_args("none") == []


def test_overloads_have_their_own():
    lib.register_symm_mem_args("push.out", ["out"])
    assert lib.symm_mem_args("push.out") == ["out"]


def test_the_same_names_again_are_well():
    lib.register_symm_mem_args("again", ["x", "y"])
    lib.register_symm_mem_args("again", ["y", "x"])
    assert lib.symm_mem_args("again") == ["x", "y"]


def test_other_names_are_refused():
    lib.register_symm_mem_args("again", ["x", "y"])
    with pytest.raises(coil.Error, match="again.default has the arguments x, y in shared memory already, .* have x"):
        lib.register_symm_mem_args("again", ["x"])
    assert lib.symm_mem_args("again") == ["x", "y"]


@pytest.mark.parametrize(
    "names, message",
    [
        (["z"], "has no argument 'z'; it has x, y, more, by, group_name"),
        (["x", ""], "has no argument ''"),
        (["x", "x"], "the argument 'x' is named twice"),
        (["by"], "the argument 'by' is float, and only tensors lie in shared memory"),
        (["group_name"], "the argument 'group_name' is str"),
        ([], "no argument was named"),
    ],
)
def test_names_that_the_schema_does_not_bear(names, message):
    with pytest.raises(coil.Error) as refused:
        lib.register_symm_mem_args("push", names)
    assert message in str(refused.value)


def test_lists_and_optional_tensors_are_tensors():
    lib.define(
        "lists(Tensor? a, Tensor[] b, Tensor?[] c) -> Tensor",
        shape=lambda a, b, c: torch.empty_like(b[0]),
        implementation=lambda a, b, c: b[0].clone(),
    )
    lib.register_symm_mem_args("lists", ["a", "b", "c"])
    assert lib.symm_mem_args("lists") == ["a", "b", "c"]


def test_lists_of_numbers_are_not():
    with pytest.raises(coil.Error, match=r"the argument 'sizes' is int\[2\]"):
        lib.register_symm_mem_args("fill", ["sizes"])


@pytest.mark.parametrize("schema", [OPERATORS["swap"], OPERATORS["mixed"]])
def test_an_alias_of_what_is_written_is_refused(schema):
    with pytest.raises(coil.Error) as refused:
        coil._native.register_symm_mem_args("symmtest::" + schema, ["x"])
    assert "returns an argument that it writes to" in str(refused.value)
    assert "define it with `-> ()`" in str(refused.value)


@pytest.mark.parametrize("name", ["nobody", "push.nobody"])
def test_operators_that_are_not_defined(name):
    with pytest.raises(coil.Error, match=f"there is no operator {name} in the library symmtest; define it first"):
        lib.register_symm_mem_args(name, ["x"])


def test_operators_of_others_are_refused():
    with pytest.raises(coil.Error, match="there is no operator aten.relu.default in the library symmtest"):
        lib.register_symm_mem_args(torch.ops.aten.relu.default, ["x"])


C_PROGRAM = """
#include <coil/runtime.h>
#include <stdio.h>
static void name(const char* schema, const char* first, const char* second) {
  const char* names[] = {first, second};
  const int failed = coil_operator_symm_mem_args(schema, names, second ? 2 : 1);
  printf("%s\\n", failed ? coil_last_error() : "well");
}
int main(void) {
  const char* push = "shop::push(Tensor x, Tensor[] more, float by=1.0) -> Tensor";
  name(push, "x", "more");
  name(push, "more", "x");
  name(push, "x", 0);
  name(push, "z", 0);
  name(push, "by", 0);
  name(push, "x", "x");
  name("shop::swap(Tensor(a!) x) -> Tensor(a!)", "x", 0);
  name("no schema", "x", 0);
  int32_t rank = 0, size = 0;
  printf("%s\\n", coil_comm_ranks(&rank, &rank, &size) ? coil_last_error() : "well");
  printf("%s\\n", coil_comm_peer(&rank, 0) ? "well" : coil_last_error());
  return 0;
}
"""


def test_in_c(tmp_path):
    (tmp_path / "names.c").write_text(C_PROGRAM)
    folder = RUNTIME.parent
    command = ["gcc", f"-I{ROOT}/include", tmp_path / "names.c", "-o", tmp_path / "names", f"-L{folder}"]
    subprocess.run([*map(str, command), "-lcoil_runtime", f"-Wl,-rpath,{folder}"], check=True)
    lines = subprocess.run([tmp_path / "names"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[:2] == ["well", "well"]
    for line, part in zip(
        lines[2:],
        [
            "shop.push.default has the arguments x, more in shared memory already",
            "has no argument 'z'; it has x, more, by",
            "the argument 'by' is float",
            "the argument 'x' is named twice",
            "returns an argument that it writes to",
            "schema",
            "lies in no memory that ranks of a process group share",
            "lies in no memory that ranks of a process group share",
        ],
        strict=True,
    ):
        assert part in line


# ---- Compiled programs ----


def lines_of(module, inputs, capfd, **options):
    """The wrapper's lines, and what was warned of."""
    capfd.readouterr()
    coil.compile(module, inputs, options={"log": "wrapper", "verify": True}, **options)
    text = capfd.readouterr().err
    warnings = [line for line in text.splitlines() if line.startswith("coil: warning: ")]
    return [line.removeprefix("[wrapper] ") for line in text.splitlines() if line.startswith("[wrapper] ")], warnings


class Whole(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return torch.ops.symmtest.whole(self.make(x)) + 1


@pytest.mark.parametrize(
    "make", [lambda x: x * 2, lambda x: (x * 2).t(), lambda x: x @ x.t(), lambda x: x, lambda x: x.sum(0)]
)
def test_arguments_become_communication_buffers(make, capfd):
    lib.register_symm_mem_args("whole", ["x"])
    lines, warnings = lines_of(Whole(make), (torch.randn(3, 5),), capfd)
    call = next(line for line in lines if " = symmtest.whole.default" in line)
    operand = call.split("%0 = ")[1].split(".as_strided")[0].split()[0]
    assert any(line.startswith(f"buffer {operand} ") and 'comm symmetric "default"' in line for line in lines), lines
    assert f"comm allocate {operand} at 0" in lines and f"comm free {operand}" in lines and not warnings


def test_operators_without_names_are_left_alone(capfd):
    class Plain(torch.nn.Module):
        def forward(self, x):
            return torch.ops.symmtest.none(x * 2) + 1

    lines, warnings = lines_of(Plain(), (torch.randn(3),), capfd)
    assert not any("comm " in line for line in lines) and not warnings


def test_sizes_without_a_bound_are_warned_of_once(capfd):
    lib.register_symm_mem_args("whole", ["x"])
    lines, warnings = lines_of(
        Whole(lambda x: x * 2), (torch.randn(3, 5),), capfd, dynamic_shapes=({0: torch.export.Dim("rows")},)
    )
    assert not any("comm allocate" in line for line in lines)
    assert len(warnings) == 1 and "symmtest.whole.default: its argument 'x'" in warnings[0], warnings
    assert "has no upper bound" in warnings[0]


def test_the_group_is_the_one_that_the_call_names(capfd):
    lib.register_symm_mem_args("push", ["more", "x"])

    class Push(torch.nn.Module):
        def forward(self, x, y):
            return torch.ops.symmtest.push(x + 1, y, [y * 2, x], 2.0, group_name="tp")

    lines, _ = lines_of(Push(), (torch.randn(3), torch.randn(3)), capfd)
    shared = [line for line in lines if line.startswith("buffer ") and " comm " in line]
    assert len(shared) == 3 and all('comm symmetric "tp"' in line for line in shared)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.full)])
@pytest.mark.parametrize("case", ["loops", "lists", "out", "sizes", "shares"])
def test_on_ranks(case, ranks, tmp_path):
    env = coil_harness.ENVIRONMENT | {
        "COIL_GROUP_STORE": f"file:{tmp_path / 'store'}",
        "COIL_GROUP_TIMEOUT": "60",
        "WORLD_SIZE": str(ranks),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, case],
            env=env | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for p in processes:
        output, errors = p.communicate(timeout=300)
        assert p.returncode == 0 and output == "done\n", errors[-3000:]
