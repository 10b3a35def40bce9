"""In-place writes: to computed values, to inputs, through views."""

import torch
import torch.nn.functional as F

from cases.data import Family

inplace = Family("inplace")


def statements(*lines):
    """A function of x and y that runs the lines and returns what the last one says."""

    def function(x, y):
        scope = {"x": x, "y": y, "torch": torch, "F": F}
        for line in lines[:-1]:
            exec(line, scope)
        return eval(lines[-1], scope)

    return function


PROGRAMS = {
    "add_to_computed": ("t = x * 2", "t.add_(y)", "t"),
    "add_to_input": ("x.add_(y)", "x * 1"),
    "return_written_input": ("x.mul_(3)", "x"),
    "write_then_read": ("x.add_(1)", "z = x * y", "x.mul_(2)", "(z, x + 0)"),
    "read_before_write": ("z = x + y", "x.zero_()", "z"),
    "slice_of_input": ("x[:, 1:3] = y[:, :2]", "x.sum()"),
    "slice_computed": ("t = x.clone()", "t[1] = 0", "t"),
    "row_add": ("x[2] += y[0]", "x + 1"),
    "transposed_view": ("x.t().add_(y.t())", "x * 2"),
    "chain_of_views": ("x.view(3, 2, 6)[1:].transpose(0, 1)[1].mul_(5)", "x + 0"),
    "column": ("x.select(1, 2).fill_(7)", "x + 0"),
    "diagonal": ("x.diagonal().zero_()", "x + 0"),
    "fill_diagonal": ("x.fill_diagonal_(3)", "(x + 0, y.clone().fill_diagonal_(2.5))"),
    "fill_diagonal_that_wraps": ("x.fill_diagonal_(3, True)", "(x + 0, y.repeat(3, 1).fill_diagonal_(4, wrap=True))"),
    "fill_diagonal_of_integers": ("t = (x * 9).long()[:3, :3].clone()", "t.fill_diagonal_(2.5)", "t"),
    "fill_diagonal_of_a_cube": ("t = torch.ones(3, 3, 3)", "t.fill_diagonal_(2)", "t + x[0, 0]"),
    "comparisons_by_their_long_names": (
        "t = x.clone()",
        "t[0].greater_(y[0]), t[1].less_equal_(0.1), t[2].not_equal_(y[2]), t[3].less_(0), t[:, 1].greater_equal_(0.5)",
        "t",
    ),
    "rows_renormed": ("t = x * 3", "t[:2].renorm_(2, 0, 1.5)", "x.renorm_(1, 1, 2)", "(t, x + 0)"),
    "gamma_functions": (
        "t = x.abs() + 2",
        "t[0].igamma_(y[0].abs())",
        "t[1].igammac_(y[1].abs())",
        "t[2].mvlgamma_(2)",
        "t",
    ),
    "powers_in_f64": ("t = x.double().abs()", "t[0].float_power_(2)", "t[1].float_power_(y[1])", "t"),
    "conjugates": ("z = torch.complex(x, y)", "z[1].conj_physical_()", "x.conj_physical_()", "(z * 1, x + 0)"),
    "real_and_imaginary_parts": (
        "z = torch.complex(x, y)",
        "z.real.mul_(2)",
        "z.imag[0] = 1",
        "torch.view_as_real(z)[2, :, 1] += 1",
        "(z + 1, z.real, torch.view_as_real(z * 1))",
    ),
    "pairs_seen_as_complex": (
        "p = torch.stack([x, y], -1)",
        "z = torch.view_as_complex(p)",
        "z *= 1j",
        "z.imag.neg_()",
        "p[..., 0] += 1",
        "(p * 1, z * 2)",
    ),
    "one_of_an_expansion": (
        "e = x.unsqueeze(1).expand(-1, 3, -1)",
        "e[:, 1].mul_(y)",
        "e[2, 0, 0] = 7",
        "x[:1].expand(3, -1)[2].add_(1)",
        "(e.sum(1), x + 0)",
    ),
    "at_least_two_dimensions": (
        "r = torch.atleast_2d(x[0])",
        "r[0, 1:] = 5",
        "torch.atleast_3d(x).neg_()",
        "(r * 2, x + 0)",
    ),
    "broadcast_together": (
        "a, b = torch.broadcast_tensors(x[:1], y)",
        "b.mul_(2)",
        "a[1, 2] = 7",
        "x.add_(1)",
        "(a + b, x + 0, y + 0)",
    ),
    "grids_of_one_tensor": (
        "g, h = torch.meshgrid(x[0], y[1], indexing='xy')",
        "g[1].exp_()",
        "h[:, 2] = 3",
        "(g + h, x * 1, y * 1)",
    ),
    "tensors_given_back": (
        "torch.conj_physical(x).add_(1)",
        "x.sum_to_size(x.shape).mul_(2)",
        "torch.cartesian_prod(x[1]).neg_()",
        "torch.real(y)[0] = 3",
        "(x + 0, y + 0)",
    ),
    "copy": ("x.copy_(y)", "x * 2"),
    "copy_broadcast": ("x.copy_(y[0])", "x * 2"),
    "copy_slice": ("x[::2].copy_(y[:3])", "x * 2"),
    "fill": ("x.fill_(2.5)", "x * 2"),
    "masked_fill": ("x.masked_fill_(y > 0, -1)", "x + 0"),
    "clamp": ("x.clamp_(-0.5, 0.5)", "x + 0"),
    "relu": ("F.relu(x, inplace=True)", "x * 2"),
    "chain": ("t = x + y", "t.mul_(2).add_(1).tanh_()", "t"),
    "index_put": ("x[torch.tensor([0, 2])] = y[:2]", "x + 0"),
    "index_put_mask": ("x[y > 0] = 9.0", "x + 0"),
    "index_add": ("x.index_add_(0, torch.tensor([1, 1, 3]), y[:3])", "x + 0"),
    "scatter": ("x.scatter_(1, torch.tensor([[0, 1], [2, 3]]), 4.0)", "x + 0"),
    "two_views": ("a = x[:3]", "b = x[3:]", "a.add_(1)", "b.mul_(2)", "x + 0"),
    "overlapping_views": ("a = x[:4]", "b = x[2:]", "a.add_(1)", "b.mul_(2)", "(x + 0, a + 0)"),
    "both_inputs": ("x.add_(y)", "y.add_(x)", "x - y"),
    "view_returned_after_write": ("v = x[1]", "x.mul_(2)", "v + 1"),
    "written_view_of_computed": ("t = x * 1", "v = t[:, 2]", "v.add_(10)", "t"),
    "expand_then_write": ("t = x.sum(0).expand(6, 6).clone()", "t[0] = 1", "t"),
    "cast_in_place": ("x.add_(y.double())", "x + 0"),
    "accumulate": ("t = torch.zeros_like(x)", "for i in range(3): t += x * i", "t"),
    "swap_rows": ("t = x[0].clone()", "x[0] = x[1]", "x[1] = t", "x + 0"),
    "setitem_list": ("x[[0, 1], [1, 2]] = 5.0", "x + 0"),
    "unsqueeze_inplace": ("t = x * 2", "t.unsqueeze_(0)", "t"),
    "cumulative": ("for i in range(1, 6): x[i] += x[i - 1]", "x + 0"),
    "square_inplace": ("x.pow_(2)", "x.sum(1)"),
    "exp_of_written": ("t = (x + 1).exp_()", "t.log_()", "t"),
    "alias_output": ("t = x + y", "(t, t[1], t.t())"),
    "write_after_matmul": ("t = x @ y", "t += x", "t.relu_()", "t"),
    "zero_column_then_sum": ("x[:, 0] = 0", "x.sum(1)"),
}
for name, lines in PROGRAMS.items():
    inplace.add(name, statements(*lines), inplace.normal(6, 6), inplace.normal(6, 6))
