// Matrix products: library calls `linear` (a weight on the right) and `matmul` (two computed operands).
#include "ir/layout_choice.h"
#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Attributes = std::map<std::string, ir::ExternAttribute>;

bool is_number(const ops::Value& v, double n) {
  if (auto* d = v.get_if<double>()) return *d == n;
  auto* e = v.get_if<Expr>();
  return e && e->is_constant(static_cast<std::int64_t>(n));
}

/// Strides of a large matrix whose rows start where the device's library is fast, a few elements further apart than they lie by `strides`; nothing when they do already.
std::optional<Exprs> aligned_rows(Context& ctx, DType dtype, const Exprs& sizes, const Exprs& strides) {
  constexpr std::int64_t kShortest = 256, kSmallest = 1 << 18;
  if (ctx.row_alignment == 0 || sizes.size() < 2 || strides != sym::contiguous_strides(sizes)) return std::nullopt;
  const auto n = sizes.back().constant();
  const std::int64_t step = ctx.row_alignment / static_cast<std::int64_t>(size_of(dtype));
  if (!n || step <= 1 || *n % step == 0 || *n < kShortest || ctx.graph.env().hint_or(sym::product(sizes), 0) < kSmallest) return std::nullopt;
  Exprs padded = sizes;
  padded.back() = Expr((*n + step - 1) / step * step);
  return sym::contiguous_strides(padded);
}

/// An operand of a product that uses each of its elements `uses` times, with its rows aligned: laid out so where its layout is open, else as a copy where that is the lesser work.
TensorBox aligned_operand(Context& ctx, TensorBox box, Expr uses) {
  constexpr std::int64_t kWorthCopying = 256;
  ir::StorageBox& storage = *box.storage;
  const auto strides = aligned_rows(ctx, storage.dtype, storage.sizes, storage.realized() ? ctx.graph.buffer(*storage.buffer).layout.strides : storage.strides);
  if (!strides || box.linear) return box;
  if (!storage.realized()) {
    storage.strides = *strides;
    ctx.graph.buffer(box.realize()).layout.fixed = true;
    return box;
  }
  if (ir::relayout(ctx.graph, *storage.buffer, *strides)) return box;
  if (ctx.graph.env().hint_or(uses, 0) < kWorthCopying) return box;
  const TensorBox whole = ir::whole(ctx.graph, *storage.buffer);
  const TensorBox copy = ir::make_pointwise(ctx.graph, storage.dtype, storage.device, storage.sizes, element(ctx, whole, storage.sizes), *strides);
  copy.storage->strides = *strides;
  ctx.graph.buffer(copy.realize()).layout.fixed = true;
  box.storage = copy.storage;
  return box;
}

/// The result of a product over `k`, with its rows aligned. What must lie otherwise in the end (an output) is a copy.
std::pair<TensorBox, BufferView> product_result(Context& ctx, const sym::TensorMeta& meta, Expr k) {
  constexpr std::int64_t kWorthCopying = 64;
  const auto strides = ctx.graph.env().hint_or(k, 0) < kWorthCopying ? std::nullopt : aligned_rows(ctx, meta.dtype, meta.sizes, meta.strides);
  if (!strides) return library_result(ctx, meta.dtype, meta.sizes, meta.strides);
  auto made = library_result(ctx, meta.dtype, meta.sizes, *strides);
  made.second.strides = ctx.graph.buffer(made.second.buffer).layout.strides = made.first.storage->strides = *strides;
  ctx.graph.buffer(made.second.buffer).layout.fixed = true;
  return made;
}

