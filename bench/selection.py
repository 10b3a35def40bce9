"""Operators that sort, select, gather and scatter, on large inputs: eager, Inductor and Coil; milliseconds.

usage: selection.py [NAME,...] [--threads N]
"""

import argparse

import torch

from common import geometric_mean, table
from micro import least_times


def normal(*sizes):
    return lambda: (torch.randn(*sizes),)


def scattered(rows, width, targets):
    return torch.zeros(targets, width), torch.randint(0, targets, (rows,)), torch.randn(rows, width)


LINE, ROWS, COLUMNS = (1, 1_000_000), (512, 4096), (4096, 64)
ROWS_OF = {
    "sort_line": (lambda x: tuple(torch.sort(x)), normal(*LINE)),
    "sort_rows": (lambda x: tuple(torch.sort(x)), normal(*ROWS)),
    "sort_narrow_rows": (lambda x: tuple(torch.sort(x)), normal(*COLUMNS)),
    "sort_first_dim": (lambda x: tuple(torch.sort(x, dim=0)), normal(*COLUMNS)),
    "sort_stable_descending": (lambda x: tuple(torch.sort(x, dim=-1, descending=True, stable=True)), normal(*ROWS)),
    "sort_int64": (lambda x: tuple(torch.sort(x)), lambda: (torch.randint(0, 1000, ROWS),)),
    "argsort_line": (lambda x: torch.argsort(x), normal(*LINE)),
    "topk_line": (lambda x: tuple(torch.topk(x, 50)), normal(*LINE)),
    "topk_rows": (lambda x: tuple(torch.topk(x, 10)), normal(*ROWS)),
    "topk_half": (lambda x: tuple(torch.topk(x, 2048)), normal(*ROWS)),
    "kthvalue_rows": (lambda x: tuple(torch.kthvalue(x, 100)), normal(*ROWS)),
    "median_rows": (lambda x: tuple(torch.median(x, dim=-1)), normal(*ROWS)),
    "cummax_rows": (lambda x: tuple(torch.cummax(x, -1)), normal(*ROWS)),
    "cummax_first_dim": (lambda x: tuple(torch.cummax(x, 0)), normal(*ROWS)),
    "unique_line": (lambda x: torch.unique(x), lambda: (torch.randint(0, 50_000, (1_000_000,)),)),
    "unique_inverse": (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda: (torch.randint(0, 50_000, (1_000_000,)),),
    ),
    "nonzero": (lambda x: torch.nonzero(x > 0), normal(*ROWS)),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), normal(*ROWS)),
    "index_put_accumulate": (lambda t, i, s: t.index_put((i,), s, accumulate=True), lambda: scattered(32768, 64, 4096)),
    "index_put": (lambda t, i, s: t.index_put((i,), s), lambda: scattered(4096, 512, 8192)),
    "index_add": (lambda t, i, s: t.index_add(0, i, s), lambda: scattered(32768, 64, 4096)),
    "scatter_add": (
        lambda t, i, s: t.scatter_add(0, i, s),
        lambda: (torch.zeros(4096, 64), torch.randint(0, 4096, (32768, 64)), torch.randn(32768, 64)),
    ),
    "scatter_add_rows": (
        lambda t, i, s: t.scatter_add(1, i, s),
        lambda: (torch.zeros(512, 1024), torch.randint(0, 1024, ROWS), torch.randn(ROWS)),
    ),
    "scatter_rows": (
        lambda t, i, s: t.scatter(1, i, s),
        lambda: (torch.zeros(512, 4096), torch.randn(ROWS).argsort(-1), torch.randn(ROWS)),
    ),
    "gather_rows": (lambda x, i: x.gather(1, i), lambda: (torch.randn(ROWS), torch.randint(0, 4096, ROWS))),
    "index_select": (
        lambda x, i: x.index_select(0, i),
        lambda: (torch.randn(8192, 256), torch.randint(0, 8192, (8192,))),
    ),
    "take": (lambda x, i: x.take(i), lambda: (torch.randn(LINE), torch.randint(0, 1_000_000, LINE))),
    "searchsorted": (
        lambda s, v: torch.searchsorted(s, v),
        lambda: (torch.randn(100_000).sort().values, torch.randn(LINE)),
    ),
    "bucketize": (lambda b, v: torch.bucketize(v, b), lambda: (torch.randn(255).sort().values, torch.randn(LINE))),
    "histc": (lambda x: torch.histc(x, 100, -3.0, 3.0), normal(*LINE)),
    "bincount": (lambda x: torch.bincount(x, minlength=1000), lambda: (torch.randint(0, 1000, (1_000_000,)),)),
}


def run(names=None, threads=2):
    torch.set_num_threads(threads)
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    rows = []
    for name in names or ROWS_OF:
        torch.manual_seed(0)
        function, make = ROWS_OF[name]
        args = make()
        with torch.no_grad():
            best = least_times(function, args, threads, 2, 0.3)
        rows.append([name, *best.values(), min(best["eager"], best["inductor"]) / best["coil"]])
        print(name, {k: round(v, 3) for k, v in best.items()}, flush=True)
    heads = ["operator", "eager ms", "inductor ms", "**coil** ms", "best of the two / coil"]
    return (
        table(heads, rows)
        + f"\nGeometric mean of the better of the two over Coil: {geometric_mean([r[4] for r in rows]):.2f}\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    print(run(a.names and a.names.split(","), a.threads))
