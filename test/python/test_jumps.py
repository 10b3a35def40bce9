"""Functions that jump, of values in 16 bits that are computed on the way: they see what eager has stored."""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
coil = pytest.importorskip("coil", reason="the Python extension is not built")

JUMPS = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "int": torch.Tensor.int,
    "bytes": lambda v: v.abs().to(torch.uint8),
    "bool": lambda v: (v * 1e-5).bool(),
    "sign": lambda v: (v * 1e-5).sign(),
    "argmax": lambda v: v.argmax(1),
    "max": lambda v: v.max(1)[1],
    "argmin": lambda v: v.argmin(0),
    "infinite": lambda v: torch.isinf(v),
    "remainder": lambda v: v % 0.7,
    "fmod": lambda v: torch.fmod(v, 0.7),
    "floor_divide": lambda v: v // 0.3,
    "trunc divide": lambda v: torch.div(v, 0.3, rounding_mode="trunc"),
}
STEPS = {
    "add": lambda x: x + 1,
    "tanh": torch.tanh,
    "scaled": lambda x: x * 7,
    "large": lambda x: x * 3e4,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", JUMPS)
def test_what_is_stored_is_seen(name, dtype):
    torch.manual_seed(0)
    x = torch.randn(64, 48).to(dtype)
    for step in STEPS.values() if name not in ("bool", "sign") else (lambda v: v,):
        torch._dynamo.reset()
        program = lambda x: JUMPS[name](step(x))
        got, want = torch.compile(program, backend="coil")(x), program(x)
        assert ((got == want) | ((got != got) & (want != want))).all()
