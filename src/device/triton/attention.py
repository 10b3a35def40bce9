"""Attention in f32 as kernels in Triton: forward, and the two kernels of its gradient. A program has a block of rows of
one head; the other operand passes block by block.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


# @piece c_rows
# Rows of a matrix that begins at p: zeros past the last row and past a row's last element.
@triton.jit
def c_rows(p, row, step, rows, count, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    there = (rows < count)[:, None] & (at < width)[None, :]
    return tl.load(p + (rows[:, None] * row + at[None, :] * step), there, other=0.0)


# @piece c_store_rows
@triton.jit
def c_store_rows(p, row, step, rows, count, width, block, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    there = (rows < count)[:, None] & (at < width)[None, :]
    tl.store(p + (rows[:, None] * row + at[None, :] * step), block, there)


# @piece c_times
# Each number as the sum of numbers that the matrix units take.
@triton.jit
def c_times(a, b):
    return tl.dot(a, b, input_precision="tf32x3")


# @piece c_scores
# Scores of queries (rows of q) by keys (rows of k); -inf where a query does not see a key. `mask` begins at the head's
# first query and key; truth values say what is seen, numbers are added.
@triton.jit
def c_scores(q, k, rows, keys, queries, count, scale, mask, mask_row, mask_key, CAUSAL: tl.constexpr):
    scores = c_times(q, tl.trans(k)) * scale
    seen = (rows < queries)[:, None] & (keys < count)[None, :]
    if CAUSAL:
        seen &= keys[None, :] <= rows[:, None]
    if mask is not None:
        masks = tl.load(mask + (rows[:, None] * mask_row + keys[None, :] * mask_key), seen, other=0)
        if masks.dtype == tl.float32:
            scores += masks
        else:
            seen &= masks != 0
    return tl.where(seen, scores, float("-inf"))


# @piece c_weights
# A query that sees no key has no weights.
@triton.jit
def c_weights(scores, logs):
    return tl.where(logs[:, None] == float("-inf"), 0.0, libdevice.exp(scores - logs[:, None]))


# @piece c_keys_seen
# How many keys the queries before the one called `end` see.
@triton.jit
def c_keys_seen(end, count, CAUSAL: tl.constexpr):
    seen = end * 0 + count
    if CAUSAL:
        seen = tl.minimum(end, seen)
    return seen


# @piece c_attention
@triton.jit
def c_attention(
    q,
    q_row,
    q_step,
    k,
    k_row,
    k_step,
    v,
    v_row,
    v_step,
    mask,
    mask_row,
    mask_key,
    y,
    y_row,
    y_step,
    logs,
    logs_row,
    first,
    queries,
    count,
    depth,
    width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    rows = first + tl.arange(0, ROWS)
    query = c_rows(q, q_row, q_step, rows, queries, depth, DEPTH)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    for begin in range(0, c_keys_seen(first + ROWS, count, CAUSAL), KEYS):
        keys = begin + tl.arange(0, KEYS)
        key = c_rows(k, k_row, k_step, keys, count, depth, DEPTH)
        scores = c_scores(query, key, rows, keys, queries, count, scale, mask, mask_row, mask_key, CAUSAL)
        most = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(most == float("-inf"), 0.0, most)
        weights = libdevice.exp(scores - base[:, None])
        before = libdevice.exp(top - base)
        total = total * before + tl.sum(weights, 1)
        value = c_rows(v, v_row, v_step, keys, count, width, WIDTH)
        sums = sums * before[:, None] + c_times(weights, value)
        top = most
    share = tl.where(total == 0, 0.0, 1 / total)  # a query that sees no key gives 0
    c_store_rows(y, y_row, y_step, rows, queries, width, sums * share[:, None], WIDTH)
    if logs is not None:
        tl.store(logs + rows * logs_row, top + libdevice.log(total), rows < queries)


# @piece c_attention_queries
# With P = exp(S - logarithms) and dP = dy v', dS = P * (dP - sum(dy * y)) * scale. dq = dS k.
@triton.jit
def c_attention_queries(
    dy,
    dy_row,
    dy_step,
    q,
    q_row,
    q_step,
    k,
    k_row,
    k_step,
    v,
    v_row,
    v_step,
    y,
    y_row,
    y_step,
    logs,
    logs_row,
    mask,
    mask_row,
    mask_key,
    dq,
    dq_row,
    dq_step,
    sums,
    sums_row,
    first,
    queries,
    count,
    depth,
    width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    rows = first + tl.arange(0, ROWS)
    query = c_rows(q, q_row, q_step, rows, queries, depth, DEPTH)
    slope = c_rows(dy, dy_row, dy_step, rows, queries, width, WIDTH)
    along = tl.sum(slope * c_rows(y, y_row, y_step, rows, queries, width, WIDTH), 1)
    tl.store(sums + rows * sums_row, along, rows < queries)
    log = tl.load(logs + rows * logs_row, rows < queries, other=0.0)
    out = tl.zeros([ROWS, DEPTH], tl.float32)
    for begin in range(0, c_keys_seen(first + ROWS, count, CAUSAL), KEYS):
        keys = begin + tl.arange(0, KEYS)
        key = c_rows(k, k_row, k_step, keys, count, depth, DEPTH)
        value = c_rows(v, v_row, v_step, keys, count, width, WIDTH)
        scores = c_scores(query, key, rows, keys, queries, count, scale, mask, mask_row, mask_key, CAUSAL)
        changes = c_weights(scores, log) * (c_times(slope, tl.trans(value)) - along[:, None]) * scale
        out += c_times(changes, key)
    c_store_rows(dq, dq_row, dq_step, rows, queries, depth, out, DEPTH)


# @piece c_attention_keys
# dk = dS' q and dv = P' dy, over the `heads` of q that share the keys: so far apart in each operand as `…_head` tells.
@triton.jit
def c_attention_keys(
    dy,
    dy_row,
    dy_step,
    dy_head,
    q,
    q_row,
    q_step,
    q_head,
    k,
    k_row,
    k_step,
    v,
    v_row,
    v_step,
    logs,
    logs_row,
    logs_head,
    sums,
    sums_row,
    sums_head,
    mask,
    mask_row,
    mask_key,
    mask_head,
    dk,
    dk_row,
    dk_step,
    dv,
    dv_row,
    dv_step,
    first,
    queries,
    count,
    heads,
    depth,
    width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    keys = first + tl.arange(0, ROWS)
    key = c_rows(k, k_row, k_step, keys, count, depth, DEPTH)
    value = c_rows(v, v_row, v_step, keys, count, width, WIDTH)
    of_keys = tl.zeros([ROWS, DEPTH], tl.float32)
    of_values = tl.zeros([ROWS, WIDTH], tl.float32)
    start = 0
    if CAUSAL:
        start = first // KEYS * KEYS
    for head in range(0, heads):
        for begin in range(start, queries, KEYS):
            rows = begin + tl.arange(0, KEYS)
            query = c_rows(q + head * q_head, q_row, q_step, rows, queries, depth, DEPTH)
            slope = c_rows(dy + head * dy_head, dy_row, dy_step, rows, queries, width, WIDTH)
            log = tl.load(logs + (head * logs_head + rows * logs_row), rows < queries, other=0.0)
            along = tl.load(sums + (head * sums_head + rows * sums_row), rows < queries, other=0.0)
            if mask is None:
                scores = c_scores(query, key, rows, keys, queries, count, scale, None, 0, 0, CAUSAL)
            else:
                there = mask + head * mask_head
                scores = c_scores(query, key, rows, keys, queries, count, scale, there, mask_row, mask_key, CAUSAL)
            weights = c_weights(scores, log)
            of_values += c_times(tl.trans(weights), slope)
            changes = weights * (c_times(slope, tl.trans(value)) - along[:, None]) * scale
            of_keys += c_times(tl.trans(changes), query)
    c_store_rows(dk, dk_row, dk_step, keys, count, depth, of_keys, DEPTH)
    c_store_rows(dv, dv_row, dv_step, keys, count, width, of_values, WIDTH)
