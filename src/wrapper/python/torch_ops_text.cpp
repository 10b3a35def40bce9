#include "wrapper/python/torch_ops_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace coil::wrapper {
namespace {

constexpr const char* kTorchHead = R"py(

# ---- Library operations in torch, for when the runtime is not there. Sums are added in another order then, so last bits may differ ----
)py";

constexpr const char* kTorchHeadOnGpu = R"py(

# ---- Library operations in torch. Sums are added in another order than by Coil's runtime, so last bits may differ ----
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

/// Products on a GPU.
constexpr const char* kProduct = R"py(

def product(a, b, bias, post, operands, output):
    """a @ b and what follows it: rounded once, and written in place where torch can do so."""
    dtype = torch.float32 if post and a.dtype in (torch.float16, torch.bfloat16) else output.dtype
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1]) if b.dim() == 2 else None
    if rows is not None and not post and dtype == a.dtype and (bias is None or bias.dim() == 1) and (output.dim() == 2 or output.is_contiguous()):
        place = output if output.dim() == 2 else output.view(rows.shape[0], b.shape[1])
        torch.mm(rows, b, out=place) if bias is None else torch.addmm(bias, rows, b, out=place)
        return
    if dtype == a.dtype:
        y = torch.matmul(a, b)
    elif rows is not None and a.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        y = torch.mm(rows, b, out_dtype=dtype).view(output.shape)
    else:
        y = torch.matmul(a.to(dtype), b.to(dtype))
    finish(y if bias is None else y + bias, post, operands, output)
)py";

/// Attention where more than its output is wanted.
constexpr const char* kAttentionScores = R"py(

def attention_scores(q, k, causal, scale, mask=None):
    scores = q.float() @ k.float().repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf) if causal else scores
)py";

enum class On : std::uint8_t { Any, Cpu, Cuda };
enum class Needs : std::uint8_t { Nothing, PostOps, Product, AttentionScores };

struct Row {
  const char* op;
  On on;
  Needs needs;
  const char* text;

  bool is_for(DeviceType device, std::string_view wanted) const {
    return wanted == op && (on == On::Any || (on == On::Cuda) == (device == DeviceType::CUDA));
  }
};

