"""Programs of `user_harness.py`: complicated indices, scatters, searches, bits, dates, empty batches, writes."""

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
I = torch.randint
D = lambda *s: torch.randn(*s, dtype=torch.float64)


@program(
    lambda: (R(4, 5, 6, 7), I(-4, 4, (3,)), I(-6, 6, (3,)), I(0, 5, (2, 1))),
    lambda: (R(3, 5, 6, 4), I(-3, 3, (2,)), I(-6, 6, (2,)), I(0, 5, (4, 1))),
    grad=True,
)
def several_indices_between_slices(x, i, j, k):
    apart = x[i, :, j]
    beside = x[:, k, j.abs()[None] % 6]
    new = x[..., None, 1:-1, i.abs() % 4]
    mixed = x[i, 1, j, ..., -1]
    spread = x[i[:, None], :, j[None, :], ::2]
    return apart, beside, new, mixed, spread, x[i][:, [0, -1]], x[:, :, [[0, 1], [2, 3]], 0]


@program(
    lambda: (R(4, 5, 6), I(-4, 4, (3,)), I(-6, 6, (3,)), R(3, 5), R(6)),
    lambda: (R(6, 5, 6), I(-6, 6, (4,)), I(-6, 6, (4,)), R(4, 5), R(6)),
    grad=True,
)
def writes_by_several_indices(x, i, j, v, w):
    x = x * 1.5
    x[i, :, j] += v
    x[:, -1] = w
    x[..., 2] = x[..., 3].clone() * 2
    x[0, [0, 2], 1:4] = w[:3]
    x.index_put_((i, torch.arange(len(i)) % 5), w.expand(len(i), 6), accumulate=True)
    x[1:, ::2][:, :, 4:].mul_(0.5)
    x[x > 2] = 2.0
    return x


@program(lambda: (R(4, 6), R(24), R(4, 6) > 0), lambda: (R(5, 3), R(15), R(5, 3) > 0), grad=True)
def masked_updates(x, source, mask):
    x = x + 1
    x.masked_scatter_(mask, source)
    x[mask] += 3
    x.masked_fill_(~mask & (x < 0), 0.25)
    taken = x[mask]
    x[mask] = taken.flip(0) * 2
    x[mask.any(1)] -= 1
    rows = mask.sum(1, keepdim=True)
    return x, taken.sum(), torch.where(mask, x, x / rows.clamp(min=1)), mask.nonzero().sum(0)


@program(
    lambda: (D(3, 9).sort(-1).values, D(3, 5), I(0, 9, (3, 5)), torch.rand(20)),
    lambda: (D(2, 6).sort(-1).values, D(2, 4), I(0, 6, (2, 4)), torch.rand(33)),
    package=False,
)
def searches_and_histograms(edges, x, i, u):
    found = torch.searchsorted(edges, x), torch.searchsorted(edges, x, right=True, out_int32=True)
    mixed, order = edges.flip(-1).sort(-1)
    by_order = torch.searchsorted(edges.flip(-1).contiguous(), x, sorter=order)
    bins = torch.bucketize(x, edges[0].contiguous(), right=True)
    counted = torch.bincount(bins.flatten(), minlength=12), torch.bincount(i.flatten(), x.flatten(), 12)
    total, places = torch.histogram(u, 5, range=(0.0, 1.0), weight=u)
    clipped = x.clamp(edges[:, :1], edges[:, -1:])
    at = torch.searchsorted(edges, clipped).clamp(1, edges.shape[1] - 1)
    low, high = edges.gather(1, at - 1), edges.gather(1, at)
    return found, by_order, bins, counted, total, places, torch.histc(u, 4, 0, 1), (clipped - low) / (high - low), mixed


@program(
    lambda: (R(6, 4), R(9, 4), I(0, 6, (9,)), I(0, 6, (9, 4))),
    lambda: (R(3, 4), R(5, 4), I(0, 3, (5,)), I(0, 3, (5, 4))),
    grad=True,
)
def scatters_of_all_kinds(x, v, i, at):
    reduced = [x.scatter_reduce(0, at, v, how, include_self=own) for how in ("sum", "mean", "amax", "amin", "prod")
               for own in (True, False)]  # fmt: skip
    added = x.index_add(0, i, v, alpha=-2), x.index_reduce(0, i, v, "amax", include_self=False)
    put = x.scatter(0, at[:1], 3.0), x.scatter(0, at[:1], v[:1]), x.scatter_add(0, at, v)
    taken = torch.take_along_dim(x, at, 0), torch.take(x, at), x.gather(0, at).cumsum(0)
    degree = torch.zeros_like(x[:, 0]).scatter_add_(0, i, torch.ones_like(v[:, 0])).clamp(min=1)
    message = torch.zeros_like(x).index_add_(0, i, v) / degree[:, None]
    peak = torch.full_like(x[:, 0], -torch.inf).scatter_reduce_(0, i, v[:, 0], "amax")
    attention = (v[:, 0] - peak[i]).exp()
    share = attention / torch.zeros_like(x[:, 0]).index_add_(0, i, attention)[i]
    return reduced, added, put, taken, message, share


