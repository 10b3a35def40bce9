"""Matrix products in 16 bits by kernels of Coil's own (`cuda.products=own`) with what follows them and what is in
front, on the CPU a thread after the other, against eager.
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


def in_front(name, before, *more, dtype=BF16, w=(24, 64), tolerance=2e-2):
    """What makes the first operand of a product, [70, 64] unless it is said otherwise."""
    return Case(
        "in_front",
        f"front_{name}",
        lambda w, *rest: F.linear(before(*rest), w),
        (matrix(*w, dtype=dtype), *more),
        tolerance=tolerance,
    )


def rms_norm(x, weight):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def norm_of_two(w, x, weight, other):
    """Both products read one value."""
    y = rms_norm(x, weight)
    return F.silu(F.linear(y, w)) * F.linear(y, other)


X, GATE, ROW = matrix(70, 64), matrix(70, 64), matrix(64)
IN_FRONT = [
    in_front("cast", lambda x: x.to(BF16), seeded(70, 64)),
    in_front("cast_half", lambda x: x.half(), seeded(33, 64), dtype=HALF),
    in_front("gate", lambda x, g: F.silu(x) * g, X, GATE),
    in_front("bias_gelu", lambda x, b: F.gelu(x + b, approximate="tanh"), X, ROW),
    in_front("halves", lambda x: F.silu(x[:, :64]) * x[:, 64:], matrix(70, 128)),
    in_front("rms_norm", rms_norm, X, ROW),
    in_front("rms_norm_half", rms_norm, X.half(), ROW.half(), dtype=HALF),
    in_front("layer_norm", lambda x, a, b: F.layer_norm(x, (64,), a, b), matrix(3, 9, 64), ROW, matrix(64)),
    in_front("int8", lambda x, s: (x.float() * s).to(BF16), torch.randint(-9, 9, (70, 64), dtype=torch.int8), X[:, :1]),
    in_front("by_column", lambda x, c: x * c, X, seeded(64).to(BF16)),
    in_front("turned", lambda x: torch.relu(x).t().contiguous(), matrix(64, 70)),
    in_front("every_other", lambda x: -x[:, ::2], matrix(70, 128)),
    in_front("where", lambda x, g: torch.where(g > 0, x, -0.5), X, GATE),
    in_front("bool", lambda x, m: x * m, X, GATE > 0),
    in_front("batch", lambda x: torch.exp(x), matrix(2, 3, 20, 64)),
    in_front("nan", lambda x: x * float("inf"), torch.zeros(3, 64, dtype=BF16)),
    in_front("no_rows", lambda x: x * 2, matrix(0, 64)),
    Case("in_front", "front_two_products", norm_of_two, (matrix(24, 64), X, ROW, matrix(24, 64)), tolerance=2e-2),
    Case("in_front", "front_bmm", lambda a, b: (a * 2) @ b, (matrix(3, 40, 24), matrix(3, 24, 48)), tolerance=2e-2),
    Case(
        "in_front",
        "front_both_sides",
        lambda x, w, r: F.relu(F.linear(F.silu(x), w)) + r,
        (X, matrix(24, 64), matrix(70, 24)),
        tolerance=2e-2,
    ),
]
IN_PARTS = [
    Case("in_parts", f"parts_{name}", function, tensors, tolerance=2e-2)
    for name, function, tensors in [
        ("plain", torch.matmul, (matrix(64, 768), matrix(768, 24))),
        ("half", torch.matmul, (matrix(3, 1024, dtype=HALF), matrix(1024, 8, dtype=HALF))),
        ("bias", F.linear, (matrix(70, 768), matrix(24, 768), matrix(24))),
        ("batch", torch.bmm, (matrix(2, 20, 512), matrix(2, 512, 16))),
        ("several_rows_of_one", torch.matmul, (matrix(2, 9, 512), matrix(512, 16))),
        ("followed", lambda x, w, r: F.gelu(F.linear(x, w)) + r, (matrix(9, 512), matrix(16, 512), matrix(9, 16))),
        ("made", lambda x, w: F.linear(F.silu(x), w), (matrix(9, 512), matrix(16, 512))),
        ("made_of_f32", lambda x, w, r: F.linear((x * r).to(BF16), w), (seeded(9, 512), matrix(16, 512), seeded(9, 1))),
    ]
]
FEW = [
    Case("few", f"few_{name}", function, tensors, tolerance=2e-2)
    for name, function, tensors in [
        ("one", F.linear, (matrix(1, 72), matrix(136, 72))),
        ("one_long_sum", F.linear, (matrix(1, 3000), matrix(24, 3000), matrix(24))),
        ("short_sum", F.linear, (matrix(8, 8), matrix(200, 8))),
        ("clusters", F.linear, (matrix(5, 2048), matrix(16, 2048))),
        ("half", F.linear, (matrix(8, 520, dtype=HALF), matrix(40, 520, dtype=HALF))),
        ("two_units", F.linear, (matrix(13, 264), matrix(72, 264))),
        ("four_units", F.linear, (matrix(27, 264), matrix(72, 264))),
        ("of_two_dimensions", F.linear, (matrix(2, 3, 64), matrix(40, 64), matrix(40))),
        ("one_of_each", F.linear, (matrix(4, 1, 64), matrix(40, 64))),
        ("last_of_each", lambda x, w: F.linear(x[:, -1], w), (matrix(4, 9, 64), matrix(40, 64))),
        ("matrices", lambda a, b: a @ b.transpose(1, 2), (matrix(3, 4, 64), matrix(3, 40, 64))),
        ("heads", lambda a, b: a @ b.transpose(2, 3), (matrix(2, 3, 1, 64), matrix(2, 3, 104, 64))),
        ("gate", lambda x, w, v: F.silu(F.linear(x, w)) * F.linear(x, v), (X[:2], matrix(40, 64), matrix(40, 64))),
        ("residual", lambda x, w, r: r + F.gelu(F.linear(x, w)), (X[:9], matrix(24, 64), matrix(9, 24))),
        ("wide", lambda x, w: F.linear(x, w).float(), (X[:3], matrix(24, 64))),
        ("made", lambda x, w: F.linear(F.silu(x), w), (X[:7], matrix(24, 64))),
        ("norm", lambda x, a, w: F.linear(rms_norm(x, a), w), (X[:1], ROW, matrix(24, 64))),
        ("nothing_to_sum", F.linear, (matrix(2, 0), matrix(8, 0))),
        ("dense_rows", torch.matmul, (matrix(1, 72), matrix(72, 136))),
        ("dense_rows_clusters", torch.matmul, (matrix(5, 3000), matrix(3000, 24))),
        ("dense_rows_short_sum", torch.matmul, (matrix(8, 8), matrix(8, 200))),
        ("dense_rows_half", torch.matmul, (matrix(13, 520, dtype=HALF), matrix(520, 72, dtype=HALF))),
        ("dense_rows_two", lambda x, w: F.gelu(x @ w), (matrix(2, 8, 264), matrix(264, 8))),
        ("dense_rows_bias", torch.addmm, (matrix(72), matrix(16, 264), matrix(264, 72))),
        ("weights_by_values", torch.matmul, (matrix(2, 3, 1, 256), matrix(2, 3, 256, 64))),
        ("dense_rows_made", lambda x, w: F.silu(x) @ w, (X[:7], matrix(64, 24))),
        ("nan", F.linear, (matrix(2, 64) * float("nan"), matrix(24, 64))),
    ]
]
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
    *IN_FRONT,
    *IN_PARTS,
    *FEW,
]


@pytest.fixture(scope="module")
def found():
    return outcomes_by_group(CASES, *OWN)


assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_values(name, found):
    assert not found[name]


@pytest.fixture(scope="module")
def found_of_few():
    return outcomes_by_group(FEW, *EMULATE)


@pytest.mark.parametrize("name", [c.name for c in FEW])
def test_few_rows_by_themselves(name, found_of_few):
    assert not found_of_few[name]


def report(tmp_path, function, *inputs, settings=("--set", "cuda.products=own")):
    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return function(*tensors)

    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Module(), inputs), path)
    return coil_ok("explain", path, *EMULATE, *settings).stdout


@pytest.mark.parametrize("name", ["cast", "halves", "bias_gelu", "int8", "turned", "where", "bmm", "both_sides"])
def test_one_kernel_makes_its_operand(name, tmp_path):
    case = next(c for c in IN_FRONT if c.name == f"front_{name}")
    assert "1 kernels, 0 library calls" in report(tmp_path, case.function, *case.args)


def test_a_norm_is_its_sum_alone(tmp_path):
    """A kernel of squares' sums and two products, which scale by row and by column themselves."""
    case = next(c for c in IN_FRONT if c.name == "front_two_products")
    assert "3 kernels, 0 library calls" in report(tmp_path, case.function, *case.args)


