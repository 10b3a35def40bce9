"""Views, copies and shapes: nothing is computed, everything is addressed."""

import torch
import torch.nn.functional as F

from cases.data import ALL, Family

views, joins, indexing, creation = Family("views"), Family("joins"), Family("indexing"), Family("creation")

VIEWS = {
    "reshape": lambda x: x.reshape(6, 20),
    "reshape_minus_one": lambda x: x.reshape(-1),
    "view": lambda x: x.view(2, 3, 2, 10),
    "flatten": lambda x: x.flatten(1),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(1, 2, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "squeeze_dims": lambda x: x[:, :, None].squeeze(2),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1, -1),
    "select": lambda x: x[1],
    "select_negative": lambda x: x[:, -1],
    "slice": lambda x: x[:, 1:3],
    "slice_step": lambda x: x[..., ::2],
    "slice_out_of_range": lambda x: x[:, 2:100],
    "slice_negative": lambda x: x[:, -3:-1],
    "slice_empty": lambda x: x[:, 3:1],
    "narrow": lambda x: x.narrow(2, 1, 3),
    "chunk": lambda x: x.chunk(3, 2),
    "split": lambda x: x.split(2, 1),
    "split_sizes": lambda x: x.split([1, 3, 1, 5], 2),
    "unbind": lambda x: x.unbind(0),
    "movedim": lambda x: x.movedim(0, -1),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "diagonal_offset": lambda x: x.diagonal(1, 1, 2),
    "as_strided": lambda x: x.as_strided((3, 4), (2, 7), 5),
    "unfold": lambda x: x.unfold(2, 4, 3),
    "swapaxes": lambda x: x.swapaxes(1, 2),
    "unflatten": lambda x: x.unflatten(2, (2, 5)),
    "view_minus_one": lambda x: x.view(-1, 5),
    "tile": lambda x: x.tile(2, 1, 2),
    "repeat": lambda x: x.repeat(2, 1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll(2, 2),
    "roll_two": lambda x: x.roll((1, -2), (0, 1)),
    "rot90": lambda x: x.rot90(1, (0, 1)),
    "contiguous_of_transpose": lambda x: x.transpose(0, 1).contiguous(),
    "clone": lambda x: x.clone(),
    "reshape_of_transpose": lambda x: x.transpose(1, 2).reshape(2, -1),
    "identity": lambda x: x,
    "twice": lambda x: (x, x),
    "view_of_view": lambda x: x[1:].transpose(0, 1)[2:, :, ::3],
    "add_of_views": lambda x: x[:, :3] + x[:, 3:],
    "slice_of_computed": lambda x: (x + 1)[:, 1:3],
    "transpose_of_computed": lambda x: (x * 2).transpose(0, 2),
    "expand_then_add": lambda x: x[:, :1].expand(-1, 6, -1) + x,
    "movedim_computed": lambda x: (x + 1).movedim(0, -1) * 2,
    "unsafe_chunks_sum": lambda x: sum(x.chunk(3, 1)),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 3, 10), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x.reshape(1, 2, 6, 10), 2),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(2),
    "tril_negative": lambda x: x.tril(-1),
}
for name, function in VIEWS.items():
    views.add(name, function, views.normal(2, 6, 10))
for short, dtype in ALL.items():
    views.add(f"transposed_copy_{short}", lambda x: x.t().contiguous(), views.any(dtype, 17, 33))
    views.add(f"slice_copy_{short}", lambda x: x[1::2, 3:].clone(), views.any(dtype, 17, 33))
views.add("view_dtype", lambda x: x.view(torch.int32), views.normal(4, 8))
views.add("view_dtype_of_computed", lambda x: (x * 2).view(torch.int32) & 0xFF, views.normal(4, 8))
views.add("reshape_empty", lambda x: x.reshape(3, 0, 4), views.normal(0, 12))
views.add("permute_empty", lambda x: x.permute(1, 0) + 1, views.normal(0, 12))
views.add("zero_dim_views", lambda x: (x.reshape(1), x.unsqueeze(0), x.expand(3)), views.normal())
views.add("large_transpose", lambda x: x.transpose(1, 2).contiguous(), views.normal(3, 130, 70))
views.add("heads", lambda x: x.view(2, 9, 4, 8).transpose(1, 2).reshape(8, 9, 8), views.normal(2, 9, 32))
views.add("unheads", lambda x: x.transpose(1, 2).reshape(2, 9, 32), views.normal(2, 4, 9, 8))