@program(lambda: (R(5, 8), R(5, 8).round(), 3), lambda: (R(4, 6), R(4, 6).round(), 2), grad=True)
def orders_and_ranks(x, ties, k):
    values, order = ties.sort(stable=True, dim=1, descending=True)
    rank = order.argsort(1)
    top, where = x.topk(k, 1, largest=False)
    kth, at = x.kthvalue(k, 1)
    middle, its_place = x.median(1)
    parts = torch.quantile(x, torch.tensor([0.1, 0.5, 0.9]), 1), x.nanquantile(0.3, 0, interpolation="lower")
    running, where_running = x.cummax(1)
    lowest = torch.logcumsumexp(x, 1), x.cumprod(0), x.cummin(0).values
    runs, inverse, count = torch.unique_consecutive(values[0].detach(), return_inverse=True, return_counts=True)
    return (
        values,
        rank,
        top,
        where,
        kth,
        at,
        middle,
        its_place,
        parts,
        running,
        where_running,
        lowest,
        runs,
        inverse,
        count,
    )


@program(lambda: (I(-40000, 40000, (7,)), I(0, 86400, (7,))), lambda: (I(-40000, 40000, (3,)), I(0, 86400, (3,))))
def calendar_dates(days, seconds):
    z = days + 719468
    era = torch.div(z, 146097, rounding_mode="floor")
    day_of_era = z - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    mp = (5 * day_of_year + 2) // 153
    month = torch.where(mp < 10, mp + 3, mp - 9)
    year = year_of_era + era * 400 + (month <= 2)
    weekday = (days % 7 + 4) % 7
    stamp = days * 86400 + seconds
    back = torch.div(stamp, 86400, rounding_mode="trunc"), torch.fmod(stamp, 86400), torch.remainder(-stamp, 3600)
    nanoseconds = stamp * 1_000_000_000
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return year, month, day_of_year - (153 * mp + 2) // 5 + 1, weekday, back, nanoseconds, leap