def test_parts_are_added_up_by_one_more_kernel(tmp_path):
    told = report(
        tmp_path, lambda x, w, r: F.gelu(F.linear(x, w)) + r, matrix(20, 512), matrix(16, 512), matrix(20, 16)
    )
    assert "2 kernels, 0 library calls" in told


def test_what_stays_in_front_is_told(tmp_path):
    def shared(x, w):
        y = F.silu(x)
        return y @ w, y.sum(-1)

    told = report(tmp_path, shared, X, matrix(64, 24))
    assert "another operation reads its value (1 times)" in told


def test_nothing_is_made_on_the_way_where_nothing_is_to_be_fused(tmp_path):
    settings = ("--set", "cuda.products=own", "--set", "fuse_epilogues=false")
    told = report(tmp_path, lambda x, w: F.silu(x) @ w, X, matrix(64, 24), settings=settings)
    assert "2 kernels, 0 library calls" in told


class Linear(torch.nn.Module):
    def forward(self, x, w):
        return F.linear(x, w)


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


def test_few_rows_are_taken_with_what_follows(tmp_path):
    """Gate, factor and residual; of more rows where all of the matrix is small."""

    def mlp(x, gate, up, down):
        return x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    weights = matrix(128, 64), matrix(128, 64), matrix(64, 128)
    for rows in (1, 8, 16):
        assert "3 kernels, 0 library calls" in report(tmp_path, mlp, X[:rows], *weights, settings=())
    assert "coil_product_" not in report(tmp_path, mlp, X[:17], *weights, settings=())
    assert "coil_product_" not in report(tmp_path, mlp, X[:1], *weights, settings=("--set", "cuda.products=library"))
    large = matrix(8192, 64).expand(64, -1, -1).reshape(8192, 4096), matrix(64, 64)
    assert "coil_product_" not in report(tmp_path, lambda x, w, _: F.linear(x, w), matrix(9, 4096), *large, settings=())


