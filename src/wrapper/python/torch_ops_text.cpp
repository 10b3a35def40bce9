#include "wrapper/python/torch_ops_text.h"

#include <fmt/format.h>

namespace coil::wrapper {
namespace {

constexpr const char* kTorchHead = R"py(

# ---- Library operations in torch, for when the runtime is not there. Sums are added in another order then, so last bits may differ ----
)py";

/// Matrix products and convolutions: what may follow them.
constexpr const char* kPostOps = R"py(
POST_OPS = {
    "relu": torch.relu, "gelu_erf": torch.nn.functional.gelu, "gelu_tanh": lambda y: torch.nn.functional.gelu(y, approximate="tanh"), "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "clip": lambda y, low, high: y.clamp(low, high), "hardswish": torch.nn.functional.hardswish,
    "hardsigmoid": torch.nn.functional.hardsigmoid, "elu": torch.nn.functional.elu, "leaky_relu": torch.nn.functional.leaky_relu, "scale": lambda y, a, b: y * a + b,
}


def finish(y, post, operands, output):
    """Post-operations in f32, and the result into its place."""
    operands = iter(operands)
    if post and y.dtype != torch.float64:
        y = y.float()
    for text in post:
        name, *numbers = text.split(":")
        if name in ("add", "mul"):
            y = getattr(torch, name)(y, next(operands))
        elif name == "sum":
            y = y + output
        else:
            y = POST_OPS[name](y, *map(float, numbers))
    output.copy_(y)
)py";

struct Row {
  const char* op;
  bool post_ops;
  const char* text;
};