for dim in (0, 1, 2):
    sizes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    sizes[1][dim], sizes[2][dim] = 1, 5
    joins.add(f"cat_{dim}", lambda a, b, c, d=dim: torch.cat([a, b, c], d), *(joins.normal(*s) for s in sizes))
    joins.add(f"stack_{dim}", lambda a, b, d=dim: torch.stack([a, b], d), joins.normal(3, 4), joins.normal(3, 4))
joins.add("cat_empty", lambda a, b: torch.cat([a, b], 0), joins.normal(0, 4), joins.normal(3, 4))
joins.add("cat_legacy_empty", lambda a, b: torch.cat([a, b], 1), joins.normal(0), joins.normal(3, 4))
joins.add("cat_promotes", lambda a, b: torch.cat([a, b]), joins.integers(0, 9, 5), joins.normal(4))
joins.add(
    "cat_of_computed", lambda a, b: torch.cat([a.relu(), b * 2, a + 1], -1) * 3, joins.normal(5, 7), joins.normal(5, 4)
)
joins.add("cat_of_slices", lambda a: torch.cat([-a[..., 4:], a[..., :4]], -1), joins.normal(3, 8))
joins.add("cat_same_twice", lambda a: torch.cat([a, a], 0), joins.normal(3, 8))
joins.add("cat_one", lambda a: torch.cat([a], 0), joins.normal(3, 8))
joins.add("cat_transposed", lambda a, b: torch.cat([a.t(), b], 0), joins.normal(3, 8), joins.normal(2, 3))
joins.add(
    "hstack_vstack", lambda a, b: (torch.hstack([a, b]), torch.vstack([a, b])), joins.normal(3, 3), joins.normal(3, 3)
)
joins.add("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij"), joins.normal(3), joins.normal(4))
for name, (pad, kw) in {
    "constant": ((1, 2), {}),
    "constant_2d": ((1, 2, 0, 3), {"value": 1.5}),
    "negative": ((-1, 2), {}),
    "reflect": ((2, 1), {"mode": "reflect"}),
    "replicate": ((2, 1), {"mode": "replicate"}),
    "circular": ((2, 1), {"mode": "circular"}),
}.items():
    joins.add(f"pad_{name}", lambda x, p=pad, k=kw: F.pad(x, p, **k), joins.normal(2, 3, 8))
joins.add("pad_reflect_2d", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), joins.normal(2, 3, 8, 7))
joins.add("pad_int", lambda x: F.pad(x, (1, 1), value=7), joins.integers(0, 9, 3, 4))
joins.add("pad_bool", lambda x: F.pad(x, (1, 1), value=True), joins.bools(3, 4))

