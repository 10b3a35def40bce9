"""Layers drawn at random, as calls in text: norms, pools, resizing, windows, products, attention, losses, embeddings,
each with something in front of it and behind it. Operands have odd and usual sizes and lie in several ways: dense,
channels last, transposed, every other element, broadcast.
"""

import dataclasses
import random

import torch
import torch.nn.functional as F  # noqa: F401  (of the texts)

CHANNELS = [1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 33, 64]
SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17]
FRONT = ["{}"] * 6 + ["{}.relu()", "{} * 1.5", "{} - 0.25", "F.silu({})", "{} + {}.tanh()", "{}.clamp(-1, 1)"]
BEHIND = ["{}"] * 4 + [
    "F.relu({})",
    "F.gelu({})",
    "{} * 0.5 + 1",
    "{}.sigmoid()",
    "{}.transpose(0, -1)",
    "{}.flatten()",
]
BEHIND += ["{}.sum(-1)", "{}.mean(0)", "{}.amax(-1, keepdim=True)", "torch.stack([{}, {}])", "{}[..., ::2]"]


@dataclasses.dataclass
class Layer:
    """A call that eager takes, and what its names stand for."""

    text: str
    tensors: dict
    graded: tuple  # names whose gradients are asked for


class Drawer:
    """Draws layers of one type; sizes are small, so that many fit in a program."""

    def __init__(self, seed, dtype=torch.float32, kinds=None):
        self.random, self.dtype, self.kinds = random.Random(seed), dtype, kinds or KINDS
        torch.manual_seed(self.random.getrandbits(40))
        self.tensors, self.graded = {}, []

    def draw(self):
        """The next layer that eager takes."""
        while True:
            self.tensors, self.graded = {}, []
            kind = self.random.choice(self.kinds)
            core = kind(self)
            front = self.random.choice(FRONT)
            text = core.replace("<x>", front.format("x", "x") if front == "{}" else f"({front.format('x', 'x')})")
            behind = self.random.choice(BEHIND)
            text = behind.format(*[f"({text})"] * behind.count("{}"))
            layer = Layer(text, self.tensors, tuple(self.graded))
            if is_taken(layer):
                return layer

    # ---- Operands

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def size(self):
        return self.random.choice(SIZES)

    def channels(self):
        return self.random.choice(CHANNELS)

    def values(self, name, shape, graded=True):
        """A tensor of floats under this name, laid out in some way; returns the name."""
        self.tensors[name] = laid_out(torch.randn(shape, dtype=torch.float64).to(self.dtype), self.random)
        if graded:
            self.graded.append(name)
        return name

    def numbers(self, name, shape, most):
        """A tensor of places."""
        self.tensors[name] = torch.randint(0, most, shape)
        return name

    def maybe(self, name, shape, p=0.6):
        """The name of a tensor, or `None`."""
        return self.values(name, shape) if self.chance(p) else "None"

    def picture(self, spatial=None, least=1):
        """The shape of samples, channels and places."""
        spatial = spatial or self.pick(1, 2, 2, 2, 3)
        sizes = [max(least, self.size()) for _ in range(spatial)]
        if spatial == 3:
            sizes = [min(s, 8) for s in sizes]
        return [self.pick(1, 2, 3), self.channels(), *sizes]

    def each(self, spatial, *choices):
        """One number for all dimensions, or one for each."""
        return self.pick(*choices) if self.chance(0.6) else tuple(self.pick(*choices) for _ in range(spatial))


def laid_out(t, chance):
    """The same values in another order of memory."""
    how = chance.choice(["dense"] * 4 + ["last", "last", "transposed", "every other", "broadcast", "offset"])
    if how == "last" and t.dim() in (4, 5):
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    if how == "transposed" and t.dim() > 1:
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "every other" and t.dim() > 0:
        return torch.stack([t, t], -1)[..., 0]
    if how == "broadcast" and t.dim() > 0:
        return t[:1].expand(t.shape)
    if how == "offset" and t.dim() > 0:
        return torch.cat([t[:1], t])[1:]
    return t


def is_taken(layer):
    """Whether eager computes it, with gradients, and finds numbers."""
    operands = copies(layer, graded=True)
    try:
        made = call(layer)(**operands)
        if made.requires_grad:
            made.sum().backward()
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return False
    found = [made, *(t.grad for t in operands.values() if t.grad is not None)]
    return all(t.numel() < 50_000 and bool(t.isfinite().all()) for t in found)


