"""More layers drawn at random (layer_draws.py): convolutions, what reads and writes at places that are data, orders,
running sums, shapes put together and taken apart, matrices that are solved, recurrent layers.
"""


def convolution(d):
    spatial = d.pick(1, 2, 2, 2, 3)
    groups = d.pick(1, 1, 1, 2, 4)
    channels, out = groups * d.pick(1, 2, 3, 8, 16), groups * d.pick(1, 2, 5, 8, 16)
    if d.chance(0.2):
        groups, out = channels, channels * d.pick(1, 2)
    kernel = [d.pick(1, 2, 3, 5) for _ in range(spatial)]
    sizes = [max(k, d.size()) for k in kernel]
    d.values("x", [d.pick(1, 2, 3), channels, *([min(s, 8) for s in sizes] if spatial == 3 else sizes)])
    settings = f"{d.each(spatial, 1, 1, 2, 3)}, {d.each(spatial, 0, 0, 1, 2)}"
    if d.chance(0.3):
        d.values("w", [channels, out // groups, *kernel])
        more = f"{d.each(spatial, 0, 0, 1)}, {groups}, {d.each(spatial, 1, 1, 2)}"
        return f"F.conv_transpose{spatial}d(<x>, w, {d.maybe('b', [out])}, {settings}, {more})"
    d.values("w", [out, channels // groups, *kernel])
    if d.chance(0.15):
        settings = f"1, '{d.pick('same', 'valid')}'"
    return f"F.conv{spatial}d(<x>, w, {d.maybe('b', [out])}, {settings}, {d.each(spatial, 1, 1, 2)}, {groups})"


def conv_block(d):
    channels, out = d.channels(), d.pick(4, 8, 16)
    d.values("x", [d.pick(1, 2), channels, max(3, d.size()), max(3, d.size())])
    conv = f"F.conv2d(<x>, {d.values('w', [out, channels, 3, 3])}, {d.maybe('b', [out])}, {d.pick(1, 2)}, 1)"
    return d.pick(
        f"F.relu(F.batch_norm({conv}, None, None, training=True))",
        f"F.silu(F.group_norm({conv}, 2))",
        f"F.max_pool2d(F.relu({conv}), 2, 2, 1)",
        f"F.interpolate({conv}, scale_factor=2) * 0.5",
        f"torch.cat([{conv}, {conv} * 2], 1)",
        f"{conv}.flatten(2).transpose(1, 2).softmax(-1)",
        f"F.prelu({conv}, {d.values('p', [out])})",
    )


def rows(d):
    shape = [d.pick(2, 3, 5, 9), d.pick(1, 3, 4, 8, 17)] + ([d.pick(1, 2, 5)] if d.chance(0.4) else [])
    d.values("x", shape)
    return shape


def indexed(d):
    shape = rows(d)
    dim = d.random.randrange(len(shape))
    count = d.pick(1, 2, 5, 7)
    d.numbers("i", [count], shape[dim])
    d.numbers("j", [*shape[:dim], count, *shape[dim + 1 :]], shape[dim])
    wide = [*shape[:dim], count, *shape[dim + 1 :]]
    return d.pick(
        f"<x>.index_select({dim}, i)",
        f"<x>.gather({dim}, j)",
        f"torch.take_along_dim(<x>, j, {dim})",
        f"<x>[{':, ' * dim}i]",
        f"<x>[{':, ' * dim}i - {shape[dim]}]",
        "<x>.take(i)",
        f"<x>.scatter({dim}, j, 2.0)",
        f"<x>.scatter_add({dim}, j, {d.values('y', wide)})",
        f"<x>.index_add({dim}, i, {d.values('y', wide)}, alpha={d.pick(1, -0.5)})",
        f"<x>.index_copy({dim}, i[:1], {d.values('y', wide)}.narrow({dim}, 0, 1))",
        f"<x>.index_fill({dim}, i, 0.5)",
        f"<x>.scatter_reduce({dim}, j, {d.values('y', wide)}, '{d.pick('sum', 'mean', 'amax', 'amin')}', "
        f"include_self={d.chance(0.5)})",
        f"<x>.index_put((i % {shape[0]},), {d.values('y', [count, *shape[1:]])}, accumulate=True)",
        f"<x>.masked_fill({d.values('y', shape, graded=False)} > 0, 0.25)",
        f"torch.where({d.values('y', shape, graded=False)} > 0, <x>, y)",
        f"<x>.masked_scatter({d.values('y', shape, graded=False)} > 0, {d.values('z', shape)})",
        f"F.one_hot(i, {shape[dim]}).to(x.dtype) @ <x>.movedim({dim}, 0).flatten(1)",
        f"torch.bucketize(<x>, {d.values('y', [5], graded=False)}.sort()[0]).to(x.dtype) + <x>",
        f"torch.searchsorted({d.values('y', [5], graded=False)}.sort()[0], <x>, right={d.chance(0.5)}) * <x>",
        f"<x>.index_reduce({dim}, i, {d.values('y', wide)}, '{d.pick('mean', 'amax', 'amin')}')",
        f"torch.diagonal_scatter(<x>, {d.values('y', [min(shape[:2]), *shape[2:]][::-1])}.movedim(0, -1) * 1)",
        f"torch.select_scatter(<x>, {d.values('y', shape[1:])}, 0, -1)",
        f"torch.slice_scatter(<x>, {d.values('y', [(shape[0] + 1) // 2, *shape[1:]])}, 0, 0, None, 2)",
    )


def ordered(d):
    shape = rows(d)
    dim = d.random.randrange(-len(shape), len(shape))
    k = d.random.randint(1, shape[dim])
    down = d.chance(0.5)
    return d.pick(
        f"<x>.sort({dim}, descending={down}, stable=True)[0]",
        f"<x>.topk({k}, {dim}, largest={down})[0]",
        f"<x>.kthvalue({k}, {dim})[0]",
        f"<x>.median({dim})[0]",
        f"<x>.nanmedian({dim})[0]",
        f"<x>.cumsum({dim})",
        f"<x>.cumprod({dim})",
        f"<x>.cummax({dim})[0]",
        f"<x>.cummin({dim})[0]",
        f"<x>.logcumsumexp({dim})",
        f"<x>.diff(dim={dim})",
        f"torch.trapezoid(<x>, dim={dim})",
        f"<x>.quantile(0.3, {dim})",
        f"<x>.aminmax(dim={dim})[{d.pick(0, 1)}]",
        f"<x>.max({dim})[0] - <x>.min({dim})[0]",
        f"<x>.prod({dim})",
        "<x>.renorm(2, 0, 1.0)",
        "torch.histc(<x>.detach(), 5, -2, 2) + <x>.sum()",
        "torch.heaviside(<x>, x.new_tensor(0.5)) * <x>",
        f"<x>.nansum({dim})",
        f"<x>.unfold({dim}, 1, 1)",
        "torch.cov(<x>.flatten(1))",
        "torch.corrcoef(<x>.flatten(1)[:, :8])",
    )


def shaped(d):
    shape = rows(d)
    dim = d.random.randrange(-len(shape), len(shape))
    times = d.pick(1, 2, 3)
    return d.pick(
        f"<x>.roll({d.pick(1, -2)}, {dim})",
        f"<x>.flip({dim})",
        f"<x>.rot90({d.pick(1, 2, 3)})",
        f"<x>.tile({times}, 2)",
        f"<x>.repeat({', '.join(['1'] * (len(shape) - 1))}, {times})",
        f"<x>.repeat_interleave({times}, {dim})",
        f"<x>.tril({d.pick(-1, 0, 1)}) + <x>.triu({d.pick(-1, 0, 1)})",
        "<x>.diagonal(0, 0, 1).clone()",
        f"torch.diag_embed(<x>, {d.pick(0, 1, -1)})",
        f"torch.stack(<x>.unbind({dim})[::-1], {d.pick(0, -1)})",
        f"torch.cat([<x>, <x>.flip(0)], {dim})",
        "torch.hstack([<x>, x]) * 2",
        "torch.kron(<x>[:2, :2].flatten(1), <x>[:3, :3].flatten(1))",
        "torch.block_diag(<x>[0].reshape(1, -1), <x>.flatten(1))",
        "torch.cartesian_prod(<x>.flatten()[:3], <x>.flatten()[:4])",
        "torch.combinations(<x>.flatten()[:5], 2)",
        "<x>.swapaxes(0, -1).reshape(-1)",
        "<x>.movedim(0, -1).contiguous().view(-1)",
        "<x>.expand(2, *x.shape).flatten(0, 1)",
        f"F.pad(<x>, ({d.pick(0, 1, 2)}, {d.pick(-1, 1)}), value={d.pick(0.0, 1.5)})",
        "torch.meshgrid(<x>.flatten()[:3], x.flatten()[:2], indexing='ij')[0]",
        "torch.outer(<x>.flatten(), x.flatten()[:7])",
        "torch.cross(<x>.flatten()[:3], x.flatten()[-3:], dim=0)",
        "torch.tensordot(<x>, x, dims=([0], [0]))",
        "torch.vander(<x>.flatten()[:5], 4)",
        f"<x>.as_strided(({min(2, shape[0])}, {shape[1]}), ({shape[1]}, 1)) * 2",
    )


def solved(d):
    n, b = d.pick(1, 2, 3, 5, 8), d.pick(1, 2)
    d.values("x", [b, n, n])
    spd = f"(<x> @ <x>.mT + {n} * torch.eye({n}, dtype=x.dtype, device=x.device))"
    return d.pick(
        f"torch.linalg.inv({spd})",
        f"torch.linalg.cholesky({spd})",
        f"torch.linalg.solve({spd}, {d.values('y', [b, n, 3])})",
        f"torch.linalg.solve_triangular({spd}.tril(), {d.values('y', [b, n, 2])}, upper=False)",
        f"torch.linalg.det({spd})",
        f"torch.logdet({spd})",
        f"torch.linalg.slogdet({spd})[1]",
        "torch.matrix_exp(<x> * 0.1)",
        f"torch.linalg.matrix_power(<x> * 0.3, {d.pick(0, 1, 2, 3)})",
        f"torch.linalg.eigvalsh({spd})",
        f"torch.linalg.svdvals({spd})",
        f"torch.linalg.qr({spd})[1].abs()",
        f"torch.linalg.pinv({spd})",
        f"torch.linalg.matrix_norm(<x>, '{d.pick('fro', 'nuc')}')",
        "torch.linalg.multi_dot([<x>[0], x[0], x[-1]])",
        "torch.baddbmm(x, <x>, x, beta=0.5)",
        "torch.linalg.vecdot(<x>, x)",
        "torch.chain_matmul(<x>[0], x[0])",
    )


def recurrent(d):
    steps, batch, width, hidden = d.pick(1, 2, 5), d.pick(1, 3), d.pick(2, 5), d.pick(1, 4, 8)
    d.values("x", [steps, batch, width])
    gates, name = d.pick((4, "lstm"), (3, "gru"), (1, "rnn_tanh"), (1, "rnn_relu"))
    d.values("w", [gates * hidden, width]), d.values("u", [gates * hidden, hidden])
    d.values("b", [gates * hidden]), d.values("c", [gates * hidden])
    h = f"torch.zeros(1, {batch}, {hidden}, dtype=x.dtype, device=x.device)"
    h = f"[{h}, {h} + 0.5]" if name == "lstm" else f"{h} + 0.5"
    return f"torch.{name}(<x>, {h}, [w, u, b, c], True, 1, 0.0, False, False, False)[0]"


KINDS = [convolution, convolution, convolution, conv_block, conv_block, indexed, indexed, indexed, ordered, ordered]
KINDS += [shaped, shaped, shaped, solved, recurrent]
