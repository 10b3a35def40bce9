"""More of shape_cases.py: normalization, products, attention, convolution, pooling, and what follows them."""

import torch

from shape_cases import CASES, FLOATS, case


def channels(r, rank, c, dtypes=(torch.float32,)):
    return r.tensor([r.randint(1, 3), c] + r.sizes(rank - 2), list(dtypes))


def normalized(native, rms=False):
    def build(r):
        a, t = r.sizes(r.randint(1, 4)), r.choice(FLOATS)
        n = r.randint(1, len(a))
        w, b = (r.choice([None, r.values(a[-n:], t)]) for _ in range(2))
        x = r.tensor(a, [t])
        if rms:
            return (x, a[-n:], w, r.choice([1e-5, None])), {}
        return (x, a[-n:], w, b, 1e-5), {}

    return build


CASES["layer_norm.default"] = [normalized(False)]
CASES["native_layer_norm.default"] = [normalized(True)]
CASES["rms_norm.default"] = [normalized(False, True)]
CASES["group_norm.default"] = [
    lambda r: ((channels(r, r.randint(2, 5), 4), 2, r.choice([None, r.values([4], torch.float32)]), None), {})
]
CASES["native_group_norm.default"] = [
    lambda r: (
        lambda t: ((t, r.values([4], torch.float32), None, t.shape[0], 4, t.numel() // t.shape[0] // 4, 2, 1e-5), {})
    )(channels(r, 4, 4))
]


def batch_norm(more):
    def build(r):
        t = r.choice([torch.float32, torch.float64, torch.bfloat16])
        x = channels(r, r.randint(2, 5), 3, [t])
        w = [r.values([3], t), r.values([3], t), r.values([3], t), r.values([3], t, 1, 2)]
        return (x, *(v if i > 1 else r.choice([None, v]) for i, v in enumerate(w)), *more), {}

    return build


CASES["batch_norm.default"] = [batch_norm((False, 0.1, 1e-5, False))]
CASES["_native_batch_norm_legit_no_training.default"] = [batch_norm((0.1, 1e-5))]
CASES["instance_norm.default"] = [
    lambda r: (
        (
            r.tensor([2, 3, 4, 5], [torch.float32]),
            r.values([3], torch.float32),
            None,
            None,
            None,
            True,
            0.1,
            1e-5,
            False,
        ),
        {},
    )
]


F = [torch.float32]
CASES["mm.default"] = [lambda r: (lambda n, k, m: ((r.tensor([n, k], F), r.tensor([k, m], F)), {}))(*r.sizes(3))]
CASES["bmm.default"] = [
    lambda r: (lambda b, n, k, m: ((r.tensor([b, n, k], F), r.tensor([b, k, m], F)), {}))(*r.sizes(4))
]
CASES["addmm.default"] = [
    lambda r: (
        lambda n, k, m: (
            (r.tensor(r.broadcast_from([n, m]), F), r.tensor([n, k], F), r.tensor([k, m], F)),
            r.choice([{}, {"beta": 2, "alpha": 0.5}]),
        )
    )(*r.sizes(3))
]
CASES["baddbmm.default"] = [
    lambda r: (
        lambda b, n, k, m: (
            (r.tensor(r.broadcast_from([b, n, m]), F), r.tensor([b, n, k], F), r.tensor([b, k, m], F)),
            {},
        )
    )(*r.sizes(4))
]
CASES["addbmm.default"] = [
    lambda r: (lambda b, n, k, m: ((r.tensor([n, m], F), r.tensor([b, n, k], F), r.tensor([b, k, m], F)), {}))(
        *r.sizes(4)
    )
]
CASES["mv.default"] = [lambda r: (lambda n, k: ((r.tensor([n, k], F), r.tensor([k], F)), {}))(*r.sizes(2))]
CASES["addmv.default"] = [
    lambda r: (lambda n, k: ((r.tensor([n], F), r.tensor([n, k], F), r.tensor([k], F)), {"beta": 2}))(*r.sizes(2))
]
CASES["addr.default"] = [
    lambda r: (lambda n, k: ((r.tensor([n, k], F), r.tensor([n], F), r.tensor([k], F)), {"alpha": 2}))(*r.sizes(2))
]
CASES["dot.default"] = [lambda r: (lambda k: ((r.tensor([k], F), r.tensor([k], F)), {}))(*r.sizes(1))]
CASES["outer.default"] = [lambda r: ((r.tensor(r.sizes(1)), r.tensor(r.sizes(1))), {})]
CASES["linear.default"] = [
    lambda r: (
        lambda k, n: (
            (r.tensor(r.sizes(r.randint(0, 3)) + [k], F), r.tensor([n, k], F), r.choice([None, r.tensor([n], F)])),
            {},
        )
    )(*r.sizes(2))
]


@case("matmul")
def matmul(r):
    n, k, m = r.sizes(3)
    batch = r.sizes(r.randint(0, 2))
    a = r.choice([[k], r.broadcast_from(batch) + [n, k], batch + [n, k]])
    b = r.choice([[k], r.broadcast_from(batch) + [k, m], batch + [k, m]])
    return (r.tensor(a, F), r.tensor(b, F)), {}


CASES["matmul.default"] = [matmul]


@case("einsum")
def einsum(r):
    a, b, i, j, k = (r.randint(1, 4) for _ in range(5))
    size = {"a": a, "b": b, "i": i, "j": j, "k": k}
    equation = r.choice(
        [
            "ij,jk->ik",
            "bij,bjk->bik",
            "bij,kj->bki",
            "ij->ji",
            "ii->i",
            "ij->",
            "ij,ij->",
            "abi,abj->abij",
            "bhi,hij->bhj".replace("h", "a"),
            "i,j->ij",
            "ab,ab->b",
            "aib,bj,jk->aik",
            "ij,jk",
            "bij->jb",
            "aij,bij->ab",
            "...ij,jk->...ik",
            "a...i,bi->...ab",
        ]
    )
    operands = []
    for term in equation.split("->")[0].split(","):
        operands.append(
            r.values([x for c in term.replace("...", ".") for x in ([2, 3] if c == "." else [size[c]])], F[0])
        )
    return (equation, operands), {}


@case("scaled_dot_product_attention")
def attention(r):
    b, h, s, l, e = 2, r.randint(1, 3), r.randint(1, 4), r.randint(1, 4), 4
    heads = lambda n, h: r.choice(
        [lambda: r.values([b, n, h, e], torch.float32).transpose(1, 2), lambda: r.values([b, h, n, e], torch.float32)]
    )()
    grouped = r.random() < 0.3
    q, k, v = heads(s, 2 * h if grouped else h), heads(l, h), heads(l, h)
    mask = r.choice([None, r.tensor([s, l], [torch.bool, torch.float32]), r.values([1, 1, s, l], torch.float32)])
    return (q, k, v, mask), ({"enable_gqa": True} if grouped else {})


CASES["scaled_dot_product_attention.default"].append(
    lambda r: (tuple(r.values([2, 5, 4], torch.float32) for _ in range(3)), {})
)


def convolution(n, transposed=False):
    def build(r):
        groups = r.choice([1, 2])
        cin, cout = 2 * groups, 2 * groups
        image = [r.randint(5, 7) for _ in range(n)]
        x = r.tensor([r.randint(1, 2), cin] + image, [torch.float32, torch.float64])
        if r.random() < 0.2:
            x = x[0]
        w = r.layout(
            r.values(
                [cin, cout // groups] + [r.randint(1, 3)] * n
                if transposed
                else [cout, cin // groups] + [r.randint(1, 3) for _ in range(n)],
                x.dtype,
            )
        )
        bias = r.choice([None, r.values([cout], x.dtype)])
        if transposed:
            return (x, w, bias, [2] * n, [1] * n if w.shape[-1] > 1 else [0] * n, [r.randint(0, 1)] * n, groups), {}
        return (
            x,
            w,
            bias,
            [r.randint(1, 2)] * n,
            [r.randint(0, 2) for _ in range(n)],
            [r.randint(1, 2)] * n,
            groups,
        ), {}

    return build


for n in (1, 2, 3):
    CASES[f"conv{n}d.default"] = [convolution(n)]
    CASES[f"conv_transpose{n}d." + ("default" if n == 1 else "input")] = [convolution(n, True)]
    CASES[f"conv{n}d.padding"] = [
        lambda r, n=n: (lambda a: ((a[0], a[1], a[2], [1] * n, r.choice(["same", "valid"]), a[5], a[6]), {}))(
            convolution(n)(r)[0]
        )
    ]


def pool(n, dilation):
    def build(r):
        x = r.tensor([2, 3] + [r.randint(5, 8) for _ in range(n)], [torch.float32])
        if r.random() < 0.2:
            x = x[0]
        args = [x, [r.randint(2, 3) for _ in range(n)], r.choice([[], [1] * n, [2] * n]), [r.randint(0, 1)] * n]
        return (*args, *([[1] * n] if dilation else []), r.choice([True, False])), {}

    return build


for n in (1, 2, 3):
    CASES[f"max_pool{n}d.default"] = [pool(n, True)]
    CASES[f"avg_pool{n}d.default"] = [pool(n, False)]
    CASES[f"adaptive_avg_pool{n}d.default"] = [
        lambda r, n=n: ((r.tensor([2, 3] + [6] * n, F), [r.choice([1, 2, 3]) for _ in range(n)]), {})
    ]
    CASES[f"adaptive_avg_pool{n}d.default"].append(lambda r, n=n: ((r.tensor([2, 3] + [6] * n, F), [1] * n), {}))
CASES["max_pool2d_with_indices.default"] = [pool(2, True)]
CASES["_adaptive_avg_pool2d.default"] = CASES["adaptive_avg_pool2d.default"]
CASES["adaptive_max_pool2d.default"] = [lambda r: ((r.tensor([2, 3, 6, 6], F), [2, 3]), {})]
for op, corners in ("nearest", ()), ("bilinear", (False,)), ("bicubic", (True,)):
    CASES[f"upsample_{op}2d.vec"] = [
        lambda r, c=corners: ((r.tensor([2, 3, 4, 5], F), *r.choice([([7, 9], *c, None), (None, *c, [2.0, 1.5])])), {})
    ]
    CASES[f"upsample_{op}2d.default"] = [lambda r, c=corners: ((r.tensor([2, 3, 4, 5], F), [7, 9], *c), {})]
CASES["upsample_nearest1d.vec"] = [lambda r: ((r.tensor([2, 3, 4], F), None, [2.0]), {})]
CASES["upsample_trilinear3d.vec"] = [lambda r: ((r.tensor([2, 3, 4, 5, 2], F), None, False, [2.0, 2.0, 2.0]), {})]
CASES["pixel_shuffle.default"] = [lambda r: ((r.tensor([2, 8, 3, 4], F), 2), {})]
CASES["pixel_unshuffle.default"] = [lambda r: ((r.tensor([2, 2, 4, 6], F), 2), {})]
CASES["channel_shuffle.default"] = [lambda r: ((r.tensor([2, 4, 3, 5], F), 2), {})]
CASES["im2col.default"] = [
    lambda r: ((r.tensor([2, 3, 5, 6], F), [2, 3], [1, r.randint(1, 2)], [r.randint(0, 1), 1], [1, 2]), {})
]
CASES["col2im.default"] = [lambda r: ((r.tensor([2, 12, 9], F), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]), {})]
CASES["grid_sampler_2d.default"] = [lambda r: ((r.tensor([2, 3, 4, 5], F), r.tensor([2, 3, 3, 2], F), 0, 0, False), {})]

CASES["_weight_norm.default"] = [
    lambda r: (
        lambda d: (
            (r.tensor([4, 3, 5], F), r.values([n if i == d else 1 for i, n in enumerate([4, 3, 5])], torch.float32), d),
            {},
        )
    )(r.randint(0, 2))
]

REDUCTIONS = (0, 1, 2)
for op in "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss hinge_embedding_loss".split():

    def loss(r, op=op):
        a = r.sizes()
        target = (
            r.tensor(a, F)
            if op not in ("soft_margin_loss", "hinge_embedding_loss")
            else r.values(a, torch.bool).float() * 2 - 1
        )
        return (r.tensor(a, F), target), {"reduction": r.choice(REDUCTIONS)}

    CASES[op + ".default"] = [loss]
CASES["binary_cross_entropy.default"] = [
    lambda r: (lambda a: ((r.tensor(a, F, 0.1, 0.9), r.tensor(a, F, 0, 1)), {"reduction": r.choice(REDUCTIONS)}))(
        r.sizes()
    )
]
CASES["binary_cross_entropy_with_logits.default"] = [
    lambda r: (lambda a: ((r.tensor(a, F), r.tensor(a, F, 0, 1)), {"reduction": r.choice(REDUCTIONS)}))(r.sizes())
]
CASES["kl_div.default"] = [
    lambda r: (
        lambda a: (
            (r.tensor(a, F), r.tensor(a, F, 0, 1)),
            {"reduction": r.choice(REDUCTIONS), "log_target": r.choice([True, False])},
        )
    )(r.sizes())
]
for op in ("nll_loss_nd", "cross_entropy_loss"):
    CASES[op + ".default"] = [
        lambda r: (
            lambda t: (
                (
                    t,
                    torch.randint(0, 4, [t.shape[0]] + list(t.shape[2:])),
                    r.choice([None, r.values([4], torch.float32, 1, 2)]),
                    r.choice(REDUCTIONS),
                    r.choice([-100, 2]),
                ),
                {},
            )
        )(channels(r, r.choice([2, 4]), 4))
    ]
CASES["cross_entropy_loss.default"].append(
    lambda r: (
        (
            r.values([3, 4], torch.float32),
            torch.softmax(r.values([3, 4], torch.float32), 1),
            None,
            r.choice(REDUCTIONS),
            -100,
            r.choice([0.0, 0.1]),
        ),
        {},
    )
)
CASES["nll_loss_forward.default"] = [
    lambda r: ((r.values([3, 4], torch.float32), torch.randint(0, 4, [3]), None, r.choice(REDUCTIONS), -100), {})
]
CASES["cosine_similarity.default"] = [
    lambda r: (lambda a: ((r.tensor(a, F, 1, 3), r.tensor(a, F, 1, 3), r.dim(len(a))), {}))(r.sizes(r.randint(1, 3)))
]
CASES["cdist.default"] = [lambda r: ((r.tensor([2, 3, 4], F), r.tensor([2, 5, 4], F), r.choice([1.0, 2.0])), {})]