/// y[.., N] = x[.., K] weight + bias. `weight` is [N, K], or [K, N] when `transposed`.
TensorBox linear(Context& ctx, TensorBox x, TensorBox weight, bool transposed, const std::optional<TensorBox>& bias, const sym::TensorMeta& meta) {
  const Expr rows = sym::product(std::span(meta.sizes).first(meta.sizes.size() - 1));
  x = aligned_operand(ctx, x, meta.sizes.back());
  weight = aligned_operand(ctx, weight, rows);
  // A weight that lies in memory the other way round is the other form of it.
  BufferView w = library_operand(weight);
  if (w.strides[0].is_constant(1) && !w.strides[1].is_constant(1)) {
    std::swap(w.sizes[0], w.sizes[1]);
    std::swap(w.strides[0], w.strides[1]);
    transposed = !transposed;
  }
  const Expr n = w.sizes[transposed ? 1 : 0], k = w.sizes[transposed ? 0 : 1];
  std::vector<BufferView> inputs{library_operand(x), w};
  if (bias) inputs.push_back(library_operand(*bias));
  Attributes attributes{{"has_bias", std::int64_t{bias.has_value()}}, {"weight_transposed", std::int64_t{transposed}}};
  if (auto c = n.constant()) attributes["n"] = *c;
  if (auto c = k.constant()) attributes["k"] = *c;
  auto [box, out] = product_result(ctx, meta, k);
  add_library_call(ctx, "linear", std::move(attributes), std::move(inputs), {out});
  return box;
}

/// y[B.., M, N] = a[B.., M, K] b[B.., K, N], both operands with the same batch dimensions.
TensorBox matmul(Context& ctx, const TensorBox& a, const TensorBox& b, const sym::TensorMeta& meta) {
  const std::size_t rank = meta.sizes.size();
  const TensorBox left = aligned_operand(ctx, a, meta.sizes[rank - 1]), right = aligned_operand(ctx, b, meta.sizes[rank - 2]);
  auto [box, out] = product_result(ctx, meta, a.sizes.back());
  add_library_call(ctx, "matmul", {{"has_bias", std::int64_t{0}}}, {library_operand(left), library_operand(right)}, {out});
  return box;
}

bool is_constant(Context& ctx, const TensorBox& box) { return box.storage->realized() && ctx.graph.buffer(*box.storage->buffer).kind == ir::BufferKind::Constant; }

/// Of a matrix and a matrix, or a weight; or of as many of both.
TensorBox product(Context& ctx, const TensorBox& a, const TensorBox& b, const std::optional<TensorBox>& bias, const sym::TensorMeta& meta) {
  if (b.rank() == 2 && is_floating(meta.dtype) && is_constant(ctx, b)) return linear(ctx, a, b, true, bias, meta);
  return matmul(ctx, a, b, meta);
}

Lowered linear_node(Context& ctx, const Values& args) {
  const TensorBox x = ctx.tensor(args[0]), weight = ctx.tensor(args[1]);
  const auto bias = args.size() > 2 ? ctx.optional_tensor(args[2]) : std::nullopt;
  const sym::TensorMeta& meta = ctx.result();
  if (weight.rank() != 2 || x.rank() == 0 || !is_floating(meta.dtype)) {
    // A weight that is a vector, or integers: a sum of products.
    const Expr k = ctx.graph.rvar(0), length = x.sizes.back();
    Exprs left = ctx.graph.ivars(x.rank() - 1), right;
    left.push_back(k);
    if (weight.rank() == 2) right.push_back(ctx.graph.ivar(x.rank() - 1));
    right.push_back(k);
    const DType t = register_type(meta.dtype);
    const TensorBox sum = reduction(ctx, t, meta.sizes, {length}, ReductionKind::Sum, element_at(ctx, x, left, meta.sizes, {length}).cast(t) * element_at(ctx, weight, right, meta.sizes, {length}).cast(t));
    Value y = element(ctx, sum, meta.sizes);
    return result(ctx, bias ? y + element(ctx, *bias, meta.sizes).cast(t) : y);
  }
  if (x.rank() == 1) {
    // The library wants rows.
    sym::TensorMeta row = meta;
    row.sizes.insert(row.sizes.begin(), 1);
    row.strides.insert(row.strides.begin(), meta.sizes[0]);
    return reshape(ctx, linear(ctx, unsqueeze(ctx, x, 0), weight, false, bias, row), meta.sizes);
  }
  return linear(ctx, x, weight, false, bias, meta);
}

Lowered mm(Context& ctx, const Values& args) { return product(ctx, ctx.tensor(args[0]), ctx.tensor(args[1]), std::nullopt, ctx.result()); }