@program(
    lambda: (I(0, 2**31, (6,)), I(-128, 128, (6,), dtype=torch.int8)),
    lambda: (I(0, 2**31, (4,)), I(-128, 128, (4,), dtype=torch.int8)),
)
def bits_and_checksums(x, b):
    h = torch.full_like(x, -3750763034362895579)
    for shift in range(0, 32, 8):
        h = (h ^ ((x >> shift) & 0xFF)) * 1099511628211
    y = x.to(torch.int32)
    count = y - ((y >> 1) & 0x55555555)
    count = (count & 0x33333333) + ((count >> 2) & 0x33333333)
    morton = sum(((x >> k) & 1) << (2 * k) for k in range(16))
    packed = (b[0::2] & 0x0F) | (b[1::2] << 4)
    low, high = (packed << 4) >> 4, packed >> 4
    bits = (b.view(torch.uint8)[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    gray = x ^ (x >> 1)
    return (
        h,
        count,
        morton,
        packed,
        low,
        high,
        bits.sum(1),
        gray,
        ~b,
        -b,
        b.abs(),
        b * b,
        torch.gcd(x, gray),
        h.abs() % 97,
    )


@program(lambda: (R(0, 4), I(0, 5, (0,))), lambda: (R(3, 4), I(0, 5, (3,))), grad=True)
class EmptyBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        self.conv = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x, i):
        h = self.net(x + self.table(i))
        picture = self.conv(h[:, None])
        total = torch.zeros(5).index_add(0, i, h.sum(1))
        near = torch.cdist(x, self.table.weight)
        together = torch.cat([h, h.new_zeros(1, 3)]).amax(0)
        return h.softmax(-1), picture.relu(), total, near, together, x.sum(), x.prod(), h @ h.mT, h.argmax(1)


@program(
    lambda: (R(5, 6),),
    lambda: (R(4, 6),),
    lambda: (R(8, 6),),
    lambda: (R(1, 6),),
    lambda: (R(7, 6),),
    grad=True,
    package=False,
)
def sizes_decide(x):
    n = x.shape[0]
    if n % 2:
        x = torch.cat([x, x[-1:]])
    if n > 6:
        x = x[: n - 1].cumsum(0)
    elif n == 1:
        x = x[:1].expand(3, -1) * 2
    pieces = x.chunk(3)
    grown = [p.mean(0) * k for k, p in enumerate(pieces) if p.shape[0]]
    for _ in range(min(n, 3)):
        x = x.roll(1, 0) + x
    return x, torch.stack(grown), x.reshape(-1, 2, 3).sum(1), n * 2.5


@program(lambda: (R(4, 6), R(6)), lambda: (R(3, 5), R(5)), grad=True)
def written_views_in_training(x, w):
    y = x.clone()
    y[:, 0] *= w[0]
    flat = y.view(-1)
    flat[::2].add_(w.sum())
    y.t()[1].sub_(1).mul_(3)
    half, rest = y[:, :2], y[:, 2:]
    half.copy_(rest[:, :2].clone() * w[:2])
    rest.mul_(2)
    diagonal = y.diagonal()
    diagonal.zero_().add_(w[: len(diagonal)])
    z = y.unfold(1, 2, 1).sum(-1)
    y.detach().fill_(3.0)
    return z, flat[1:], half.square()


@program(lambda: (R(3, 4), R(3, 4), torch.empty(3, 4)), lambda: (R(5, 2), R(5, 2), torch.empty(5, 2)))
def results_into_tensors(x, y, out):
    torch.add(x, y, alpha=2, out=out)
    kept = out.clone()
    torch.cumsum(out, 1, out=out)
    both = torch.empty(2, *x.shape)
    torch.mul(x, y, out=both[0])
    torch.maximum(x, y, out=both[1])
    least, where = torch.empty(len(x)), torch.empty(len(x), dtype=torch.long)
    torch.min(x, 1, out=(least, where))
    grown = torch.empty(len(x), len(x))
    torch.matmul(x, y.mT, out=grown)
    return kept, both, least, where, grown, torch.where(x > 0, x, y, out=torch.empty_like(x))


@program(lambda: (R(2, 3, 4, 6),), lambda: (R(3, 3, 2, 4),), grad=True, package=False)
def shapes_of_all_kinds(x):
    turned = (
        torch.rot90(x, 1, (2, 3)),
        x.flip(1, 3),
        x.roll((1, -2), (2, 3)),
        torch.fliplr(x),
        x.movedim((0, 1), (-1, 0)),
    )
    cut = (
        torch.tensor_split(x, 3, 1),
        torch.hsplit(x, 3),
        torch.vsplit(x[0, 0].mT, 2),
        x.unflatten(-1, (2, -1)),
        x.ravel(),
    )
    joined = (
        torch.block_diag(x[0, 0], x[1, 0]),
        torch.dstack((x[0, 0], x[0, 1])),
        torch.column_stack((x[0, 0], x[1, 1])),
    )
    few = x[0, 0, 0]
    pairs = torch.cartesian_prod(few, few[:2]), torch.combinations(few, 2), torch.meshgrid(few, few[:3], indexing="xy")
    up = (
        torch.tril(x, -1),
        torch.vander(few.detach(), 3),
        torch.kron(x[0, 0, :2], x[0, 1, :2]),
        x.tile(1, 2),
        x.repeat_interleave(2, 1),
    )
    over = F.pad(x, (1, 2, -1, 1), value=0.5), F.pad(x, (2, 1, 1, 1), "reflect"), F.pad(x, (1, 1, 0, 2), "circular")
    return turned, cut, joined, pairs, up, over, torch.diag_embed(few, 1), x.swapaxes(0, 2).mT, torch.diff(x, 2, -1)


@program(lambda: (I(0, 11, (3, 7)), R(11, 4), R(3, 7)), lambda: (I(0, 11, (2, 5)), R(11, 4), R(2, 5)), grad=True)
class WordTables(nn.Module):
    def __init__(self):
        super().__init__()
        self.padded = nn.Embedding(11, 4, padding_idx=0)
        self.bounded = nn.Embedding(11, 4, max_norm=0.5)
        self.bag = nn.EmbeddingBag(11, 4, mode="sum", padding_idx=3)

    def forward(self, ids, table, weights):
        frequency = F.one_hot(ids, 11).sum(1)
        idf = torch.log((1 + len(ids)) / (1 + (frequency > 0).sum(0))) + 1
        scored = F.normalize(frequency * idf, dim=1)
        bags = self.bag(ids, per_sample_weights=weights), F.embedding_bag(ids, table, mode="max")
        first = (ids == ids[:, -1:]).int().argmax(1)
        return self.padded(ids).sum(1), self.bounded(ids), bags, scored @ table, F.embedding(first, table)
