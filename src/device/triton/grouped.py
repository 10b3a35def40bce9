"""Runs of rows times a matrix for each run, in 16 bits, where the runs end being data."""

import triton
import triton.language as tl

from .values import c_fail


# @piece c_end_of_run
# Runs do not end before they begin, nor behind the last row; the host is told of one that does, which is empty then.
@triton.jit
def c_end_of_run(end, begin, rows, status):
    wrong = (end < begin) | (end > rows)
    c_fail(wrong, status)
    return tl.where(wrong, begin, end)


# @piece c_group_of
# Tiles of rows are counted run after run; behind the last run, as one more, come the rows of none. Of a tile: its run,
# its first row, and the row behind its run's last.
@triton.jit
def c_group_of(tile, ends, ends_step, groups, rows, status, ROWS: tl.constexpr):
    none = tile * 0
    group, first, last, begin, before = none + groups, none + rows, none + rows, none, none
    for g in range(0, groups + 1):
        end = none + rows
        if g < groups:
            end = c_end_of_run(tl.cast(tl.load(ends + g * ends_step), tl.int64), begin, rows, status)
        tiles = (end - begin + ROWS - 1) // ROWS
        here = (tile >= before) & (tile < before + tiles)
        group = tl.where(here, none + g, group)
        first = tl.where(here, begin + (tile - before) * ROWS, first)
        last = tl.where(here, end, last)
        begin = end
        before += tiles
    return group, first, last


# @piece c_grouped_product
@triton.jit
def c_grouped_product(
    x,
    x_row,
    w,
    w_group,
    w_row,
    w_step,
    ends,
    ends_step,
    groups,
    y,
    y_row,
    rows,
    depth,
    columns,
    status,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    across = (columns + COLUMNS - 1) // COLUMNS
    tile = tl.cast(tl.program_id(0), tl.int64)
    group, first, last = c_group_of(tile // across, ends, ends_step, groups, rows, status, ROWS)
    if first < last:
        row = first + tl.arange(0, ROWS)
        column = tile % across * COLUMNS + tl.arange(0, COLUMNS)
        inside_row, inside_column = (row < last)[:, None], (column < columns)[None, :]
        sums = tl.zeros([ROWS, COLUMNS], tl.float32)
        if group < groups:
            matrix = w + group * w_group
            for k in range(0, depth, DEPTH):
                at = k + tl.arange(0, DEPTH)
                left = tl.load(x + (row[:, None] * x_row + at[None, :]), inside_row & (at < depth)[None, :], other=0.0)
                right = tl.load(
                    matrix + (at[:, None] * w_row + column[None, :] * w_step),
                    inside_column & (at < depth)[:, None],
                    other=0.0,
                )
                sums = tl.dot(left, right, sums)
        tl.store(
            y + (row[:, None] * y_row + column[None, :]), tl.cast(sums, y.dtype.element_ty), inside_row & inside_column
        )