/// beta*self + alpha*(mat1 @ mat2)
Lowered addmm(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), a = ctx.tensor(args[1]), b = ctx.tensor(args[2]);
  const sym::TensorMeta& meta = ctx.result();
  const ops::Value &beta = ctx.node->arg("beta"), &alpha = ctx.node->arg("alpha");
  const bool plain = is_number(beta, 1) && is_number(alpha, 1);
  const bool row = self.rank() == 1 && self.sizes[0] == meta.sizes.back();
  if (plain && row && a.rank() == 2 && is_floating(meta.dtype) && is_constant(ctx, b)) return product(ctx, a, b, self, meta);
  const DType t = register_type(meta.dtype);
  Value y = element(ctx, product(ctx, a, b, std::nullopt, meta), meta.sizes).cast(t);
  if (!is_number(alpha, 1)) y = y * Value{&ctx.graph.pool(), ctx.number(alpha, t)};
  if (is_number(beta, 0)) return result(ctx, y);
  Value addend = element(ctx, self, meta.sizes).cast(t);
  if (!is_number(beta, 1)) addend = addend * Value{&ctx.graph.pool(), ctx.number(beta, t)};
  return result(ctx, y + addend);
}

Lowered bmm(Context& ctx, const Values& args) { return matmul(ctx, ctx.tensor(args[0]), ctx.tensor(args[1]), ctx.result()); }

/// matmul of torch where it comes whole: matrices with equal batch dimensions after broadcasting.
Lowered matmul_node(Context& ctx, const Values& args) {
  TensorBox a = ctx.tensor(args[0]), b = ctx.tensor(args[1]);
  const sym::TensorMeta& meta = ctx.result();
  if (a.rank() < 2 || b.rank() < 2) refuse(ctx, "has a vector among its operands");
  if (b.rank() == 2 && is_floating(meta.dtype) && is_constant(ctx, b)) return linear(ctx, a, b, true, std::nullopt, meta);
  auto batched = [&](const TensorBox& m) {
    Exprs sizes(meta.sizes.begin(), meta.sizes.end() - 2);
    sizes.insert(sizes.end(), m.sizes.end() - 2, m.sizes.end());
    return expand(ctx, m, sizes);
  };
  return matmul(ctx, batched(a), batched(b), meta);
}

Lowered outer(Context& ctx, const Values& args) {
  const Exprs& sizes = ctx.result().sizes;
  const DType t = register_type(ctx.result().dtype);
  return result(ctx, element_at(ctx, ctx.tensor(args[0]), {ctx.graph.ivar(0)}, sizes).cast(t) * element_at(ctx, ctx.tensor(args[1]), {ctx.graph.ivar(1)}, sizes).cast(t));
}

/// Runs of rows times a matrix for each run (the experts of a mixture), where the runs end being data.
Lowered grouped(Context& ctx, const Values& args) {
  const TensorBox x = ctx.tensor(args[0]), w = ctx.tensor(args[1]);
  const bool plain = args.size() <= 3 || (args[3].is_none() && (args[4].is_none() || args[4] == ops::Value(x.dtype())));
  if (x.rank() != 2 || w.rank() != 3 || args[2].is_none() || !plain) refuse(ctx, "is compiled for rows and a batch of matrices, without bias and in the type of the rows");
  auto [box, out] = library_result(ctx, ctx.result().dtype, ctx.result().sizes, ctx.result().strides);
  add_library_call(ctx, "grouped_matmul", {}, {library_operand(x), library_operand(w), library_operand(ctx.tensor(args[2]))}, {out});
  return box;
}

}  // namespace

void add_linear_algebra(Table& t) {
  t["aten.linear.default"] = linear_node;
  t["aten.mm.default"] = t["aten.mm.dtype"] = mm;
  t["aten.addmm.default"] = t["aten.baddbmm.default"] = addmm;
  t["aten.bmm.default"] = t["aten.bmm.dtype"] = bmm;
  t["aten.matmul.default"] = matmul_node;
  t["aten.outer.default"] = outer;
  t["transformers.grouped_mm_fallback.default"] = t["aten._grouped_mm.default"] = grouped;
}

}  // namespace coil::lowering
