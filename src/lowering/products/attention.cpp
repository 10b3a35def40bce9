// Scaled dot-product attention as one template kernel, on views of rank 4.
#include <cmath>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// [B, H, S, D] from any rank of at least 2: missing dimensions are 1, extra leading ones are merged into B.
TensorBox rank_four(Context& ctx, TensorBox box) {
  while (box.rank() < 4) box = unsqueeze(ctx, box, box.rank() < 3 ? 0 : 1);
  if (box.rank() == 4) return box;
  const std::size_t extra = box.rank() - 4;
  Exprs sizes(box.sizes.begin() + static_cast<std::ptrdiff_t>(extra), box.sizes.end());
  for (std::size_t d = 0; d < extra; ++d) sizes[0] *= box.sizes[d];
  return reshape(ctx, box, sizes);
}

double scale_of(Context& ctx, const ops::Value& given, const TensorBox& query) {
  if (!given.is_none()) return given.as_double();
  if (auto depth = query.sizes.back().constant()) return 1.0 / std::sqrt(static_cast<double>(*depth));
  refuse_free(ctx, "has a head size that is symbolic", query.sizes.back());
}

/// On a GPU f32 goes to kernels of Coil's own, all else to a library.
bool has_blocks(const Context& ctx, const TensorBox& q) {
  return ctx.graph.target(q.device()).has(target::Feature::AttentionKernels) && q.dtype() == DType::F32;
}
/// Whether a GPU's library or kernels take it; else the host's.
bool is_for_gpu(const Context& ctx, const TensorBox& q) {
  return ctx.graph.target(q.device()).has(target::Feature::Attention);
}
bool is_for_gpu_library(const Context& ctx, const TensorBox& q) { return is_for_gpu(ctx, q) && !has_blocks(ctx, q); }

/// GPU libraries are fast only where each row begins at a multiple of so many bytes.
constexpr std::int64_t kRowAlignment = 16;

/// Rows of heads, or of scores, as a GPU's library reads them.
bool lies_in_rows(const BufferView& v) { return lies_in_vectors(v, kRowAlignment); }

BufferView rows_operand(const Context& ctx, const TensorBox& box) {
  if (is_for_gpu(ctx, box))
    if (auto view = box.copied(lies_in_rows)) return *view;
  return library_operand(box);
}

/// A mask [B, H, S, T] whose rows begin on whole vectors. If it does not lie so in memory, a kernel writes it so; a
/// dimension along which the mask does not change then has size 1 and is repeated by a stride of 0.
BufferView mask_in_rows(Context& ctx, const TensorBox& m) {
  if (m.storage->realized())
    if (auto view = m.strided(); view && lies_in_rows(*view)) return *view;
  if (auto view = m.copied(lies_in_rows)) return *view;
  const auto vector = kRowAlignment / static_cast<std::int64_t>(size_of(m.dtype()));
  const Element whole = element(ctx, m, m.sizes);
  Exprs sizes = m.sizes, index = ctx.graph.ivars(4);
  const std::vector<Scalar> nodes = ir::topological({&whole.scalar, 1});
  for (std::size_t d = 0; d < 3; ++d) {
    const Expr var = ctx.graph.ivar(d);
    const bool moves = std::ranges::any_of(
        nodes, [&](Scalar n) { return std::ranges::any_of(n->index, [&](Expr e) { return sym::contains(e, var); }); });
    if (!moves) sizes[d] = 1, index[d] = 0;
  }
  const Expr row = m.sizes[3];
  sizes[3] = ctx.graph.env().simplify(sym::ceil_div(row, vector) * vector);
  Element body = whole;
  if (!(sizes[3] == row))
    body.scalar = ctx.graph.pool().masked(body, condition(ctx, sym::lt(ctx.graph.ivar(3), row)), body.number(0));
  const TensorBox made = pointwise(ctx, m.dtype(), sizes, body);
  made.realize();
  return library_operand(made.view(m.sizes, index));
}

/// A mask as the library reads it: of the scores' sizes, and added in the register type. It broadcasts to the scores as
/// the program has them, `batch` and then (queries, keys).
BufferView mask_operand(Context& ctx, TensorBox m, const TensorBox& q, const TensorBox& k, Exprs batch) {
  if (!is_for_gpu_library(ctx, q)) m.realize();
  batch.push_back(q.sizes[2]);
  batch.push_back(k.sizes[2]);
  m = rank_four(ctx, expand(ctx, m, batch));
  if (m.dtype() != DType::Bool && m.dtype() != DType::F32 && m.dtype() != q.dtype())
    m = pointwise(ctx, DType::F32, m.sizes, element(ctx, m, m.sizes));
  return is_for_gpu_library(ctx, q) ? mask_in_rows(ctx, m) : library_operand(m);
}

struct Options {
  std::optional<TensorBox> mask;
  ops::Value dropout, scale;
  bool causal = false;
};

