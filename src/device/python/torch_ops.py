"""Library operations in torch, of programs for any device; runtime/device/library.h says what they do."""

import contextlib
import math

import torch

from .tensors import check


# @piece attention_scores
def attention_scores(q, k, causal, scale, mask=None):
    scores = q.float() @ k.float().repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf) if causal else scores


# @piece convolution_weights
def torch_convolution_weights(inputs, outputs, stride, padding, dilation, groups, tf32=0, **_):
    x, dy = [t if t.is_floating_point() else t.cpu() for t in inputs]
    cudnn = torch.backends.cudnn
    rounding = (
        cudnn.flags(enabled=True, benchmark=cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=bool(tf32))
        if x.is_cuda and x.dtype == torch.float32
        else contextlib.nullcontext()
    )
    with rounding:
        gradients = torch.ops.aten.convolution_backward(
            dy,
            x,
            outputs[0].to(x.device),
            None,
            stride,
            padding,
            dilation,
            False,
            [0] * (x.dim() - 2),
            groups,
            [False, True, False],
        )
    outputs[0].copy_(gradients[1])


# @piece attention
def torch_attention(inputs, outputs, causal=0, scale=1.0, has_mask=0):
    q, k, v, *masks = inputs
    given = mask = masks[0] if has_mask else None
    if has_mask and causal:  # torch takes one of the two
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mask, causal = mask & seen if mask.dtype == torch.bool else mask.masked_fill(~seen, -math.inf), 0
    if has_mask and mask.dtype not in (torch.bool, q.dtype):
        mask = torch.where(mask == -math.inf, mask, mask.clamp(min=torch.finfo(q.dtype).min)).to(q.dtype)
    y = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, mask, 0.0, bool(causal), scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    outputs[0].copy_(y)
    if len(outputs) > 1:
        outputs[1].copy_(attention_scores(q, k, causal, scale, given).logsumexp(-1))


# @piece attention_backward
def torch_attention_backward(inputs, outputs, causal=0, scale=1.0, has_mask=0):
    dy, q, k, v, y, logs, *mask = inputs
    share = q.shape[1] // k.shape[1]
    wide = lambda t: t.float().repeat_interleave(share, 1)
    p = (attention_scores(q, k, causal, scale, *mask) - logs.unsqueeze(-1)).exp()
    ds = p * (dy.float() @ wide(v).mT - (dy.float() * y).sum(-1, keepdim=True)) * scale
    outputs[0].copy_(ds @ wide(k))
    for output, gradient in ((outputs[1], ds.mT @ q.float()), (outputs[2], p.mT @ dy.float())):
        output.copy_(gradient.unflatten(1, (-1, share)).sum(2))


# @piece grouped_matmul
def torch_grouped_matmul(inputs, outputs):
    x, matrices, offsets = inputs
    first = 0
    for group, end in enumerate(offsets.tolist()):
        check(
            first <= end <= x.shape[0],
            f"grouped_matmul: offset {end} of group {group} is not between {first} and {x.shape[0]}",
        )
        outputs[0][first:end] = x[first:end] @ matrices[group]
        first = end
    outputs[0][first:] = 0


# @piece complex_parts
def torch_complex_parts(inputs, outputs):
    x, y = (torch.view_as_real(t) if t.is_complex() else t for t in (*inputs, *outputs))
    y.copy_(x)


# @piece exchanged
def exchanged(name, *arguments):
    """What a functional collective gives, its values there: torch's process groups carry it out."""
    functional = torch.ops._c10d_functional
    return functional.wait_tensor(getattr(functional, name)(*arguments))


# @piece group_name
def group_name(name):
    return torch.distributed.group.WORLD.group_name if name == "default" else name


# @piece all_reduce
def torch_all_reduce(inputs, outputs, group, reduce):
    for x, y in zip(inputs, outputs):
        y.copy_(exchanged("all_reduce", x, reduce, group_name(group)))


# @piece one_shot_all_reduce
def torch_one_shot_all_reduce(inputs, outputs, group):
    outputs[0].copy_(exchanged("all_reduce", inputs[0], "sum", group_name(group)))


# @piece two_shot_all_reduce
def torch_two_shot_all_reduce(inputs, outputs, group, by_ranks=0):
    outputs[0].copy_(exchanged("all_reduce", inputs[0], "sum", group_name(group)))


