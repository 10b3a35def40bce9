"""Sizes that depend on data: places where a mask is true, repeats, distinct values, counts, numbers read out of
tensors; on a GPU by its own kernels (running totals and scattered stores).
"""

import torch

from cases.data import INTS, Family

selection = Family("selection")
MASKS = {
    "none": torch.zeros(37, dtype=torch.bool),
    "all": torch.ones(37, dtype=torch.bool),
    "some": selection.bools(1000),
    "long": selection.bools(9001),
    "exact": selection.bools(8192),
    "last": torch.arange(5000) == 4999,
    "matrix": selection.bools(13, 71),
    "cube": selection.bools(3, 0, 5),
    "deep": selection.bools(4, 3, 50, 20),
    "transposed": selection.bools(90, 70).t(),
}

for name, mask in MASKS.items():
    selection.add(
        f"nonzero_{name}", lambda m: (m.nonzero(), torch.argwhere(m) * 2, torch.nonzero(m, as_tuple=True)[0]), mask
    )
    selection.add(
        f"static_{name}",
        lambda m: (
            torch.nonzero_static(m, size=7),
            torch.nonzero_static(m, size=2000, fill_value=-5),
            torch.nonzero_static(m, size=0),
        ),
        mask,
    )
    selection.add(
        f"masked_select_{name}",
        lambda x, m: (torch.masked_select(x, m), x[m].sum(), (x[m] * 2).cumsum(0), x.masked_scatter(m, x * 3)),
        selection.normal(*mask.shape),
        mask,
    )
    selection.add(
        f"masked_scatter_{name}",
        lambda x, m: (
            x.masked_scatter(m, x[m] * 3),
            x.unsqueeze(-1).masked_scatter(m.unsqueeze(-1), torch.cat([x[m], x.flatten()[:1]])),
        ),
        selection.normal(*mask.shape),
        mask,
    )
selection.add(
    "nonzero_values",
    lambda x, y: (x.nonzero(), y.nonzero()),
    selection.integers(-1, 2, 500),
    selection.normal(40, 3).round(),
)
selection.add(
    "masked_select_broadcast",
    lambda x, m: (torch.masked_select(x, m), torch.masked_select(x[:, 1:2], m[:1])),
    selection.normal(9, 4, 6),
    selection.bools(4, 1),
)
selection.add(
    "masked_scatter_of_nothing",
    lambda x, m: (x.masked_scatter(m[:, None], x.new_zeros(0)), x.masked_scatter(m[:, None], x[m].sin())),
    selection.normal(6, 4),
    torch.zeros(6, 4, dtype=torch.bool)[:, 0],
)
selection.add(
    "where_as_tuple",
    lambda x, m: (torch.where(m), torch.where(x > 0)[1] * 2, torch.where(x.sum() > 1e9)),
    selection.normal(9, 40),
    selection.bools(31),
)
selection.add("checked", lambda x: (torch._check_tensor_all(x < 100), x * 2)[1], selection.normal(9, 4))
selection.add(
    "checked_size",
    lambda x, m: (torch._check_tensor_all(m.sum() == m.long().sum()), x[m] * 2)[1],
    selection.normal(9),
    selection.bools(9),
)
selection.add(
    "truths",
    lambda m: (
        torch.ops.aten._is_all_true(m),
        torch.ops.aten._is_any_true(m),
        torch.ops.aten._is_all_true(m | ~m),
        torch.ops.aten._is_any_true(m & ~m),
    ),
    selection.bools(40, 30),
)
selection.add(
    "mask_of_one_dimension",
    lambda x, m: (x[m], x[:, m[:5]].sum(0), x[m, 1]),
    selection.normal(60, 5),
    selection.bools(60),
)
selection.add(
    "mask_written",
    lambda x, m, n: (
        torch.where(m, 1.0, x)[m],
        x.clone().index_put_((m,), x[m] * 2 + 1),
        x.index_put((n,), torch.tensor(7.0)),
    ),
    selection.normal(60, 5),
    selection.bools(60, 5),
    selection.bools(60),
)

REPEATS = {
    "few": selection.integers(0, 4, 20),
    "zero": torch.zeros(11, dtype=torch.int64),
    "one": torch.tensor([9000]),
    "many": selection.integers(0, 3, 9000),
    "narrow": selection.integers(0, 4, 33, dtype=torch.int32),
    "empty": torch.zeros(0, dtype=torch.int64),
}
for name, repeats in REPEATS.items():
    selection.add(f"repeats_{name}", lambda r: (torch.repeat_interleave(r), torch.repeat_interleave(r).sum()), repeats)
    selection.add(
        f"repeat_interleave_{name}",
        lambda x, r: (torch.repeat_interleave(x, r, dim=0), x.t().repeat_interleave(r, dim=1) + 1),
        selection.normal(len(repeats), 3),
        repeats,
    )