/// The kernel's output in the layout of `meta`, and with `logs` the logarithms of the queries' sums.
std::vector<TensorBox> attend(Context& ctx, const Values& args, const Options& options, const sym::TensorMeta& meta,
                              const sym::TensorMeta* logs) {
  if (options.dropout.as_double() != 0) refuse(ctx, "dropout in attention draws random numbers");
  const TensorBox q = rank_four(ctx, ctx.tensor(args[0])), k = rank_four(ctx, ctx.tensor(args[1])),
                  v = rank_four(ctx, ctx.tensor(args[2]));
  const double scale = scale_of(ctx, options.scale, q);

  std::vector<BufferView> inputs{rows_operand(ctx, q), rows_operand(ctx, k), rows_operand(ctx, v)};
  if (options.mask)
    inputs.push_back(mask_operand(ctx, *options.mask, q, k, {meta.sizes.begin(), meta.sizes.end() - 2}));
  Exprs sizes = q.sizes;
  sizes[3] = v.sizes[3];
  // All heads of one query are neighbours in memory: the product that follows attention reads them as one row.
  const Exprs strides{sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
  auto [box, out] = library_result(ctx, meta.dtype, sizes, strides);
  library_ops::Attributes attributes{
      {"causal", std::int64_t{options.causal}}, {"scale", scale}, {"has_mask", std::int64_t{options.mask.has_value()}}};
  std::vector<BufferView> outputs{out};
  std::vector<TensorBox> results{box};
  if (logs) {
    auto [sums, sums_out] = library_result(ctx, DType::F32, logs->sizes, logs->strides);
    results.push_back(sums);
    outputs.push_back(sums_out);
  }
  add_library_call(ctx, has_blocks(ctx, q) ? "blocked_attention" : "attention", std::move(attributes),
                   std::move(inputs), std::move(outputs));
  if (meta.rank() != 4) results[0] = reshape(ctx, box, meta.sizes);
  return results;
}

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
Lowered attention(Context& ctx, const Values& args) {
  return attend(ctx, args, {ctx.optional_tensor(args[3]), args[4], args[6], args[5].as_bool()}, ctx.result(),
                nullptr)[0];
}

/// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, attn_mask, scale)
Lowered flash_attention(Context& ctx, const Values& args) {
  bool logs_used = false;
  for (const fx::Node* user : ctx.node->users())
    logs_used |= !user->is_call("_operator.getitem") || !user->args[1].as_int().is_constant(0);
  return attend(ctx, args, {ctx.optional_tensor(args[5]), args[3], args[6], args[4].as_bool()}, ctx.result(0),
                logs_used ? &ctx.result(1) : nullptr);
}

/// _scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out, logsumexp, dropout_p,
/// is_causal, attn_mask, scale), where it is not written out.
Lowered flash_attention_backward(Context& ctx, const Values& args) {
  enum { GradOut, Query, Key, Element, Out, Logs };
  std::vector<BufferView> operands;
  for (std::size_t i = 0; i < 6; ++i) operands.push_back(library_operand(ctx.tensor(args[i])));
  const TensorBox q = ctx.tensor(args[Query]), k = ctx.tensor(args[Key]);
  std::vector<BufferView> masks;
  if (const auto mask = ctx.optional_tensor(args[8]))
    masks.push_back(mask_operand(ctx, *mask, q, k, {q.sizes[0], q.sizes[1]}));
  std::vector<TensorBox> results;
  std::vector<BufferView> outputs;
  for (std::size_t i = 0; i < 3; ++i) {
    auto [box, out] = library_result(ctx, ctx.result(i).dtype, ctx.result(i).sizes, ctx.result(i).strides);
    results.push_back(box);
    outputs.push_back(out);
  }
  auto call = [&](std::string op, std::vector<BufferView> inputs, std::vector<BufferView> outs) {
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    add_library_call(ctx, std::move(op),
                     {{"causal", std::int64_t{args[7].as_bool()}},
                      {"scale", scale_of(ctx, args[9], q)},
                      {"has_mask", std::int64_t{!masks.empty()}}},
                     std::move(inputs), std::move(outs));
  };
  if (!has_blocks(ctx, q)) {
    // The CPU's kernel adds up the queries' gradient in memory.
    const bool added_up = !is_for_gpu(ctx, q) && q.dtype() != DType::F32;
    if (added_up) std::tie(results[0], outputs[0]) = library_result(ctx, DType::F32, q.sizes);
    call("attention_backward", operands, outputs);
    if (added_up) results[0] = pointwise(ctx, q.dtype(), q.sizes, element(ctx, results[0], q.sizes));
    return results;
  }
  const BufferView sums = library_result(ctx, DType::F32, {q.sizes[0], q.sizes[1], q.sizes[2]}).second;
  call("blocked_attention_queries", operands, {outputs[0], sums});
  call("blocked_attention_keys",
       {operands[GradOut], operands[Query], operands[Key], operands[Element], operands[Logs], sums},
       {outputs[1], outputs[2]});
  return results;
}

}  // namespace

void add_attention(Table& t) {
  t["aten.scaled_dot_product_attention.default"] = attention;
  t["aten._scaled_dot_product_flash_attention_for_cpu.default"] = flash_attention;
  t["aten._scaled_dot_product_flash_attention_for_cpu_backward.default"] = flash_attention_backward;
}

}  // namespace coil::lowering