indexing.add("index_rows", lambda x, i: x[i], indexing.normal(9, 5), indexing.integers(0, 9, 4))
indexing.add("index_negative", lambda x, i: x[i], indexing.normal(9, 5), indexing.integers(-9, 9, 6))
indexing.add("index_columns", lambda x, i: x[:, i], indexing.normal(9, 5), indexing.integers(0, 5, 7))
indexing.add(
    "index_two", lambda x, i, j: x[i, j], indexing.normal(9, 5), indexing.integers(0, 9, 6), indexing.integers(0, 5, 6)
)
indexing.add(
    "index_broadcast",
    lambda x, i, j: x[i[:, None], j],
    indexing.normal(9, 5),
    indexing.integers(0, 9, 3),
    indexing.integers(0, 5, 4),
)
indexing.add(
    "index_apart",
    lambda x, i, j: x[i, :, j],
    indexing.normal(9, 4, 5),
    indexing.integers(0, 9, 3),
    indexing.integers(0, 5, 3),
)
indexing.add("index_2d", lambda x, i: x[i], indexing.normal(9, 5), indexing.integers(0, 9, 3, 4))
indexing.add("index_int32", lambda x, i: x[i], indexing.normal(9, 5), indexing.integers(0, 9, 4, dtype=torch.int32))
indexing.add("index_computed", lambda x, i: (x * 2)[i + 1], indexing.normal(9, 5), indexing.integers(0, 8, 4))
indexing.add("index_select", lambda x, i: x.index_select(1, i), indexing.normal(9, 5), indexing.integers(0, 5, 4))
indexing.add("gather", lambda x, i: x.gather(1, i), indexing.normal(9, 5), indexing.integers(0, 5, 9, 3))
indexing.add("gather_0", lambda x, i: x.gather(0, i), indexing.normal(9, 5), indexing.integers(0, 9, 4, 5))
indexing.add(
    "take_along_dim", lambda x, i: x.take_along_dim(i, 1), indexing.normal(9, 5), indexing.integers(0, 5, 9, 2)
)
indexing.add("embedding", lambda i, w: F.embedding(i, w), indexing.integers(0, 11, 3, 4), indexing.normal(11, 6))
indexing.add(
    "embedding_bf16",
    lambda i, w: F.embedding(i, w) * 2,
    indexing.integers(0, 11, 3, 4),
    indexing.normal(11, 6, dtype=torch.bfloat16),
)
indexing.add("one_hot", lambda i: F.one_hot(i, 7), indexing.integers(0, 7, 5))
indexing.add("masked_fill", lambda x, m: x.masked_fill(m, -1.5), indexing.normal(9, 5), indexing.bools(9, 5))
indexing.add(
    "masked_fill_broadcast",
    lambda x, m: x.masked_fill(m, float("-inf")),
    indexing.normal(2, 9, 5),
    indexing.bools(9, 1),
)
indexing.add(
    "where_index", lambda x, i: torch.where(i[:, None] > 3, x, x[i]), indexing.normal(9, 5), indexing.integers(0, 9, 9)
)
indexing.add(
    "scatter",
    lambda x, i, s: x.scatter(1, i, s),
    indexing.normal(4, 9),
    torch.stack([torch.randperm(9, generator=indexing.random)[:3] for _ in range(4)]),
    indexing.normal(4, 3),
)
indexing.add("scatter_value", lambda x, i: x.scatter(0, i, 2.5), indexing.normal(9, 3), indexing.integers(0, 9, 2, 3))
indexing.add(
    "scatter_add",
    lambda x, i, s: x.scatter_add(1, i, s),
    indexing.normal(4, 9),
    indexing.integers(0, 9, 4, 20),
    indexing.normal(4, 20),
)
indexing.add(
    "scatter_add_ints",
    lambda x, i, s: x.scatter_add(0, i, s),
    indexing.integers(0, 9, 9),
    indexing.integers(0, 9, 50),
    indexing.integers(-5, 5, 50),
)
indexing.add(
    "scatter_reduce_amax",
    lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
    indexing.normal(9),
    indexing.integers(0, 9, 50),
    indexing.normal(50),
)
indexing.add(
    "index_put",
    lambda x, i, v: x.index_put((i,), v),
    indexing.normal(9, 5),
    torch.tensor([1, 4, 7]),
    indexing.normal(3, 5),
)
indexing.add(
    "index_put_accumulate",
    lambda x, i, v: x.index_put((i,), v, accumulate=True),
    indexing.normal(9, 5),
    indexing.integers(0, 9, 30),
    indexing.normal(30, 5),
)
indexing.add(
    "index_add",
    lambda x, i, v: x.index_add(0, i, v),
    indexing.normal(9, 5),
    indexing.integers(0, 9, 12),
    indexing.normal(12, 5),
)
indexing.add(
    "index_copy",
    lambda x, i, v: x.index_copy(0, i, v),
    indexing.normal(9, 5),
    torch.tensor([1, 4, 7]),
    indexing.normal(3, 5),
)
indexing.add("index_fill", lambda x, i: x.index_fill(1, i, 4.0), indexing.normal(9, 5), torch.tensor([0, 3]))
indexing.add("select_scatter", lambda x, v: x.select_scatter(v, 0, 2), indexing.normal(9, 5), indexing.normal(5))
indexing.add("slice_scatter", lambda x, v: x.slice_scatter(v, 1, 1, 5, 2), indexing.normal(9, 5), indexing.normal(9, 2))