selection.add(
    "repeat_scalar",
    lambda x, r: (x.repeat_interleave(r, dim=0), x.repeat_interleave(r)),
    selection.normal(5, 3),
    torch.tensor([3]),
)
selection.add(
    "repeat_output_size",
    lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=6),
    selection.normal(3, 2),
    torch.tensor([1, 3, 2]),
)


def distinct(x):
    return (
        *torch.unique(x, return_inverse=True, return_counts=True),
        torch.unique(x),
        *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    )


for name, dtype in {
    **INTS,
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "b8": torch.bool,
}.items():
    selection.add(
        f"unique_{name}",
        distinct,
        selection.any(dtype, 700) if not dtype.is_floating_point else selection.normal(700).mul(3).round().to(dtype),
    )
for name, sizes in {"long": (9001,), "empty": (0,), "one": (1,), "matrix": (30, 41), "scalar": ()}.items():
    selection.add(f"unique_{name}", distinct, selection.integers(-40, 40, *sizes))
selection.add(
    "unique_nan", distinct, torch.tensor([2.0, float("nan"), -0.0, 0.0, float("nan"), 2.0, float("inf"), -float("inf")])
)
selection.add(
    "unique_rows",
    lambda x: (
        *torch.unique(x, dim=0, return_inverse=True, return_counts=True),
        torch.unique(x, dim=1),
        *torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
        torch.unique_consecutive(x[:5], dim=-1).float().exp(),
        torch.unique_consecutive(x[:, 0], dim=0, return_counts=True),
        *torch.unique_consecutive(x[:6].view(2, 3, 4), dim=-2, return_counts=True),
    ),
    selection.integers(0, 2, 60, 4),
)
selection.add(
    "unique_rows_of_floats",
    lambda x: torch.unique(x, dim=0, return_inverse=True),
    selection.integers(-2, 2, 5000, 3).float(),
)
selection.add(
    "unique_used",
    lambda x: (torch.unique(x).float().cumsum(0), x[torch.unique(x % 20)]),
    selection.integers(0, 300, 400),
)

selection.add(
    "bincount",
    lambda x, w: (
        torch.bincount(x),
        torch.bincount(x, minlength=90),
        torch.bincount(x, weights=w),
        torch.bincount(x).cumsum(0),
    ),
    selection.integers(0, 70, 5000),
    selection.normal(5000),
)
selection.add("histc", lambda x: torch.histc(x, bins=13, min=-2, max=2), selection.normal(4000))


def numbers(x, at, real):
    n = at.item()
    torch._check(n >= 0)
    torch._check(n + 2 <= x.shape[0])
    return (
        x[:n] * 2,
        x[n:].sum(0),
        x.narrow(0, n, 2) + 1,
        x[n] - 1,
        torch.arange(n, device=x.device),
        torch.full((2, n), 4.0, device=x.device),
        n + 1,
        x * real.item(),
        real.item() / 3,
    )


for n in (0, 1, 37, 62):
    selection.add(f"numbers_{n}", numbers, selection.normal(64, 3), torch.tensor(n), torch.tensor(0.37))
selection.add("select", lambda x, at: (x[at.item()] * 2, x[:, at.item()]), selection.normal(5, 5), torch.tensor(-2))
selection.add(
    "split",
    lambda x, at: [part * 2 for part in torch.tensor_split(x, at)],
    selection.normal(40, 3),
    torch.tensor([7, 7, 31]),
)


def routed(x, chosen):
    """Each row to one of four experts, and back to where it was."""
    out = torch.zeros_like(x)
    for expert in range(4):
        (rows,) = torch.nonzero(chosen == expert, as_tuple=True)
        out = out.index_put((rows,), torch.tanh(x[rows] * (expert + 1)), accumulate=True)
    return out


selection.add("routed", routed, selection.normal(300, 8), selection.integers(0, 4, 300))
selection.add(
    "branch",
    lambda x: torch.cond(x.sum() > 0, lambda y: y[y > 0].sum() * 2, lambda y: y[y < 0].sum() - 1, (x,)),
    selection.normal(90),
)


def peeled(x):
    """Takes the largest element away until nothing positive is left."""

    def turn(n, y):
        return n + 1, torch.where(torch.arange(y.shape[0], device=y.device) == y.argmax(), -1.0, y) + y[y > 0].sum() * 0

    return torch._higher_order_ops.while_loop(
        lambda n, y: (y > 0).any(), turn, (torch.zeros((), dtype=torch.int64, device=x.device), x)
    )


selection.add("loop", peeled, selection.normal(20))