# @piece begin_peer_sum
def torch_begin_peer_sum(inputs, outputs, group):
    """Kernels find no other rank in the table, and so the sum in its operand."""
    outputs[0].copy_(exchanged("all_reduce", inputs[0], "sum", group_name(group)))


# @piece comm_barrier
def torch_comm_barrier(inputs, outputs, group):
    torch.distributed.barrier(torch.distributed.distributed_c10d._resolve_process_group(group_name(group)))


# @piece all_gather
def torch_all_gather(inputs, outputs, group, ranks):
    for x, y in zip(inputs, outputs):
        y.copy_(exchanged("all_gather_into_tensor", x, ranks, group_name(group)))


# @piece reduce_scatter
def torch_reduce_scatter(inputs, outputs, group, ranks, reduce):
    for x, y in zip(inputs, outputs):
        y.copy_(exchanged("reduce_scatter_tensor", x, reduce, ranks, group_name(group)))


# @piece all_to_all
def torch_all_to_all(inputs, outputs, group, input_splits=None, output_splits=None, told=0):
    if told:
        input_splits, output_splits = inputs[1].tolist()
    group = group_name(group)
    if input_splits is None:
        ranks = torch.distributed.distributed_c10d._resolve_process_group(group).size()
        input_splits, output_splits = ([t.shape[0] // ranks] * ranks for t in (inputs[0], outputs[0]))
    outputs[0].copy_(exchanged("all_to_all_single", inputs[0], output_splits, input_splits, group))


# @piece broadcast
def torch_broadcast(inputs, outputs, group, source):
    outputs[0].copy_(exchanged("broadcast", inputs[0], source, group_name(group)))


# @piece messages
UNDER_WAY = {}


def messages():
    """Work of torch's groups that has begun, by where what waits for it lies."""
    return UNDER_WAY


# @piece send
def torch_send(inputs, outputs, group, peer, tag=0):
    group = torch.distributed.distributed_c10d._resolve_process_group(group_name(group))
    messages()[outputs[0].data_ptr()] = group.send([inputs[0].contiguous()], peer, tag)


# @piece receive
def torch_receive(inputs, outputs, group, peer, tag=0):
    group = torch.distributed.distributed_c10d._resolve_process_group(group_name(group))
    messages()[outputs[0].data_ptr()] = group.recv([outputs[0]], peer, tag)


# @piece wait_collective
def torch_wait_collective(inputs, outputs):
    if work := messages().pop(outputs[0].data_ptr(), None):
        work.wait()  # the other calls are done when they return


# @piece recurrent
def torch_recurrent(inputs, outputs, mode, reverse=0, has_bias=0, has_projection=0, batch_invariant=0):
    gates, h, *rest = [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in inputs]
    c = rest.pop(0) if mode == "lstm" else None
    weight, bias, projection = rest.pop(0), rest.pop(0) if has_bias else None, rest.pop(0) if has_projection else None
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        x, s = gates[step], torch.nn.functional.linear(h, weight, bias)
        if mode == "lstm":
            take_in, keep, fresh, out = (x + s).chunk(4, -1)
            c = keep.sigmoid() * c + take_in.sigmoid() * fresh.tanh()
            h = out.sigmoid() * c.tanh()
        elif mode == "gru":
            (reset, keep, fresh), (reset_s, keep_s, fresh_s) = x.chunk(3, -1), s.chunk(3, -1)
            fresh = (fresh + (reset + reset_s).sigmoid() * fresh_s).tanh()
            h = (h - fresh) * (keep + keep_s).sigmoid() + fresh
        else:
            h = getattr(torch, mode)(x + s)
        h = torch.nn.functional.linear(h, projection) if has_projection else h
        outputs[0][step].copy_(h)
    for output, value in zip(outputs[1:], (h, c)):
        output.copy_(value)


# @piece recurrent_training
def torch_recurrent_training(inputs, outputs, mode, from_end=0, has_bias=0, has_projection=0, batch_invariant=0):
    gates, h, *rest = [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in inputs]
    c = rest.pop(0) if mode == "lstm" else None
    weight, bias, projection = rest.pop(0), rest.pop(0) if has_bias else None, rest.pop(0) if has_projection else None
    for step in reversed(range(len(gates))) if from_end else range(len(gates)):
        x, s = gates[step], torch.nn.functional.linear(h, weight, bias)
        if mode == "lstm":
            a, b, fresh, d = (x + s).chunk(4, -1)
            saved = a.sigmoid(), b.sigmoid(), fresh.tanh(), d.sigmoid()
            c = saved[1] * c + saved[0] * saved[2]
            h = saved[3] * c.tanh()
            outputs[4][step].copy_(c)
        else:
            (reset, keep, fresh), (reset_s, keep_s, told) = x.chunk(3, -1), s.chunk(3, -1)
            reset, keep = (reset + reset_s).sigmoid(), (keep + keep_s).sigmoid()
            saved = reset, keep, (fresh + reset * told).tanh(), told
            h = (h - saved[2]) * keep + saved[2]
        h = torch.nn.functional.linear(h, projection) if has_projection else h
        outputs[0][step].copy_(h)
        outputs[3 if mode == "lstm" else 2][step].copy_(torch.cat(saved, -1))
    for output, value in zip(outputs[1:], (h, c) if mode == "lstm" else (h,)):
        output.copy_(value)


# @piece recurrent_backward
def torch_recurrent_backward(inputs, outputs, mode, from_end=0, has_projection=0, batch_invariant=0):
    grads, h, *rest = [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in inputs]
    c = rest.pop(0) if mode == "lstm" else None
    saved, cells = rest.pop(0), rest.pop(0) if mode == "lstm" else None
    weight, projection = rest.pop(0), rest.pop(0) if has_projection else None
    slope = lambda y: y - y * y
    for step in reversed(range(len(grads))) if from_end else range(len(grads)):
        h = h + grads[step]
        if mode == "lstm":
            h = h @ projection if has_projection else h
            (enters, keep, fresh, out), made = saved[step].chunk(4, -1), cells[step].tanh()
            c = c + h * out * (1 - made * made)
            parts = [c * fresh * slope(enters), c * rest[0][step] * slope(keep), c * enters * (1 - fresh * fresh)]
            gates = torch.cat([*parts, h * made * slope(out)], -1)
            c, h = c * keep, gates @ weight
        elif mode == "gru":
            reset, keep, fresh, told = saved[step].chunk(4, -1)
            grad = (h - h * keep) * (1 - fresh * fresh)
            parts = [grad * told * slope(reset), h * (rest[0][step] - fresh) * slope(keep)]
            gates = torch.cat([*parts, grad], -1)
            h = torch.cat([*parts, grad * reset], -1) @ weight + h * keep
        else:
            gates = h * (1 - saved[step] * saved[step] if mode == "tanh" else saved[step] > 0)
            h = gates @ weight
        outputs[0][step].copy_(gates)
    for output, value in zip(outputs[1:], (h, c)):
        output.copy_(value)


# @piece sort
def torch_sort(inputs, outputs, dim, descending=0, first=0, middle=0, **_):
    x = inputs[0] if inputs[0].dim() else inputs[0].view(1)
    first = max(x.shape[dim] - 1, 0) // 2 if middle else first
    for output, value in zip(outputs, torch.sort(x, stable=True, dim=dim, descending=bool(descending))):
        output.copy_(value.narrow(dim, first, output.shape[dim] if output.dim() else 1).view(output.shape))


# @piece topk
def torch_topk(inputs, outputs, dim, largest=1, **_):
    # As Coil does: of equal values the first.
    values, indices = torch.sort(inputs[0], stable=True, dim=dim, descending=bool(largest))
    kept = outputs[0].shape[dim] if inputs[0].dim() else 1
    narrow = lambda t: t.narrow(dim, 0, kept) if t.dim() else t
    outputs[0].copy_(narrow(values)), outputs[1].copy_(narrow(indices))


# @piece all_bounded
def torch_all_bounded(inputs, outputs, limit):
    x, *before = inputs
    outputs[0].fill_(bool((x.abs() <= limit).all()) and all(flag.item() for flag in before))


# @piece assert_finite
def torch_assert_finite(inputs, outputs, name, nan, inf):
    check(not (nan and inputs[0].isnan().any()), f"{name} holds NaN")
    check(not (inf and inputs[0].isinf().any()), f"{name} holds an infinity")


# @piece assert_aligned
def torch_assert_aligned(inputs, outputs, name, bytes):
    check(inputs[0].data_ptr() % bytes == 0, f"{name} lies at an address that is no multiple of {bytes}")


# @piece lu_factor
def torch_lu_factor(inputs, outputs):
    for output, value in zip(outputs, torch.linalg.lu_factor_ex(inputs[0])):
        output.copy_(value)


# @piece lu_solve
def torch_lu_solve(inputs, outputs, left=1, adjoint=0):
    outputs[0].copy_(torch.linalg.lu_solve(*inputs, left=bool(left), adjoint=bool(adjoint)))


# @piece lu_permutation
def torch_lu_permutation(inputs, outputs):
    m = outputs[0].shape[-1]
    p, _, _ = torch.lu_unpack(
        torch.empty(*inputs[0].shape[:-1], m, inputs[0].shape[-1], device=inputs[0].device),
        inputs[0],
        unpack_data=False,
    )
    outputs[0].copy_((p * torch.arange(m, device=p.device).unsqueeze(-1)).sum(-2))


# @piece cholesky
def torch_cholesky(inputs, outputs, upper=0):
    for output, value in zip(outputs, torch.linalg.cholesky_ex(inputs[0], upper=bool(upper))):
        output.copy_(value)


# @piece solve_triangular
def torch_solve_triangular(inputs, outputs, upper, left=1, unit=0):
    outputs[0].copy_(
        torch.linalg.solve_triangular(*inputs, upper=bool(upper), left=bool(left), unitriangular=bool(unit))
    )


# @piece ldl_factor
def torch_ldl_factor(inputs, outputs, hermitian=0):
    for output, value in zip(outputs, torch.linalg.ldl_factor_ex(inputs[0], hermitian=bool(hermitian))):
        output.copy_(value)


# @piece ldl_solve
def torch_ldl_solve(inputs, outputs, hermitian=0):
    outputs[0].copy_(torch.linalg.ldl_solve(*inputs, hermitian=bool(hermitian)))


# @piece qr
def torch_qr(inputs, outputs, r_only=0):
    mode = "r" if r_only else "complete" if outputs[0].shape[-1] != min(inputs[0].shape[-2:]) else "reduced"
    for output, value in zip(reversed(outputs), reversed(torch.linalg.qr(inputs[0], mode))):
        output.copy_(value)


# @piece geqrf
def torch_geqrf(inputs, outputs):
    for output, value in zip(outputs, torch.geqrf(inputs[0])):
        output.copy_(value)


# @piece householder_product
def torch_householder_product(inputs, outputs):
    outputs[0].copy_(torch.linalg.householder_product(*inputs))


# @piece ormqr
def torch_ormqr(inputs, outputs, left=1, transpose=0):
    outputs[0].copy_(torch.ormqr(*inputs, left=bool(left), transpose=bool(transpose)))


# @piece svd
def torch_svd(inputs, outputs, values_only=0):
    values = (
        [torch.linalg.svdvals(inputs[0])]
        if values_only
        else torch.linalg.svd(
            inputs[0], full_matrices=outputs[0].shape[-1] + outputs[2].shape[-2] != 2 * min(inputs[0].shape[-2:])
        )
    )
    for output, value in zip(outputs, values):
        output.copy_(value)


# @piece eigh
def torch_eigh(inputs, outputs, values_only=0, upper=0):
    for output, value in zip(outputs, torch.linalg.eigh(inputs[0], "U" if upper else "L")):
        output.copy_(value)


# @piece eig
def torch_eig(inputs, outputs, values_only=0):
    for i, value in enumerate(torch.linalg.eig(inputs[0].cpu())[: 1 if values_only else 2]):
        outputs[2 * i].copy_(value.real), outputs[2 * i + 1].copy_(value.imag)


# @piece eig_complex
def torch_eig_complex(inputs, outputs, values_only=0):
    for output, value in zip(outputs, torch.linalg.eig(inputs[0].cpu())):
        output.copy_(value)


# @piece matrix_exp
def torch_matrix_exp(inputs, outputs):
    outputs[0].copy_(torch.linalg.matrix_exp(inputs[0]))
