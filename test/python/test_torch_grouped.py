"""Runs of rows times a matrix for each run (`torch._grouped_mm`, the experts of a mixture) in bf16: the kernel of
Coil's own, on a GPU or as its text runs on the CPU, against the products of the runs in f32.
"""

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/python"))
pytest.importorskip("coil", reason="the Python extension is not built")
pytestmark = pytest.mark.usefixtures("fresh")

# By name: rows, elements of a row, columns, where runs end.
CASES = {
    "rests": (200, 64, 136, [0, 70, 70, 180]),
    "one_run": (33, 40, 8, [33]),
    "nothing_in_the_middle": (5, 8, 16, [1, 2, 2, 5]),
    "long_runs": (300, 96, 264, [10, 10, 300]),
    "more_runs_than_lanes": (40, 72, 128, list(range(1, 41))),
    "few_rows_of_long_sums": (20, 1032, 72, [0, 13, 13, 14, 16, 19]),
    "some_rows_of_each": (60, 520, 72, [1, 2, 30, 31, 31, 40, 41, 57]),
    "no_rows": (0, 16, 8, [0, 0]),
    "only_rows_of_none": (9, 16, 8, [0, 0]),
}


def product(x, w, ends):
    return torch._grouped_mm(x, w, ends)


def of_columns(x, w, ends):
    return torch._grouped_mm(x, w.transpose(1, 2), ends)


def by_runs(x, w, ends):
    out, begin = torch.zeros(x.shape[0], w.shape[2], device=x.device), 0
    for group, end in enumerate(ends.tolist()):
        out[begin:end] = x[begin:end].float() @ w[group].float()
        begin = end
    return out


def compiled(f, on_cpu):
    options = {"cuda.emulate": True} if on_cpu else None
    return torch.compile(f, backend="coil", options=options)


def operands(case, columns, device):
    rows, depth, width, ends = CASES[case]
    x = torch.randn(rows, depth, device="cpu").bfloat16()
    w = torch.randn(len(ends), *((width, depth) if columns else (depth, width)), device="cpu").bfloat16()
    return [t.to(device) for t in (x, w, torch.tensor(ends, dtype=torch.int32, device="cpu"))]


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("case", CASES)
def test_product_of_runs(case, columns, request, on_cpu):
    device = request.config.getoption("--device")
    x, w, ends = operands(case, columns, device)
    y = compiled(of_columns if columns else product, on_cpu)(x, w, ends).cpu()
    wanted = by_runs(*(t.cpu() for t in (x, w.transpose(1, 2) if columns else w, ends)))
    assert y.dtype == torch.bfloat16 and y.shape == wanted.shape
    # The sums are f32's, in another order, and then rounded once.
    torch.testing.assert_close(y.float(), wanted, rtol=torch.finfo(torch.bfloat16).eps, atol=1e-4)


@pytest.mark.parametrize("ends", [[30, 20, 40], [10, 20, 41], [-1, 20, 40]], ids=["descending", "too_far", "negative"])
def test_offsets_that_are_none(ends, request, on_cpu):
    device = request.config.getoption("--device")
    x = torch.randn(40, 16, device=device).bfloat16()
    w = torch.randn(3, 16, 8, device=device).bfloat16()
    run = compiled(product, on_cpu)
    with pytest.raises(RuntimeError, match="out of range"):
        run(x, w, torch.tensor(ends, dtype=torch.int32, device=device))
        torch.cuda.synchronize() if not on_cpu else None
        run(x, w, torch.tensor([10, 20, 40], dtype=torch.int32, device=device))
    right = torch.tensor([10, 20, 40], dtype=torch.int32, device=device)
    torch.testing.assert_close(
        run(x, w, right).float().cpu(), by_runs(*(t.cpu() for t in (x, w, right))), rtol=1e-2, atol=1e-4
    )