inplace.add(
    "unfold",
    statements(
        "t = x * 1", "t[1:3].unfold(1, 3, 3).copy_(y[:2].view(2, 2, 3))", "t.unfold(0, 2, 4)[..., 1].mul_(2)", "t"
    ),
    inplace.normal(6, 6),
    inplace.normal(6, 6),
    exported_only="torch's own decomposition forgets what lies outside the windows",
)
for name, lines in {
    "strided_view_of_bits": (
        "v = x.view(torch.int16).as_strided((2, 2), (4, 1), 1)",
        "v &= 0x3FFF",
        "x.mul_(2)",
        "(v + 0, x + 0)",
    ),
    "strided_view_of_parts": (
        "z = torch.complex(x, y)",
        "v = z.imag.as_strided((2, 3), (8, 2), 1)",
        "v.add_(1)",
        "z.mul_(2)",
        "torch.view_as_real(z).as_strided((3,), (5,), 2).zero_()",
        "(v + 0, torch.view_as_real(z) + 0)",
    ),
}.items():
    inplace.add(
        name,
        statements(*lines),
        inplace.normal(4, 4),
        inplace.normal(4, 4),
        exported_only="torch's own decomposition refuses as_strided behind such views",
    )
inplace.add(
    "one_number_in_an_expansion",
    statements("x[1].expand(4, -1).fill_(2.5)", "x + 0"),
    inplace.normal(6, 6),
    inplace.normal(6, 6),
    exported_only="torch's own decomposition adds up what the expansion has in common",
)
inplace.add(
    "overlapping_windows",
    statements(
        "w = x.unfold(1, 3, 1)",
        "w[2, 1] += 5",
        "w[:, 0, 1].zero_()",
        "y.unfold(0, 3, 2)[:] = 4",
        "(w * 1, x + 0, y + 0)",
    ),
    inplace.normal(6, 6),
    inplace.normal(6, 6),
    exported_only="torch's own decomposition adds up what windows have in common",
)
inplace.add(
    "out",
    lambda x, y: (
        torch.add(x, 1, out=torch.empty_like(x)),
        torch.matmul(y, y.t(), out=torch.empty(6, 6)),
        torch.sum(x, 1, out=torch.zeros(6)),
        torch.mul(x, y, out=x),
        torch.max(y, 1, out=(x[0], torch.zeros(6, dtype=torch.long))),
    ),
    inplace.normal(6, 6),
    inplace.normal(6, 6),
)
inplace.add("int_increment", lambda n: n.add_(1), torch.tensor(41))
inplace.add("int_division", lambda n: n.floor_divide_(2), torch.tensor([7, -7, 8]))
inplace.add("bool_or", lambda a, b: a.logical_or_(b), inplace.bools(64), inplace.bools(64))
inplace.add(
    "bf16_accumulate",
    lambda a, b: a.mul_(0.9).add_(b, alpha=0.1),
    inplace.normal(9, dtype=torch.bfloat16),
    inplace.normal(9, dtype=torch.bfloat16),
)
inplace.add(
    "kv_cache",
    lambda cache, new, p: cache.index_copy_(1, p, new).sum(1),
    inplace.normal(2, 8, 4),
    inplace.normal(2, 1, 4),
    torch.tensor([3]),
)
