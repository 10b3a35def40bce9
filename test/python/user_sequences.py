"""Programs of `user_harness.py`: text, decoding, recurrent networks, attention, losses over sequences."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn
ints = lambda high, *shape: torch.randint(0, high, shape)


@program(lambda: (R(3, 40), 0.9, 1.3), lambda: (R(5, 33), 0.7, 0.5))
def top_p_and_penalties(logits, p, temperature):
    logits = logits / temperature
    values, order = logits.sort(descending=True)
    total = values.softmax(-1).cumsum(-1)
    drop = total > p
    drop[..., 1:] = drop[..., :-1].clone()
    drop[..., 0] = 0
    logits = logits.masked_fill(drop.scatter(1, order, drop), -float("inf"))
    kth = torch.topk(logits, 5)[0][..., -1, None]
    logits = torch.where(logits < kth, torch.full_like(logits, -float("inf")), logits)
    probabilities = F.softmax(logits, dim=-1, dtype=torch.float32)
    return probabilities, probabilities.argmax(-1), (probabilities > 0).sum(-1)


@program(lambda: (R(7, 7), R(2, 3, 7)), lambda: (R(7, 7), R(4, 3, 7)))
def beam_search(transition, start):
    n, beams, vocabulary = start.shape
    scores = torch.zeros(n, beams)
    scores[:, 1:] = -1e9
    tokens = torch.zeros(n, beams, 1, dtype=torch.long)
    state = start
    done = torch.zeros(n, beams, dtype=torch.bool)
    for step in range(4):
        log = F.log_softmax(state @ transition, -1)
        log = torch.where(done[..., None], torch.tensor([0.0] + [-1e9] * 6), log)
        total = (scores[..., None] + log).view(n, -1)
        scores, flat = total.topk(beams)
        parent, token = flat // vocabulary, flat % vocabulary
        tokens = torch.cat([tokens.gather(1, parent[..., None].expand(-1, -1, tokens.shape[-1])), token[..., None]], -1)
        state = state.gather(1, parent[..., None].expand_as(state)) + F.one_hot(token, vocabulary)
        done = done.gather(1, parent) | (token == 0)
    length = (tokens != 0).sum(-1).clamp(min=1)
    return tokens, scores / length**0.6, done


def tagged(n, t):
    mask = torch.arange(t) < torch.randint(2, t + 1, (n, 1))
    return R(n, t, 5), ints(5, n, t), mask | (torch.arange(t) == 0)


@program(lambda: tagged(3, 6), lambda: tagged(2, 9), grad=True)
class CRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.transitions, self.start, self.end = nn.Parameter(R(5, 5)), nn.Parameter(R(5)), nn.Parameter(R(5))

    def forward(self, emissions, tags, mask):
        n, t, k = emissions.shape
        e, rows = emissions.transpose(0, 1), torch.arange(n)
        score = self.start[tags[:, 0]] + e[0, rows, tags[:, 0]]
        alpha = self.start + e[0]
        best, history = alpha, []
        for i in range(1, t):
            m = mask[:, i]
            score = score + (self.transitions[tags[:, i - 1], tags[:, i]] + e[i, rows, tags[:, i]]) * m
            step = alpha.unsqueeze(2) + self.transitions + e[i].unsqueeze(1)
            alpha = torch.where(m.unsqueeze(1), step.logsumexp(1), alpha)
            value, index = (best.unsqueeze(2) + self.transitions + e[i].unsqueeze(1)).max(1)
            best = torch.where(m.unsqueeze(1), value, best)
            history.append(torch.where(m.unsqueeze(1), index, torch.arange(k)))
        last = tags.gather(1, mask.long().sum(1, keepdim=True) - 1).squeeze(1)
        loss = ((alpha + self.end).logsumexp(1) - score - self.end[last]).mean()
        tag = (best + self.end).argmax(1)
        path = [tag]
        for h in reversed(history):
            tag = h.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.insert(0, tag)
        return loss, torch.stack(path, 1)


@program(
    lambda: (R(9, 2, 6), ints(5, 2, 3) + 1, torch.tensor([9, 7]), torch.tensor([3, 2])),
    lambda: (R(12, 2, 6), ints(5, 2, 4) + 1, torch.tensor([12, 10]), torch.tensor([4, 1])),
    grad=True,
    package=False,
)
def ctc_by_hand(logits, targets, lengths, target_lengths):
    log = logits.log_softmax(-1)
    t, n, _ = log.shape
    s = 2 * targets.shape[1] + 1
    extended = torch.zeros(n, s, dtype=torch.long)
    extended[:, 1::2] = targets
    skip = torch.cat([torch.zeros(n, 2, dtype=torch.bool), extended[:, 2:] != extended[:, :-2]], 1) & (extended != 0)
    none = torch.full((n, 1), -1e30, dtype=log.dtype)
    at = lambda i: log[i].gather(1, extended)
    alpha = torch.where(torch.arange(s) < 2, at(0), -1e30)
    total = []
    for i in range(t):
        if i:
            one = torch.cat([none, alpha[:, :-1]], 1)
            two = torch.where(skip, torch.cat([none, none, alpha[:, :-2]], 1), -1e30)
            alpha = torch.stack([alpha, one, two]).logsumexp(0) + at(i)
        total.append(alpha)
    final = torch.stack(total)[lengths - 1, torch.arange(n)]
    ends = torch.stack([2 * target_lengths, 2 * target_lengths - 1], 1)
    builtin = F.ctc_loss(log, targets, lengths, target_lengths, reduction="none")
    return -final.gather(1, ends).logsumexp(1), builtin


@program(lambda: (R(2, 6, 3), R(2, 5, 3)), lambda: (R(1, 7, 3), R(1, 4, 3)), grad=True)
def soft_dtw(x, y):
    d = torch.cdist(x, y).square()
    n, a, b = d.shape
    r = [[torch.full((n,), 1e8) for _ in range(b + 1)] for _ in range(a + 1)]
    r[0][0] = torch.zeros(n)
    for i in range(1, a + 1):
        for j in range(1, b + 1):
            before = torch.stack([r[i - 1][j], r[i][j - 1], r[i - 1][j - 1]], -1)
            r[i][j] = d[:, i - 1, j - 1] - 0.1 * torch.logsumexp(-before / 0.1, -1)
    return r[a][b], torch.stack([torch.stack(row[1:], -1) for row in r[1:]], 1)


@program(lambda: (ints(20, 3, 5), ints(20, 3, 4)), lambda: (ints(20, 2, 7), ints(20, 2, 6)), grad=True, bf16=True)
class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.encoder = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.bridge, self.cell = nn.Linear(12, 8), nn.LSTMCell(8 + 12, 8)
        self.wq, self.wk, self.v, self.out = nn.Linear(8, 5), nn.Linear(12, 5), nn.Linear(5, 1), nn.Linear(8, 20)

    def forward(self, source, target):
        memory, last = self.encoder(self.embed(source))
        h = self.bridge(torch.cat([last[0], last[1]], -1)).tanh()
        c, logits, weights = torch.zeros_like(h), [], []
        for i in range(target.shape[1]):
            score = self.v((self.wq(h)[:, None] + self.wk(memory)).tanh()).squeeze(-1)
            w = score.masked_fill(source == 0, torch.finfo(score.dtype).min).softmax(-1)
            context = torch.bmm(w[:, None], memory).squeeze(1)
            h, c = self.cell(torch.cat([self.embed(target[:, i]), context], -1), (h, c))
            logits.append(self.out(h))
            weights.append(w)
        return torch.stack(logits, 1), torch.stack(weights, 1)


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


@program(lambda: (R(2, 1, 16), R(2, 2, 10, 8), R(2, 2, 10, 8), torch.tensor(4)), bf16=True, package=False)
class CachedDecoderStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False), nn.Linear(32, 16)

    def forward(self, x, keys, values, position):
        n = x.shape[0]
        q = self.q(x).view(n, -1, 4, 8).transpose(1, 2)
        k, v = self.kv(x).view(n, -1, 2, 2, 8).permute(3, 0, 2, 1, 4)
        frequency = 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8)
        angle = torch.cat([position * frequency] * 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        keys.index_copy_(2, position.view(1), k)
        values[:, :, position] = v[:, :, 0]
        mask = (torch.arange(keys.shape[2]) <= position)[None]
        kk, vv = keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(n, -1, 32)), position + 1


@program(lambda: (R(2, 6, 16), 3), lambda: (R(1, 9, 16), 3), grad=True, bf16=True)
class AlibiSlidingWindow(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.sink = nn.Parameter(R(4))

    def forward(self, x, window):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        slopes = torch.pow(2.0, -2 * torch.arange(1, 5))
        distance = torch.arange(t)[:, None] - torch.arange(t)
        bias = -slopes[:, None, None] * distance.abs()
        allowed = (distance >= 0) & (distance < window)
        scores = q @ k.mT / 2 + bias.to(x.dtype)
        scores = scores.masked_fill(~allowed, -torch.inf)
        sink = self.sink.view(1, 4, 1, 1).expand(n, -1, t, -1)
        p = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
        return (p @ v).transpose(1, 2).flatten(2), p.sum(-1)


@program(lambda: (R(10, 16),), lambda: (R(7, 16),), grad=True)
class TopTwoExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4, bias=False)
        self.up, self.down = nn.Parameter(R(4, 16, 24) / 4), nn.Parameter(R(4, 24, 16) / 5)

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        weight, expert = p.topk(2)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e in range(4):
            row, slot = torch.where(expert == e)
            y = F.silu(x[row] @ self.up[e]) @ self.down[e]
            out.index_add_(0, row, y * weight[row, slot, None])
        share = F.one_hot(expert, 4).float().mean((0, 1))
        return out, (share * p.mean(0)).sum() * 4


@program(lambda: (R(8, 12), 3), lambda: (R(14, 12), 5), grad=True)
class CapacityExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(12, 4), nn.Parameter(R(4, 12, 12) / 3)

    def forward(self, x, capacity):
        p = self.router(x).softmax(-1)
        gate, index = p.max(-1)
        hot = F.one_hot(index, 4)
        place = (hot.cumsum(0) - 1) * hot
        kept = hot.bool() & (place < capacity)
        slots = F.one_hot(place.masked_fill(~kept, 0), capacity) * kept[..., None]
        dispatched = torch.einsum("tec,td->ecd", slots.to(x.dtype), x)
        y = torch.einsum("ecd,edf->ecf", dispatched, self.experts)
        return torch.einsum("tec,ecf,t->tf", slots.to(x.dtype), y, gate), kept.sum(0)


@program(lambda: (R(2, 8, 12),), lambda: (R(3, 8, 12),), grad=True, bf16=True)
class MambaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 32)
        self.conv = nn.Conv1d(16, 16, 4, groups=16, padding=3)
        self.x, self.dt = nn.Linear(16, 4 + 2 * 5, bias=False), nn.Linear(4, 16)
        self.a, self.d = nn.Parameter(torch.arange(1.0, 6).repeat(16, 1).log()), nn.Parameter(torch.ones(16))
        self.out = nn.Linear(16, 12)

    def forward(self, u):
        x, z = self.inner(u).chunk(2, -1)
        x = F.silu(self.conv(x.mT)[..., : u.shape[1]].mT)
        dt, b, c = self.x(x).split([4, 5, 5], -1)
        dt = F.softplus(self.dt(dt))
        a = -self.a.float().exp()
        decay = torch.exp(dt[..., None].float() * a)
        drive = (dt * x)[..., None].float() * b[:, :, None].float()
        h, ys = torch.zeros(u.shape[0], 16, 5), []
        for i in range(u.shape[1]):
            h = decay[:, i] * h + drive[:, i]
            ys.append((h * c[:, i, None].float()).sum(-1))
        y = torch.stack(ys, 1).to(u.dtype) + x * self.d
        return self.out(y * F.silu(z)), h


@program(lambda: (R(2, 5, 8), R(2, 5, 8), R(2, 5, 8)), lambda: (R(1, 7, 8), R(1, 7, 8), R(1, 7, 8)), grad=True)
def linear_attention_delta_rule(q, k, v):
    k = F.normalize(k, dim=-1)
    state = q.new_zeros(q.shape[0], 8, 8)
    out = torch.empty_like(v)
    for i in range(q.shape[1]):
        before = torch.einsum("bij,bi->bj", state, k[:, i])
        state = state + torch.einsum("bi,bj->bij", k[:, i], 0.5 * (v[:, i] - before))
        out[:, i] = torch.einsum("bij,bi->bj", state, q[:, i])
    return out, state


@program(lambda: (["a", "bc"], ints(9, 2, 4), {"scale": 2.0, "flags": (True, None)}), package=False)
def nested_python_arguments(names, ids, settings):
    x = ids.float() * settings["scale"]
    if settings["flags"][0]:
        x = x + len(names)
    return {names[0]: x, "rest": [x.sum(), (ids, None, 3)], names[1]: settings["scale"] + 1}


@program(lambda: (ints(30, 2, 7), ints(30, 2, 6)), lambda: (ints(30, 3, 8), ints(30, 3, 5)), package=False)
def edit_distance(a, b):
    n, s = a.shape
    t = b.shape[1]
    row = torch.arange(t + 1).repeat(n, 1)
    for i in range(s):
        new = torch.empty_like(row)
        new[:, 0] = i + 1
        for j in range(t):
            cost = (a[:, i] != b[:, j]).long()
            new[:, j + 1] = torch.minimum(torch.minimum(row[:, j + 1], new[:, j]) + 1, row[:, j] + cost)
        row = new
    return row[:, -1]


@program(lambda: (ints(50, 2, 9), 3), lambda: (ints(50, 1, 12), 3))
def repeated_ngrams_banned(ids, n):
    grams = ids.unfold(1, n, 1)
    last = ids[:, -n + 1 :]
    same = (grams[..., :-1] == last[:, None]).all(-1)
    banned = torch.zeros(ids.shape[0], 50, dtype=torch.bool)
    banned.scatter_(1, torch.where(same, grams[..., -1], ids[:, :1]), True)
    return banned, same.any(1), grams


@program(
    lambda: (R(3, 11, 6), torch.tensor([2, 5, 11])),
    lambda: (R(4, 8, 6), torch.tensor([8, 1, 3, 4])),
    grad=True,
    bf16=True,
)
class PackedBySorting(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(6, 5, num_layers=2, batch_first=True), nn.Linear(5, 3)

    def forward(self, x, lengths):
        ordered, order = lengths.sort(descending=True, stable=True)
        y, (h, c) = self.rnn(x[order])
        mask = torch.arange(x.shape[1])[None] < ordered[:, None]
        pooled = (y * mask[..., None]).sum(1) / ordered[:, None]
        top = y.masked_fill(~mask[..., None], -torch.inf).amax(1)
        back = order.argsort()
        return self.head(pooled)[back], top[back], c[-1][back]


@program(lambda: (R(2, 4, 10), ints(10, 2, 4)), lambda: (R(3, 6, 10), ints(10, 3, 6)), grad=True, bf16=True)
def losses_of_language_models(logits, labels):
    labels = labels.masked_fill(labels == 3, -100)
    plain = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100, label_smoothing=0.1)
    z = logits.logsumexp(-1).square().mean()
    p = F.softmax(logits, -1)
    focal = ((1 - p) ** 2 * -p.clamp(min=1e-6).log()).sum(-1)
    kl = F.kl_div(F.log_softmax(logits[:, 1:], -1), F.softmax(logits[:, :-1].detach(), -1), reduction="batchmean")
    chosen = torch.gather(logits.log_softmax(-1), 2, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    keep = labels != -100
    return plain, z * 1e-4, focal.mean(), kl, (chosen * keep).sum(1) / keep.sum(1).clamp(min=1), math.log(10)