constexpr Row kRows[] = {
    {"linear", true, R"py(
def torch_linear(inputs, outputs, post=(), has_bias=0, weight_transposed=0, **_):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    y = torch.nn.functional.linear(x, weight.t() if weight_transposed else weight)
    finish(y if bias is None else y + bias, post, operands, outputs[0])
)py"},
    {"matmul", true, R"py(
def torch_matmul(inputs, outputs, post=(), has_bias=0, **_):
    a, b, *operands = inputs
    y = torch.matmul(a, b)
    finish(y + operands.pop(0) if has_bias else y, post, operands, outputs[0])
)py"},
    {"convolution", true, R"py(
def torch_convolution(inputs, outputs, stride, padding, padding_end, dilation, transposed, output_padding, groups, has_bias=0, post=(), **_):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    if padding != padding_end:  # what is more on one side is padded by hand
        least = [min(a, b) for a, b in zip(padding, padding_end)]
        extra = [n for a, b, c in reversed(list(zip(padding, padding_end, least))) for n in (a - c, b - c)]
        x, padding = torch.nn.functional.pad(x, extra), least
    finish(torch.convolution(x, weight, bias, stride, padding, dilation, bool(transposed), output_padding, groups), post, operands, outputs[0])
)py"},
    {"winograd_products", false, R"py(
def torch_winograd_products(inputs, outputs, recover, padding, padding_end):
    v, u, x, bounded = inputs
    if bounded.item():
        outputs[0].copy_(torch.matmul(v, u))
        return
    rows = torch.tensor(recover, dtype=torch.float64).view(3, -1)  # the convolution itself, put where the products begin
    weight = torch.einsum("ai,bj,ijco->ocab", rows, rows, u.double().unflatten(0, (rows.shape[1], -1))).float()
    y = torch.nn.functional.conv2d(torch.nn.functional.pad(x, [padding[1], padding_end[1], padding[0], padding_end[0]]), weight)
    outputs[0].view(-1)[:y.numel()].copy_(y.permute(0, 2, 3, 1).reshape(-1))
)py"},
    {"sort", false, R"py(
def torch_sort(inputs, outputs, dim, descending=0, first=0, middle=0, **_):
    x = inputs[0] if inputs[0].dim() else inputs[0].view(1)
    first = max(x.shape[dim] - 1, 0) // 2 if middle else first
    for output, value in zip(outputs, torch.sort(x, stable=True, dim=dim, descending=bool(descending))):
        output.copy_(value.narrow(dim, first, output.shape[dim] if output.dim() else 1).view(output.shape))
)py"},
    {"topk", false, R"py(
def torch_topk(inputs, outputs, dim, largest=1, **_):
    values, indices = torch.sort(inputs[0], stable=True, dim=dim, descending=bool(largest))  # as Coil does: of equal values the first
    kept = outputs[0].shape[dim] if inputs[0].dim() else 1
    narrow = lambda t: t.narrow(dim, 0, kept) if t.dim() else t
    outputs[0].copy_(narrow(values)), outputs[1].copy_(narrow(indices))
)py"},
    {"all_bounded", false, R"py(
def torch_all_bounded(inputs, outputs, limit):
    x, *before = inputs
    outputs[0].fill_(bool((x.abs() <= limit).all()) and all(flag.item() for flag in before))
)py"},
    {"assert_finite", false, R"py(
def torch_assert_finite(inputs, outputs, name, nan, inf):
    check(not (nan and inputs[0].isnan().any()), f"{name} holds NaN")
    check(not (inf and inputs[0].isinf().any()), f"{name} holds an infinity")
)py"},
    {"assert_aligned", false, R"py(
def torch_assert_aligned(inputs, outputs, name, bytes):
    check(inputs[0].data_ptr() % bytes == 0, f"{name} lies at an address that is no multiple of {bytes}")
)py"},
    {"lu_factor", false, R"py(
def torch_lu_factor(inputs, outputs):
    for output, value in zip(outputs, torch.linalg.lu_factor_ex(inputs[0])):
        output.copy_(value)
)py"},
    {"lu_solve", false, R"py(
def torch_lu_solve(inputs, outputs, left=1, adjoint=0):
    outputs[0].copy_(torch.linalg.lu_solve(*inputs, left=bool(left), adjoint=bool(adjoint)))
)py"},
    {"lu_permutation", false, R"py(
def torch_lu_permutation(inputs, outputs):
    m = outputs[0].shape[-1]
    p, _, _ = torch.lu_unpack(torch.empty(*inputs[0].shape[:-1], m, inputs[0].shape[-1]), inputs[0], unpack_data=False)
    outputs[0].copy_((p * torch.arange(m).unsqueeze(-1)).sum(-2))
)py"},
    {"cholesky", false, R"py(
def torch_cholesky(inputs, outputs, upper=0):
    for output, value in zip(outputs, torch.linalg.cholesky_ex(inputs[0], upper=bool(upper))):
        output.copy_(value)
)py"},
    {"solve_triangular", false, R"py(
def torch_solve_triangular(inputs, outputs, upper, left=1, unit=0):
    outputs[0].copy_(torch.linalg.solve_triangular(*inputs, upper=bool(upper), left=bool(left), unitriangular=bool(unit)))
)py"},
    {"ldl_factor", false, R"py(
def torch_ldl_factor(inputs, outputs):
    for output, value in zip(outputs, torch.linalg.ldl_factor_ex(inputs[0])):
        output.copy_(value)
)py"},
    {"ldl_solve", false, R"py(
def torch_ldl_solve(inputs, outputs):
    outputs[0].copy_(torch.linalg.ldl_solve(*inputs))
)py"},
    {"qr", false, R"py(
def torch_qr(inputs, outputs, r_only=0):
    mode = "r" if r_only else "complete" if outputs[0].shape[-1] != min(inputs[0].shape[-2:]) else "reduced"
    for output, value in zip(reversed(outputs), reversed(torch.linalg.qr(inputs[0], mode))):
        output.copy_(value)
)py"},
    {"geqrf", false, R"py(
def torch_geqrf(inputs, outputs):
    for output, value in zip(outputs, torch.geqrf(inputs[0])):
        output.copy_(value)
)py"},
    {"householder_product", false, R"py(
def torch_householder_product(inputs, outputs):
    outputs[0].copy_(torch.linalg.householder_product(*inputs))
)py"},
    {"ormqr", false, R"py(
def torch_ormqr(inputs, outputs, left=1, transpose=0):
    outputs[0].copy_(torch.ormqr(*inputs, left=bool(left), transpose=bool(transpose)))
)py"},
    {"svd", false, R"py(
def torch_svd(inputs, outputs, values_only=0):
    values = [torch.linalg.svdvals(inputs[0])] if values_only else torch.linalg.svd(inputs[0], full_matrices=outputs[0].shape[-1] + outputs[2].shape[-2] != 2 * min(inputs[0].shape[-2:]))
    for output, value in zip(outputs, values):
        output.copy_(value)
)py"},
    {"eigh", false, R"py(
def torch_eigh(inputs, outputs, values_only=0, upper=0):
    for output, value in zip(outputs, torch.linalg.eigh(inputs[0], "U" if upper else "L")):
        output.copy_(value)
)py"},
    {"eig", false, R"py(
def torch_eig(inputs, outputs, values_only=0):
    for i, value in enumerate(torch.linalg.eig(inputs[0])[: 1 if values_only else 2]):
        outputs[2 * i].copy_(value.real), outputs[2 * i + 1].copy_(value.imag)
)py"},
    {"matrix_exp", false, R"py(
def torch_matrix_exp(inputs, outputs):
    outputs[0].copy_(torch.linalg.matrix_exp(inputs[0]))
)py"},
};

}  // namespace

std::string python_torch_ops(const std::set<std::string>& ops) {
  std::string functions, table;
  bool post_ops = false;
  for (const Row& row : kRows) {
    if (!ops.contains(row.op)) continue;
    post_ops = post_ops || row.post_ops;
    functions += fmt::format("\n{}", row.text);
    table += fmt::format("{}\"{}\": torch_{}", table.empty() ? "" : ", ", row.op, row.op);
  }
  if (functions.empty()) return "\nTORCH_OPS = {}\n";
  return kTorchHead + std::string(post_ops ? kPostOps : "") + functions + "\n\nTORCH_OPS = {" + table + "}\n";
}

}  // namespace coil::wrapper