constexpr Row kRows[] = {
    {"linear", On::Cpu, Needs::PostOps, R"py(
def torch_linear(inputs, outputs, post=(), has_bias=0, weight_transposed=0, **_):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    y = torch.nn.functional.linear(x, weight.t() if weight_transposed else weight)
    finish(y if bias is None else y + bias, post, operands, outputs[0])
)py"},
    {"matmul", On::Cpu, Needs::PostOps, R"py(
def torch_matmul(inputs, outputs, post=(), has_bias=0, **_):
    a, b, *operands = inputs
    y = torch.matmul(a, b)
    finish(y + operands.pop(0) if has_bias else y, post, operands, outputs[0])
)py"},
    {"convolution", On::Cpu, Needs::PostOps, R"py(
def torch_convolution(inputs, outputs, stride, padding, padding_end, dilation, transposed, output_padding, groups, has_bias=0, post=(), **_):
    x, weight, *operands = inputs
    bias = operands.pop(0) if has_bias else None
    if padding != padding_end:  # what is more on one side is padded by hand
        least = [min(a, b) for a, b in zip(padding, padding_end)]
        extra = [n for a, b, c in reversed(list(zip(padding, padding_end, least))) for n in (a - c, b - c)]
        x, padding = torch.nn.functional.pad(x, extra), least
    finish(torch.convolution(x, weight, bias, stride, padding, dilation, bool(transposed), output_padding, groups), post, operands, outputs[0])
)py"},
    {"linear", On::Cuda, Needs::Product, R"py(
def torch_linear(inputs, outputs, post=(), has_bias=0, weight_transposed=0, **_):
    x, weight, *operands = inputs
    product(x, weight if weight_transposed else weight.t(), operands.pop(0) if has_bias else None, post, operands, outputs[0])
)py"},
    {"matmul", On::Cuda, Needs::Product, R"py(
def torch_matmul(inputs, outputs, post=(), has_bias=0, **_):
    a, b, *operands = inputs
    product(a, b, operands.pop(0) if has_bias else None, post, operands, outputs[0])
)py"},
    {"convolution", On::Cuda, Needs::PostOps, R"py(
def torch_convolution(inputs, outputs, stride, padding, padding_end, dilation, transposed, output_padding, groups, has_bias=0, post=(), tf32=0, **_):
    x, weight, *operands = [t if t.is_floating_point() else t.cpu() for t in inputs]  # torch has no convolution of integers on a GPU
    bias = operands.pop(0) if has_bias else None
    if padding != padding_end:  # what is more on one side is padded by hand
        least = [min(a, b) for a, b in zip(padding, padding_end)]
        extra = [n for a, b, c in reversed(list(zip(padding, padding_end, least))) for n in (a - c, b - c)]
        x, padding = torch.nn.functional.pad(x, extra), least
    cudnn = torch.backends.cudnn
    y = torch._convolution(x, weight, bias, stride, padding, dilation, bool(transposed), output_padding, groups, cudnn.benchmark, cudnn.deterministic, True, bool(tf32))
    finish(y, post, operands, outputs[0])
)py"},
    {"convolution_weights", On::Any, Needs::Nothing, R"py(
def torch_convolution_weights(inputs, outputs, stride, padding, dilation, groups, tf32=0, **_):
    x, dy = [t if t.is_floating_point() else t.cpu() for t in inputs]
    cudnn = torch.backends.cudnn
    rounding = cudnn.flags(enabled=True, benchmark=cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=bool(tf32)) if x.is_cuda and x.dtype == torch.float32 else contextlib.nullcontext()
    with rounding:
        gradients = torch.ops.aten.convolution_backward(dy, x, outputs[0].to(x.device), None, stride, padding, dilation, False, [0] * (x.dim() - 2), groups, [False, True, False])
    outputs[0].copy_(gradients[1])
)py"},
    {"attention", On::Any, Needs::AttentionScores, R"py(
def torch_attention(inputs, outputs, causal=0, scale=1.0, has_mask=0):
    q, k, v, *masks = inputs
    given = mask = masks[0] if has_mask else None
    if has_mask and causal:  # torch takes one of the two
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mask, causal = mask & seen if mask.dtype == torch.bool else mask.masked_fill(~seen, -math.inf), 0
    if has_mask and mask.dtype not in (torch.bool, q.dtype):
        mask = torch.where(mask == -math.inf, mask, mask.clamp(min=torch.finfo(q.dtype).min)).to(q.dtype)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, bool(causal), scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    outputs[0].copy_(y)
    if len(outputs) > 1:
        outputs[1].copy_(attention_scores(q, k, causal, scale, given).logsumexp(-1))
)py"},
    {"attention_backward", On::Any, Needs::AttentionScores, R"py(
def torch_attention_backward(inputs, outputs, causal=0, scale=1.0, has_mask=0):
    dy, q, k, v, y, logs, *mask = inputs
    share = q.shape[1] // k.shape[1]
    wide = lambda t: t.float().repeat_interleave(share, 1)
    p = (attention_scores(q, k, causal, scale, *mask) - logs.unsqueeze(-1)).exp()
    ds = p * (dy.float() @ wide(v).mT - (dy.float() * y).sum(-1, keepdim=True)) * scale
    outputs[0].copy_(ds @ wide(k))
    for output, gradient in ((outputs[1], ds.mT @ q.float()), (outputs[2], p.mT @ dy.float())):
        output.copy_(gradient.unflatten(1, (-1, share)).sum(2))
)py"},
    {"grouped_matmul", On::Any, Needs::Nothing, R"py(
def torch_grouped_matmul(inputs, outputs):
    x, matrices, offsets = inputs
    first = 0
    for group, end in enumerate(offsets.tolist()):
        check(first <= end <= x.shape[0], f"grouped_matmul: offset {end} of group {group} is not between {first} and {x.shape[0]}")
        outputs[0][first:end] = x[first:end] @ matrices[group]
        first = end
    outputs[0][first:] = 0
)py"},
    {"complex_parts", On::Any, Needs::Nothing, R"py(
def torch_complex_parts(inputs, outputs):
    x, y = (torch.view_as_real(t) if t.is_complex() else t for t in (*inputs, *outputs))
    y.copy_(x)
)py"},
    {"recurrent", On::Any, Needs::Nothing, R"py(
def torch_recurrent(inputs, outputs, mode, reverse=0, has_bias=0, has_projection=0):
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
)py"},
    {"winograd_products", On::Cpu, Needs::Nothing, R"py(
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
    {"sort", On::Any, Needs::Nothing, R"py(
def torch_sort(inputs, outputs, dim, descending=0, first=0, middle=0, **_):
    x = inputs[0] if inputs[0].dim() else inputs[0].view(1)
    first = max(x.shape[dim] - 1, 0) // 2 if middle else first
    for output, value in zip(outputs, torch.sort(x, stable=True, dim=dim, descending=bool(descending))):
        output.copy_(value.narrow(dim, first, output.shape[dim] if output.dim() else 1).view(output.shape))
)py"},
    {"topk", On::Any, Needs::Nothing, R"py(
def torch_topk(inputs, outputs, dim, largest=1, **_):
    values, indices = torch.sort(inputs[0], stable=True, dim=dim, descending=bool(largest))  # as Coil does: of equal values the first
    kept = outputs[0].shape[dim] if inputs[0].dim() else 1
    narrow = lambda t: t.narrow(dim, 0, kept) if t.dim() else t
    outputs[0].copy_(narrow(values)), outputs[1].copy_(narrow(indices))
)py"},
    {"all_bounded", On::Any, Needs::Nothing, R"py(
def torch_all_bounded(inputs, outputs, limit):
    x, *before = inputs
    outputs[0].fill_(bool((x.abs() <= limit).all()) and all(flag.item() for flag in before))
)py"},
    {"assert_finite", On::Any, Needs::Nothing, R"py(
def torch_assert_finite(inputs, outputs, name, nan, inf):
    check(not (nan and inputs[0].isnan().any()), f"{name} holds NaN")
    check(not (inf and inputs[0].isinf().any()), f"{name} holds an infinity")
)py"},
    {"assert_aligned", On::Any, Needs::Nothing, R"py(
def torch_assert_aligned(inputs, outputs, name, bytes):
    check(inputs[0].data_ptr() % bytes == 0, f"{name} lies at an address that is no multiple of {bytes}")
)py"},
    {"lu_factor", On::Any, Needs::Nothing, R"py(
def torch_lu_factor(inputs, outputs):
    for output, value in zip(outputs, torch.linalg.lu_factor_ex(inputs[0])):
        output.copy_(value)
)py"},
    {"lu_solve", On::Any, Needs::Nothing, R"py(
def torch_lu_solve(inputs, outputs, left=1, adjoint=0):
    outputs[0].copy_(torch.linalg.lu_solve(*inputs, left=bool(left), adjoint=bool(adjoint)))
)py"},
    {"lu_permutation", On::Any, Needs::Nothing, R"py(
def torch_lu_permutation(inputs, outputs):
    m = outputs[0].shape[-1]
    p, _, _ = torch.lu_unpack(torch.empty(*inputs[0].shape[:-1], m, inputs[0].shape[-1], device=inputs[0].device), inputs[0], unpack_data=False)
    outputs[0].copy_((p * torch.arange(m, device=p.device).unsqueeze(-1)).sum(-2))
)py"},
    {"cholesky", On::Any, Needs::Nothing, R"py(
def torch_cholesky(inputs, outputs, upper=0):
    for output, value in zip(outputs, torch.linalg.cholesky_ex(inputs[0], upper=bool(upper))):
        output.copy_(value)
)py"},
    {"solve_triangular", On::Any, Needs::Nothing, R"py(
def torch_solve_triangular(inputs, outputs, upper, left=1, unit=0):
    outputs[0].copy_(torch.linalg.solve_triangular(*inputs, upper=bool(upper), left=bool(left), unitriangular=bool(unit)))
)py"},
    {"ldl_factor", On::Any, Needs::Nothing, R"py(
def torch_ldl_factor(inputs, outputs):
    for output, value in zip(outputs, torch.linalg.ldl_factor_ex(inputs[0])):
        output.copy_(value)
)py"},
    {"ldl_solve", On::Any, Needs::Nothing, R"py(
def torch_ldl_solve(inputs, outputs):
    outputs[0].copy_(torch.linalg.ldl_solve(*inputs))
)py"},
    {"qr", On::Any, Needs::Nothing, R"py(
def torch_qr(inputs, outputs, r_only=0):
    mode = "r" if r_only else "complete" if outputs[0].shape[-1] != min(inputs[0].shape[-2:]) else "reduced"
    for output, value in zip(reversed(outputs), reversed(torch.linalg.qr(inputs[0], mode))):
        output.copy_(value)
)py"},
    {"geqrf", On::Any, Needs::Nothing, R"py(
def torch_geqrf(inputs, outputs):
    for output, value in zip(outputs, torch.geqrf(inputs[0])):
        output.copy_(value)
)py"},
    {"householder_product", On::Any, Needs::Nothing, R"py(
def torch_householder_product(inputs, outputs):
    outputs[0].copy_(torch.linalg.householder_product(*inputs))
)py"},
    {"ormqr", On::Any, Needs::Nothing, R"py(
def torch_ormqr(inputs, outputs, left=1, transpose=0):
    outputs[0].copy_(torch.ormqr(*inputs, left=bool(left), transpose=bool(transpose)))
)py"},
    {"svd", On::Any, Needs::Nothing, R"py(
def torch_svd(inputs, outputs, values_only=0):
    values = [torch.linalg.svdvals(inputs[0])] if values_only else torch.linalg.svd(inputs[0], full_matrices=outputs[0].shape[-1] + outputs[2].shape[-2] != 2 * min(inputs[0].shape[-2:]))
    for output, value in zip(outputs, values):
        output.copy_(value)
)py"},
    {"eigh", On::Any, Needs::Nothing, R"py(
def torch_eigh(inputs, outputs, values_only=0, upper=0):
    for output, value in zip(outputs, torch.linalg.eigh(inputs[0], "U" if upper else "L")):
        output.copy_(value)
)py"},
    {"eig", On::Any, Needs::Nothing, R"py(
def torch_eig(inputs, outputs, values_only=0):
    for i, value in enumerate(torch.linalg.eig(inputs[0].cpu())[: 1 if values_only else 2]):
        outputs[2 * i].copy_(value.real), outputs[2 * i + 1].copy_(value.imag)
)py"},
    {"matrix_exp", On::Any, Needs::Nothing, R"py(
def torch_matrix_exp(inputs, outputs):
    outputs[0].copy_(torch.linalg.matrix_exp(inputs[0]))
)py"},
};

}  // namespace

bool is_torch_op(DeviceType device, std::string_view op) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.is_for(device, op); });
}

std::string python_torch_ops(DeviceType device, const std::set<std::string>& ops) {
  std::string functions, table;
  bool post_ops = false, product = false, scores = false;
  for (const Row& row : kRows) {
    if (!ops.contains(row.op) || !row.is_for(device, row.op)) continue;
    product = product || row.needs == Needs::Product;
    post_ops = post_ops || row.needs == Needs::PostOps || row.needs == Needs::Product;
    scores = scores || row.needs == Needs::AttentionScores;
    functions += fmt::format("\n{}", row.text);
    table += fmt::format("{}\"{}\": torch_{}", table.empty() ? "" : ", ", row.op, row.op);
  }
  if (functions.empty()) return "\nTORCH_OPS = {}\n";
  return std::string(device == DeviceType::CPU ? kTorchHead : kTorchHeadOnGpu) + (post_ops ? kPostOps : "") +
         (product ? kProduct : "") + (scores ? kAttentionScores : "") + functions + "\n\nTORCH_OPS = {" + table + "}\n";
}

}  // namespace coil::wrapper