@pytest.mark.parametrize("most", [8, 64])
def test_few_rows_of_free_sizes(most, tmp_path):
    """Where a size may be larger than a kernel of few rows is for, the library is asked."""
    given = (matrix(2, 64), matrix(40, 64))
    sizes = ({0: torch.export.Dim("batch", min=1, max=most)}, None)
    module = Linear()
    others = [(matrix(n, 64), given[1]) for n in (1, 5, most)]
    check(module, given, dynamic=sizes, others=others, tolerance=2e-2, settings=("cuda.emulate=true",))
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(module, given, dynamic_shapes=sizes), path)
    assert ("coil_product_" in coil_ok("explain", path, *EMULATE).stdout) == (most == 8)


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


class Norm(torch.nn.Module):
    """A cast and a scale by row and column in front of a product of a long sum."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(matrix(512))
        self.down = torch.nn.Linear(512, 24).bfloat16()

    def forward(self, x):
        return self.down(rms_norm(x, self.weight))


def test_free_sizes_in_front_and_in_parts():
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=256)}
    others = [(matrix(n, m, 512),) for n, m in ((3, 5), (2, 70))]
    settings = ("cuda.emulate=true", "cuda.products=own")
    check(Norm(), (matrix(2, 40, 512),), dynamic=(sizes,), others=others, tolerance=2e-2, settings=settings)