def call(layer):
    scope = {"torch": torch, "F": F}
    exec(f"def layer({', '.join(layer.tensors)}):\n    return {layer.text}\n", scope)
    return scope["layer"]


def copies(layer, graded=False):
    """Operands with the same strides; those that are graded are leaves."""
    made = {}
    for name, t in layer.tensors.items():
        copy = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) if is_dense(t) else None
        made[name] = copy.copy_(t) if copy is not None else t.detach()
        if graded and name in layer.graded:
            made[name].requires_grad_()
    return made


def moved(t, device):
    """The tensor on another device, laid out as it is here, with its offset and whatever its elements share."""
    held = t.untyped_storage().to(device=device)
    return torch.empty(0, dtype=t.dtype, device=device).set_(held, t.storage_offset(), t.shape, t.stride())


def is_dense(t):
    return t.numel() == 0 or t.numel() == 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))


# ---- Kinds of layers


def layer_norm(d):
    shape = d.picture()
    inner = shape[-d.random.randint(1, len(shape)) :]
    d.values("x", shape)
    return f"F.layer_norm(<x>, {inner}, {d.maybe('w', inner)}, {d.maybe('b', inner)}, {d.pick(1e-5, 1e-3)})"


def rms_norm(d):
    shape = d.picture()
    inner = shape[-d.random.randint(1, 2) :]
    d.values("x", shape)
    return f"F.rms_norm(<x>, {inner}, {d.maybe('w', inner)}, {d.pick(None, 1e-5)})"


def group_norm(d):
    shape = d.picture()
    groups = d.random.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
    d.values("x", shape)
    return f"F.group_norm(<x>, {groups}, {d.maybe('w', shape[1:2])}, {d.maybe('b', shape[1:2])})"


def batch_norm(d):
    shape = d.picture() if d.chance(0.8) else [d.pick(2, 3, 5), d.channels()]
    d.values("x", shape)
    training = d.chance(0.5)
    running = "None, None"
    if not training or d.chance(0.7):
        d.tensors |= {"m": torch.randn(shape[1]).to(d.dtype), "v": torch.rand(shape[1]).to(d.dtype) + 0.1}
        running = "m, v"
    weights = f"{d.maybe('w', shape[1:2])}, {d.maybe('b', shape[1:2])}"
    return f"F.batch_norm(<x>, {running}, {weights}, {training}, {d.pick(0.1, 0.0, 1.0)})"


def instance_norm(d):
    shape = d.picture()
    d.values("x", shape)
    return f"F.instance_norm(<x>, weight={d.maybe('w', shape[1:2])}, bias={d.maybe('b', shape[1:2])})"


def other_norms(d):
    shape = d.picture()
    d.values("x", shape)
    dim = d.random.randrange(-len(shape), len(shape))
    dims = d.random.sample(range(len(shape)), d.random.randint(1, len(shape)))
    keep = d.chance(0.5)
    return d.pick(
        f"F.local_response_norm(<x>, {d.pick(1, 2, 3, 5)})",
        f"F.normalize(<x>, {d.pick(1, 2, 2.0, 3)}, {dim})",
        f"<x>.softmax({dim})",
        f"F.log_softmax(<x>, {dim})",
        f"F.softmin(<x>, {dim})",
        f"torch.var(<x>, {dims}, correction={d.pick(0, 1)}, keepdim={keep})",
        f"torch.std_mean(<x>, {dims}, correction=0, keepdim={keep})[0].sqrt()",
        f"torch.logsumexp(<x>, {dims}, {keep})",
        f"torch.linalg.vector_norm(<x>, {d.pick(1, 2, 3, float('inf'))}, {dims}, {keep})".replace(
            "inf", "float('inf')"
        ),
        f"F.cosine_similarity(<x>, {d.values('y', shape)}, {dim})",
        f"<x> / <x>.abs().sum({dims}, keepdim=True).clamp(min=0.1)",
        f"(<x> - <x>.mean({dims}, keepdim=True)) * torch.rsqrt(<x>.var({dims}, correction=0, keepdim=True) + 1e-3)",
        f"torch.cumsum(<x>, {dim}) * 0.1",
        f"torch.cdist(<x>, {d.values('y', shape)}, {d.pick(1.0, 2.0)}).flatten()[:10]",
    )


