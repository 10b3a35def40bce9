"""Products on a GPU whose result has a number of columns that is no whole vector, and more rows than its grown columns
should stand beside: made some rows at a time.
"""

import re

import pytest
import torch

from coil_harness import check, coil_ok

BF16 = torch.bfloat16
SIZES = {"three_dimensions": (5, 4001, 64), "one_row_of_rows": (1, 20003, 64), "matrix": (20003, 64)}
COLUMNS = 2051


class Head(torch.nn.Module):
    def __init__(self, tail=None):
        super().__init__()
        self.head = torch.nn.Linear(64, COLUMNS).to(BF16)
        self.tail = tail

    def forward(self, x):
        y = self.head(torch.relu(x) * 2)
        return self.tail(y) if self.tail else y


def given(name):
    return torch.randn(SIZES[name], generator=torch.Generator().manual_seed(7)).to(BF16)


def explained(tmp_path, module, x):
    """How many products there are, and the peak in MiB."""
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    text = coil_ok("explain", tmp_path / "m.pt2", "--set", "cuda.emulate=true").stdout
    peak = re.search(r"peak of temporaries and outputs: ([\d.]+) MiB", text)
    return text.count("library linear"), float(peak[1])


@pytest.mark.parametrize("name", SIZES)
def test_rows_at_a_time(name, tmp_path):
    torch.manual_seed(3)
    module, x = Head(), given(name)
    check(module, (x,), settings=("cuda.emulate=true",))
    calls, peak = explained(tmp_path, module, x)
    result = x.numel() // x.shape[-1] * COLUMNS * x.element_size() / 2**20
    assert calls > 1
    assert peak < 1.7 * result


def test_a_matrix_that_is_added(tmp_path):
    """The product is f32 then, and its grown columns are the weight's."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(given("matrix")[:COLUMNS].clone())

        def forward(self, x, r):
            return torch.addmm(r, x, self.weight.t())

    x = given("matrix")[:999]
    check(Module(), (x, torch.ones(999, COLUMNS, dtype=BF16)), settings=("cuda.emulate=true",))


def test_one_product_where_a_kernel_reads_the_result(tmp_path):
    module = Head(tail=lambda y: y.float().logsumexp(-1))
    calls, _ = explained(tmp_path, module, given("matrix"))
    assert calls == 1


def test_one_product_where_the_columns_are_whole_vectors(tmp_path):
    module = Head()
    module.head = torch.nn.Linear(64, 2048).to(BF16)
    calls, _ = explained(tmp_path, module, given("matrix"))
    assert calls == 1
