"""Matrix products in 16 bits by kernels of Coil's own (`cuda.products=own`) with what follows them, on the CPU a thread
after the other, against eager.
"""

import pytest
import torch
from torch.nn import functional as F

from batch import Case, outcomes_by_group
from coil_harness import check, coil, coil_ok
from test_cuda_values import BF16, EMULATE, seeded

HALF = torch.float16
OWN = (*EMULATE, "--set", "cuda.products=own")


def matrix(*sizes, dtype=BF16):
    """Products of two of them are of about one."""
    return (seeded(*sizes) / sizes[-1] ** 0.25).to(dtype)


def product(name, a, b, function=torch.matmul, dtype=BF16, more=()):
    return Case("products", name, function, (matrix(*a, dtype=dtype), matrix(*b, dtype=dtype), *more), tolerance=2e-2)


def behind(name, after, *more):
    """A linear layer of 72 to 136, and what follows."""
    return Case(
        "behind",
        name,
        lambda x, w, b, *rest: after(F.linear(x, w, b), *rest),
        (matrix(70, 72), matrix(136, 72), matrix(136), *more),
        tolerance=2e-2,
    )


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "clamp": lambda x: x.clamp(-0.5, 0.25),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "elu": lambda x: F.elu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "scale": lambda x: x * 3 - 1,
}
CASES = [
    product("rows", (70, 72), (72, 136)),
    product("columns", (130, 40), (264, 40), F.linear),
    product("half", (33, 64), (64, 24), dtype=HALF),
    product("one_row", (1, 128), (128, 256)),
    product("many_pieces", (64, 520), (520, 16)),
    product("batch", (3, 40, 24), (3, 24, 48), torch.bmm),
    product("two_batches", (2, 3, 20, 16), (2, 3, 16, 8)),
    product("heads", (2, 3, 20, 16), (2, 3, 20, 16), lambda a, b: a @ b.transpose(-2, -1)),
    product("turned_heads", (2, 20, 3, 16), (2, 20, 3, 16), lambda a, b: a.transpose(1, 2) @ b.permute(0, 2, 3, 1)),
    product("one_matrix_for_all", (4, 9, 32), (32, 16)),
    product("rows_apart", (40, 128), (64, 24), lambda a, b: a[:, 32:96] @ b),
    product("nothing_to_sum", (5, 0), (0, 8)),
    product("no_rows", (0, 16), (16, 8)),
    *(behind(name, f) for name, f in ACTIVATIONS.items()),
    behind("residual", torch.add, matrix(70, 136)),
    behind("gate", lambda y, g: F.silu(y) * g, matrix(70, 136)),
    behind("row_of_factors", lambda y, g: y * g, matrix(136)),
    behind("factor_of_a_row", lambda y, g: y * g, matrix(70, 1)),
    behind("turned_residual", lambda y, r: y + r.t(), matrix(136, 70)),
    behind("several", lambda y, r, g: F.gelu(y + r) * g + r, matrix(70, 136), matrix(136)),
    behind("wide_result", lambda y: F.relu(y).float()),
]


@pytest.fixture(scope="module")
def found():
    return outcomes_by_group(CASES, *OWN)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_values(name, found):
    assert not found[name]


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 128).bfloat16()
        self.down = torch.nn.Linear(128, 64).bfloat16()

    def forward(self, x):
        return x + self.down(F.silu(self.up(x)))


def explained(tmp_path, *settings):
    path = tmp_path / "mlp.pt2"
    torch.export.save(torch.export.export(Mlp(), (matrix(2, 40, 64),)), path)
    return coil_ok("explain", path, *EMULATE, *settings).stdout


def test_all_is_two_kernels(tmp_path):
    """Bias, activation and residual are in them."""
    told = explained(tmp_path, "--set", "cuda.products=own")
    assert "2 kernels, 0 library calls" in told
    assert told.count("KiB  coil_product_") == 2


@pytest.mark.parametrize("choice", ["library", "auto"])
def test_the_library_is_the_usual_choice(choice, tmp_path):
    assert "coil_product_" not in explained(tmp_path, "--set", f"cuda.products={choice}")


def test_another_word_is_refused(tmp_path):
    path = tmp_path / "mlp.pt2"
    torch.export.save(torch.export.export(Mlp(), (matrix(2, 40, 64),)), path)
    result = coil("compile", path, "-o", tmp_path / "m.coil", *EMULATE, "--set", "cuda.products=mine")
    assert result.returncode == 1
    assert "cuda.products takes library, own or auto, not 'mine'" in result.stderr


def test_free_sizes():
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=256)}
    others = [(matrix(n, m, 64),) for n, m in ((3, 5), (2, 130))]
    settings = ("cuda.emulate=true", "cuda.products=own")
    check(Mlp(), (matrix(2, 40, 64),), dynamic=(sizes,), others=others, tolerance=2e-2, settings=settings)