def pool(d):
    spatial = d.pick(1, 2, 2, 3)
    d.values("x", d.picture(spatial, least=d.pick(1, 4)))
    kernel, stride, padding = d.each(spatial, 1, 2, 3, 5), d.each(spatial, 1, 2, 3), d.each(spatial, 0, 0, 1)
    ceil = d.chance(0.4)
    if d.chance(0.5):
        dilation = d.each(spatial, 1, 1, 2)
        text = f"F.max_pool{spatial}d(<x>, {kernel}, {stride}, {padding}, {dilation}, {ceil}"
        both = f"(lambda found: found[0] + found[1] * 0.01)({text}, return_indices=True))"
        return d.pick(f"{text})", f"{text})", both)
    divisor = d.pick("None", "None", "3") if spatial > 1 else "None"
    more = f", {divisor}" if spatial > 1 else ""
    return f"F.avg_pool{spatial}d(<x>, {kernel}, {stride}, {padding}, {ceil}, {d.chance(0.5)}{more})"


def adaptive_pool(d):
    spatial = d.pick(1, 2, 2, 3)
    d.values("x", d.picture(spatial))
    target = d.each(spatial, 1, 2, 3, 5, 7)
    return d.pick(
        f"F.adaptive_avg_pool{spatial}d(<x>, {target})",
        f"F.adaptive_max_pool{spatial}d(<x>, {target})",
        f"F.lp_pool{spatial}d(<x>.abs() + 0.1, {d.pick(1, 2)}, {d.pick(1, 2, 3)}, {d.pick(1, 2)}, {d.chance(0.5)})",
    )


def resize(d):
    spatial = d.pick(1, 2, 2, 2, 3)
    d.values("x", d.picture(spatial))
    modes = ["nearest", "nearest-exact", "area", {1: "linear", 2: "bilinear", 3: "trilinear"}[spatial]]
    mode = d.random.choice(modes + ["bicubic"] * (spatial == 2))
    # To one column, eager's widened filters give each row the same.
    how = f"size={d.each(spatial, 2, 3, 5, 8, 14)}" if d.chance(0.5) else f"scale_factor={d.pick(0.5, 1.5, 2, 3, 0.7)}"
    more = ""
    if "linear" in mode or mode == "bicubic":
        more = f", align_corners={d.chance(0.5)}"
        more += f", antialias={d.chance(0.4)}" if spatial == 2 else ""
    if "scale" in how and d.chance(0.3):
        more += ", recompute_scale_factor=True"
    return f"F.interpolate(<x>, {how}, mode='{mode}'{more})"


def sample(d):
    spatial = d.pick(2, 2, 3)
    shape = d.picture(spatial)
    d.values("x", shape)
    d.values("g", [shape[0], *[d.pick(1, 3, 5)] * spatial, spatial])
    mode = d.pick("bilinear", "nearest", *["bicubic"] * (spatial == 2))
    edges = d.pick("zeros", "border", "reflection")
    return f"F.grid_sample(<x>, g, mode='{mode}', padding_mode='{edges}', align_corners={d.chance(0.5)})"


def windows(d):
    shape = d.picture(2, least=3)
    factor = d.pick(2, 3)
    d.values("x", shape)
    deep = [shape[0], shape[1] * factor**2, *shape[2:]]
    sides = [d.pick(-1, 0, 1, 2) for _ in range(4)]
    settings = f"{d.each(2, 1, 2, 3)}, {d.each(2, 1, 1, 2)}, {d.each(2, 0, 1)}, {d.each(2, 1, 2)}"
    return d.pick(
        f"F.unfold(<x>, {settings})",
        f"F.fold(F.unfold(<x>, 3, 1, 1, {d.pick(1, 2)}), {tuple(shape[2:])}, 3, 1, 1, {d.pick(1, 2)})",
        f"F.pixel_shuffle({d.values('y', deep)}, {factor}) + <x>.mean()",
        f"F.pixel_unshuffle(<x>.repeat(1, 1, {factor}, {factor}), {factor})",
        f"F.channel_shuffle(<x>, {d.random.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])})",
        f"F.pad(<x>, {sides}, mode='{d.pick('constant', 'reflect', 'replicate', 'circular')}')",
        f"<x>.unfold({d.pick(2, 3)}, {d.pick(1, 2, 3)}, {d.pick(1, 2)})",
        f"torch.nn.functional.avg_pool2d(F.pad(<x>, {sides}), 2, 1)",
    )


def matrix(d, name, shape):
    return d.values(name, [*[1 if d.chance(0.15) else n for n in shape[:-2]], *shape[-2:]])