def parts_of(results):
    """What a kernel makes for a row, some of it put into a tensor of zeros, read again in the same kernel."""

    def taken(x):
        made = results(x)
        row, one = torch.zeros_like(x), x.clone()
        row[..., 2:7], one[..., 1] = made[..., 2:7], made[..., 0]
        halved = made.clone()
        halved.select(-1, 0).mul_(0.5)
        halved.select(0, 1).mul_(3)
        return row, row.sum(-1), one.tanh(), halved.tanh(), halved.cumsum(-1), made.tril(), made.triu(1).amax(-1)

    return taken


for name, results in {
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "cumsum": lambda x: x.cumsum(-1),
    "mean": lambda x: x.mean(-1, keepdim=True).expand_as(x),
    "amax_columns": lambda x: x.amax(0).expand_as(x),
}.items():
    for sizes in ((4, 8), (5, 33), (3, 600)):
        indexing.add(f"parts_of_{name}_{sizes[1]}", parts_of(results), indexing.normal(*sizes))
indexing.add("diagonal_scatter", lambda x, v: x.diagonal_scatter(v), indexing.normal(5, 5), indexing.normal(5))
indexing.add("bucketize", lambda x, b: torch.bucketize(x, b), indexing.normal(20), torch.tensor([-1.0, 0.0, 0.5, 2.0]))
many = indexing.normal(3, 301).sort(-1)[0]
for side in ("left", "right"):  # more boundaries than are counted
    indexing.add(
        f"searchsorted_many_{side}",
        lambda b, x, side=side: (
            torch.searchsorted(b, x, side=side),
            torch.searchsorted(b[0], x, side=side, out_int32=True),
            torch.searchsorted(b[0], 0.25, side=side),
            torch.bucketize(x, b[1]) * 2,
        ),
        many,
        torch.cat(
            [indexing.normal(3, 20), many[:, ::60], torch.tensor([[float("nan"), float("inf"), -float("inf")]] * 3)], 1
        ),
    )
indexing.add(
    "searchsorted_integers",
    lambda b, x, y: (
        torch.searchsorted(b, x),
        torch.searchsorted(b, x, right=True),
        torch.searchsorted(b, y),
        torch.searchsorted(b[:17], x),
    ),
    indexing.integers(-50, 50, 100).sort()[0],
    indexing.integers(-60, 60, 5, 9),
    indexing.normal(7),
)
indexing.add(
    "searchsorted_unsorted",
    lambda b, x: (torch.searchsorted(b, x), torch.searchsorted(b, x, right=True), torch.bucketize(x, b)),
    indexing.normal(57),
    indexing.normal(40),
)
indexing.add(
    "searchsorted_some_nan",
    lambda b, x: torch.searchsorted(b, x),
    torch.cat([many[0, :40], torch.full((5,), float("nan"))]),
    indexing.normal(40),
)
indexing.add(
    "searchsorted",
    lambda b, x: torch.searchsorted(b, x, right=True),
    torch.tensor([-1.0, 0.0, 0.5, 2.0]),
    indexing.normal(20),
)
indexing.add(
    "isin_pattern", lambda x, y: (x[:, None] == y).any(1), indexing.integers(0, 9, 20), indexing.integers(0, 9, 4)
)
indexing.add(
    "isin_number",
    lambda x: (torch.isin(3, x), torch.isin(2.5, x), torch.isin(40, x, invert=True), torch.isin(x, 3)),
    indexing.integers(0, 9, 4, 5),
)