def product(d):
    batch = [d.pick(1, 2, 3) for _ in range(d.random.randint(0, 2))]
    m, n, k = (d.random.choice([1, 2, 3, 5, 8, 16, 17, 32, 40, 65]) for _ in range(3))
    matrix(d, "x", [*batch, m, k])
    kind = d.random.randrange(12)
    if kind < 3:
        return f"torch.matmul(<x>, {matrix(d, 'y', [*batch, k, n])})"
    if kind == 3:
        return f"torch.matmul(<x>, {matrix(d, 'y', [*batch, n, k])}.mT)"
    if kind < 6:
        return f"F.linear(<x>, {d.values('w', [n, k])}, {d.maybe('b', [n])})"
    if kind == 6:
        return f"torch.matmul(<x>, {d.values('y', [k])})"
    if kind == 7:
        d.tensors.clear(), d.graded.clear()
        d.values("x", [m, k])
        added = d.values("c", d.random.choice([[m, n], [n], [m, 1], [1]]))
        return (
            f"torch.addmm({added}, <x>, {d.values('y', [k, n])}, beta={d.pick(0, 1, 0.5)}, alpha={d.pick(1, 2, -0.5)})"
        )
    if kind == 8:
        d.tensors.clear(), d.graded.clear()
        d.values("x", [3, m, k])
        added = d.values("c", d.random.choice([[3, m, n], [m, n], [3, 1, n], [1]]))
        return (
            f"torch.baddbmm({added}, <x>, {d.values('y', [3, k, n])}, beta={d.pick(0, 1, 2)}, alpha={d.pick(1, 0.5)})"
        )
    if kind == 9:
        d.tensors.clear(), d.graded.clear()
        d.values("x", [m, k, 4])
        text = d.pick("abc,cbd->ad", "abc,cbd->bad", "abc,cbd->abd", "abc,cbd->dacb", "abc,cbd->dc", "abc,cbd->b")
        return f"torch.einsum('{text}', <x>, {d.values('y', [4, k, n])})"
    if kind == 10:
        return f"F.bilinear(<x>, {matrix(d, 'y', [*batch, m, n])}, {d.values('w', [5, k, n])}, {d.maybe('b', [5])})"
    return f"torch.tensordot(<x>, {matrix(d, 'y', [*batch, n, k])}, dims=([-1], [-1]))"


def two_products(d):
    b, m, n, k = d.pick(1, 2, 5), *(d.random.choice([1, 3, 8, 16, 24, 33]) for _ in range(3))
    d.values("x", [b, m, k])
    act = d.pick("F.gelu", "F.silu", "torch.relu", "torch.tanh")
    first = f"F.linear(<x>, {d.values('w', [n, k])}, {d.maybe('b', [n])})"
    return d.pick(
        f"F.linear({act}({first}), {d.values('v', [k, n])}) + x",
        f"{act}({first}) * F.linear(<x>, {d.values('u', [n, k])})",
        f"F.layer_norm({first}, [{n}])",
        f"{first}.view({b}, {m}, {n}).transpose(1, 2).softmax(-1)",
    )