creation.add(
    "zeros_ones_full",
    lambda x: (torch.zeros(3, 4), torch.ones(2, dtype=torch.int64), torch.full((3,), 2.5), torch.full((2,), True)),
    creation.normal(1),
)
creation.add(
    "like",
    lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32), torch.full_like(x, 7)),
    creation.normal(3, 4),
)
creation.add(
    "new", lambda x: (x.new_zeros(2, 3), x.new_ones(4), x.new_full((2,), 3.0)), creation.normal(3, dtype=torch.bfloat16)
)
creation.add(
    "arange",
    lambda x: (
        torch.arange(7),
        torch.arange(2, 9, 3),
        torch.arange(0, 1, 0.25),
        torch.arange(5, 0, -1),
        torch.arange(4, dtype=torch.float32),
    ),
    creation.normal(1),
)
creation.add("arange_used", lambda x: x + torch.arange(5) * 2, creation.normal(3, 5))
creation.add("linspace", lambda x: torch.linspace(0, 1, 11) * x, creation.normal(11))
creation.add("eye", lambda x: torch.eye(4) + x, creation.normal(4, 4))
creation.add("tril_mask", lambda x: torch.ones(5, 5, dtype=torch.bool).tril(), creation.normal(1))
creation.add("scalar_tensor", lambda x: torch.tensor(3.5) * x, creation.normal(4))
creation.add("constant_tensor", lambda x: x + torch.tensor([1.0, 2.0, 3.0]), creation.normal(2, 3))
creation.add(
    "causal_mask",
    lambda x: x.masked_fill(torch.arange(6)[None, :] > torch.arange(6)[:, None], float("-inf")).softmax(-1),
    creation.normal(2, 6, 6),
)
creation.add(
    "positions",
    lambda x: torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1) + x,
    creation.integers(0, 9, 2, 6),
)
creation.add("numbers", lambda x: (x.shape[0], 2.5, True, x + 1), creation.normal(3))
creation.add("constant_output", lambda x: torch.ones(3), creation.normal(1))
creation.add("dtype_of_default", lambda x: (torch.arange(3) / 2, torch.tensor([1, 2]) * 1.0), creation.normal(1))

# Floats of 8 bits: every one of them, halves between neighbours, what overflows.
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
bits = torch.arange(256, dtype=torch.int32).to(torch.uint8)
every = torch.cat([bits.view(E4).float(), bits.view(E5).float()])
floats = torch.cat(
    [
        every,
        (every[1:] + every[:-1]) / 2,
        creation.normal(3000) * torch.exp2(creation.normal(3000) * 6),
        torch.tensor(
            [
                464.0,
                464.1,
                480.0,
                500.0,
                61439.0,
                61440.0,
                1e9,
                float("inf"),
                float("-inf"),
                2.0**-10,
                1.01 * 2.0**-10,
                2.0**-17,
            ]
        ),
    ]
)
creation.add("to_float8", lambda x: (x.to(E4), x.to(E5)), floats, tolerance=0)
creation.add(
    "from_float8",
    lambda a, b: (a.float(), b.float(), a.bfloat16(), b.double(), a.float().reshape(16, 16).t() + 1),
    bits.view(E4),
    bits.view(E5),
)
creation.add(
    "through_float8", lambda x: (x.to(E4).float(), x.half().to(E5).float(), (x * 3).to(E4).to(torch.bfloat16)), floats
)
creation.add(
    "moved_float8", lambda a: (a.reshape(16, 16).t().contiguous(), torch.cat([a, a])), bits.view(E4), tolerance=0
)
creation.add(
    "bits_of_float8",
    lambda a, b, x: (a.view(torch.uint8), b.view(torch.int8), x.to(E4).view(torch.uint8), x.to(E5).view(torch.uint8)),
    bits.view(E4)[bits != 255],
    bits.view(E5)[:125],
    every[every == every],
)
creation.add("float8_of_bits", lambda a: (a.view(E4).float(), a.view(E5).float(), a.view(torch.int32)), bits)
halves = torch.arange(0, 65536, 7, dtype=torch.int32).to(torch.int16)
creation.add(
    "bits_of_half",
    lambda h, i: (h.view(torch.int16), h.view(torch.uint8), i.view(torch.float16).float()),
    halves.view(torch.float16)[~halves.view(torch.float16).isnan()],
    halves,
)