def attention(d):
    b, h, q, s, e = d.pick(1, 2), d.pick(1, 2, 4), d.pick(1, 3, 8, 17), d.pick(1, 5, 16, 33), d.pick(4, 8, 16, 24)
    groups = d.pick(1, 1, 2) if h > 1 else 1
    d.values("x", [b, h, q, e])
    d.values("k", [b, h // groups, s, e])
    d.values("v", [b, h // groups, s, d.pick(e, 8)])
    more = f", scale={d.pick(None, 0.3)}" + (", enable_gqa=True" if groups > 1 else "")
    kind = d.pick("none", "causal", "bias", "mask")
    if kind == "causal":
        more += ", is_causal=True"
    if kind == "bias":
        more += f", attn_mask={d.values('a', d.random.choice([[q, s], [1, h, q, s], [b, 1, 1, s]]), graded=False)}"
    if kind == "mask":
        d.tensors["a"] = torch.rand(d.random.choice([[q, s], [b, 1, q, s]])) > 0.3
        d.tensors["a"][..., 0] = True
        more += ", attn_mask=a"
    return f"F.scaled_dot_product_attention(<x>, k, v{more})"


def loss(d):
    shape = d.picture(d.pick(1, 2)) if d.chance(0.5) else [d.pick(1, 3, 8), d.pick(2, 5, 16, 33)]
    d.values("x", shape)
    mean = f"reduction='{d.pick('mean', 'sum', 'none')}'"
    if d.chance(0.45):
        smooth = d.pick(0.0, 0.1)
        weight = d.maybe("w", shape[1:2], 0.3)
        if d.chance(0.25):
            return (
                f"F.cross_entropy(<x>, {d.values('y', shape)}.softmax(1), {weight}, {mean}, label_smoothing={smooth})"
            )
        d.numbers("y", [shape[0], *shape[2:]], shape[1])
        if d.chance(0.3) and d.tensors["y"].numel() > 1:
            d.tensors["y"].view(-1)[0] = -100
        if d.chance(0.3):
            return f"F.nll_loss(F.log_softmax(<x>, 1), y, {weight}, {mean})"
        return f"F.cross_entropy(<x>, y, {weight}, {mean}, label_smoothing={smooth})"
    y = d.values("y", shape)
    return d.pick(
        f"F.mse_loss(<x>, {y}, {mean})",
        f"F.l1_loss(<x>, {y}, {mean})",
        f"F.smooth_l1_loss(<x>, {y}, {mean}, beta={d.pick(0.5, 1.0)})",
        f"F.huber_loss(<x>, {y}, {mean}, delta={d.pick(0.5, 1.0)})",
        f"F.binary_cross_entropy_with_logits(<x>, {y}.sigmoid(), {mean})",
        f"F.kl_div(F.log_softmax(<x>, 1), {y}.softmax(1), {mean})",
        f"F.soft_margin_loss(<x>, {y}.sign(), {mean})",
        f"F.poisson_nll_loss(<x>, {y}.abs(), {mean}, log_input=True)",
        f"F.gaussian_nll_loss(<x>, {y}, {y}.abs() + 0.5, {mean})",
        f"F.hinge_embedding_loss(<x>, {y}.sign(), {mean})",
        f"F.triplet_margin_loss(<x>, {y}, {y} * 0.5 + 1, {mean})",
    )


def embedding(d):
    rows, width = d.pick(3, 10, 33), d.pick(1, 4, 8, 17)
    d.values("x", [rows, width])
    shape = [d.pick(1, 3, 5) for _ in range(d.pick(1, 2))]
    d.numbers("i", shape, rows)
    padding = d.pick(None, None, 0, -1)
    if d.chance(0.5) or len(shape) != 2:
        return f"F.embedding(i, <x>, padding_idx={padding})"
    mode = d.pick("sum", "mean", "max")
    weights = f", per_sample_weights={d.values('w', shape)}" if mode == "sum" and d.chance(0.5) else ""
    return f"F.embedding_bag(i, <x>, mode='{mode}', padding_idx={padding}{weights})"


def activation(d):
    shape = d.picture()
    d.values("x", shape)
    slopes = d.values("w", d.random.choice([[1], shape[1:2]]), graded=True)
    halves = [*shape[:-1], 2 * shape[-1]]
    return d.pick(
        f"F.prelu(<x>, {slopes})",
        f"F.glu({d.values('y', halves)}, -1) + <x>",
        "F.softshrink(<x>, 0.3) + F.hardshrink(x, 0.4)",
        "F.threshold(<x>, 0.1, 2.0)",
        "F.celu(<x>, 0.7) + F.selu(x) * F.elu(x, 0.5)",
        "F.softplus(<x>, 2.0, 3.0)",
        "F.logsigmoid(<x>) + F.tanhshrink(x)",
        "F.rrelu(<x>, 0.1, 0.3, training=False)",
        "F.mish(<x>) * F.hardtanh(x, -0.5, 0.7)",
        "F.gelu(<x>, approximate='tanh')",
    )


def joined(d):
    shape = d.picture(2)
    other = [shape[0], d.channels(), *shape[2:]]
    d.values("x", shape)
    d.values("y", other)
    parts = sorted({0, shape[1], d.random.randint(0, shape[1])})
    sizes = [b - a for a, b in zip(parts, parts[1:], strict=False)]
    return d.pick(
        "torch.cat([<x>, y], 1)",
        "F.max_pool2d(torch.cat([<x>, y, x], 1), 2, 1, 1)",
        f"torch.cat([p * {d.pick(1, 2)} for p in torch.split(<x>, {sizes}, 1)][::-1], 1)",
        "torch.cat([<x>, y], 1).permute(0, 2, 3, 1).softmax(-1)",
        "torch.cat([F.avg_pool2d(<x>, 1), F.relu(y)], 1).mean((2, 3))",
    )


KINDS = [layer_norm, rms_norm, group_norm, batch_norm, instance_norm, other_norms, other_norms, pool, pool]
KINDS += [adaptive_pool, resize, resize, sample, windows, windows, product, product, product, two_products]
KINDS += [attention, loss, loss, embedding, activation, joined]
