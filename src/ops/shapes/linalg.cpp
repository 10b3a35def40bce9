// Products of matrices and vectors, and attention.
#include <algorithm>

#include "ops/shapes/einsum.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

void require_rank(const Call& call, const TensorMeta& t, std::size_t rank) {
  if (t.rank() != rank) refuse(call, "takes a tensor of rank {}, not of sizes {}", rank, show(t.sizes));
}

void require_same_type(const Call& call, const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype != b.dtype) refuse(call, "types {} and {} differ", torch_name(a.dtype), torch_name(b.dtype));
}

DType product_type(const Call& call, const TensorMeta& a) {
  const Value* type = given(call, "out_dtype");
  return type ? type->as_dtype() : a.dtype;
}

/// (n, k) times (k, m), as a matrix.
TensorMeta product(const Call& call, const TensorMeta& a, const TensorMeta& b) {
  require_rank(call, a, 2);
  require_rank(call, b, 2);
  require_same_type(call, a, b);
  require_equal(call, a.sizes[1], b.sizes[0], "inner sizes");
  return dense(call.env, product_type(call, a), a.device, {a.sizes[0], b.sizes[1]});
}

TensorMeta batched_product(const Call& call, const TensorMeta& a, const TensorMeta& b) {
  require_rank(call, a, 3);
  require_rank(call, b, 3);
  require_same_type(call, a, b);
  require_equal(call, a.sizes[0], b.sizes[0], "batch sizes");
  require_equal(call, a.sizes[2], b.sizes[1], "inner sizes");
  return dense(call.env, product_type(call, a), a.device, {a.sizes[0], a.sizes[1], b.sizes[2]});
}

/// `self` of addmm and the like is added to the product, to which it must expand.
Value added(const Call& call, TensorMeta product) {
  const TensorMeta& self = call.tensor(0);
  if (!expands_to(call.env, self.sizes, product.sizes))
    refuse(call, "sizes {} do not expand to {}", show(self.sizes), show(product.sizes));
  return product;
}

Value mm(const Call& call) { return product(call, call.tensor(0), call.tensor(1)); }
Value bmm(const Call& call) { return batched_product(call, call.tensor(0), call.tensor(1)); }
Value addmm(const Call& call) { return added(call, product(call, call.tensor(1), call.tensor(2))); }

/// Batches of matrices, or two matrices, whose batches have the same sizes.
Value contraction(const Call& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  require_rank(call, b, a.rank());
  require_same_type(call, a, b);
  const std::size_t rows = a.rank() - 2;
  for (std::size_t d = 0; d < rows; ++d) require_equal(call, a.sizes[d], b.sizes[d], "batch sizes");
  require_equal(call, a.sizes[rows + 1], b.sizes[rows], "inner sizes");
  Exprs sizes = a.sizes;
  sizes.back() = b.sizes.back();
  return dense(call.env, a, sizes);
}

Value baddbmm(const Call& call) { return added(call, batched_product(call, call.tensor(1), call.tensor(2))); }

Value addbmm(const Call& call) {
  TensorMeta p = batched_product(call, call.tensor(1), call.tensor(2));
  return added(call, dense(call.env, p, {p.sizes[1], p.sizes[2]}));
}

TensorMeta matrix_vector(const Call& call, const TensorMeta& a, const TensorMeta& x) {
  require_rank(call, a, 2);
  require_rank(call, x, 1);
  require_same_type(call, a, x);
  require_equal(call, a.sizes[1], x.sizes[0], "inner sizes");
  return dense(call.env, a, {a.sizes[0]});
}

Value mv(const Call& call) { return matrix_vector(call, call.tensor(0), call.tensor(1)); }
Value addmv(const Call& call) { return added(call, matrix_vector(call, call.tensor(1), call.tensor(2))); }

Value dot(const Call& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  require_same_type(call, a, b);
  require_equal(call, a.sizes[0], b.sizes[0], "sizes");
  return dense(call.env, a, {});
}

Value outer(const Call& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  return dense(call.env, promote_types(a.dtype, b.dtype), a.device, {a.sizes[0], b.sizes[0]});
}

Value addr(const Call& call) {
  const TensorMeta &a = call.tensor(1), &b = call.tensor(2);
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  TensorMeta column = a;
  column.sizes.push_back(1), column.strides.push_back(1);
  const TensorMeta* operands[] = {&call.tensor(0), &column, &b};
  TensorMeta made = elementwise(call, operands, result_type({&call[0], &call[1], &call[2]}));
  return added(call, made);
}

/// Whether eager calls `addmm`, which wants matrices: with matrices, and with a bias that is no number on rows that lie
/// one behind the other. In all other cases it adds the bias to a product.
bool adds_in_one_product(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  const Value* bias = given(call, "bias");
  return bias && (input.rank() == 2 || (bias->as_tensor().rank() > 0 && is_contiguous(call.env, input)));
}

Value linear(const Call& call) {
  const TensorMeta &input = call.tensor(0), &weight = call.tensor(1);
  if (input.rank() == 0 || weight.rank() == 0 || weight.rank() > 2)
    refuse(call, "input of sizes {} and weight of sizes {}", show(input.sizes), show(weight.sizes));
  require_same_type(call, input, weight);
  require_equal(call, input.sizes.back(), weight.sizes.back(), "inner sizes");
  Exprs sizes(input.sizes.begin(), input.sizes.end() - 1);
  if (weight.rank() == 2) sizes.push_back(weight.sizes[0]);
  if (const Value* bias = given(call, "bias"); bias && bias->as_tensor().rank() > sizes.size())
    refuse(call, "a bias of sizes {} does not broadcast to {}", show(bias->as_tensor().sizes), show(sizes));
  if (weight.rank() == 1 && adds_in_one_product(call))
    refuse(call, "takes no bias with a weight of one dimension here");
  return dense(call.env, input, std::move(sizes));
}

/// Every case of torch.matmul gives a dense result; batches broadcast.
Value matmul(const Call& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  if (a.rank() == 0 || b.rank() == 0) refuse(call, "takes tensors with dimensions");
  require_same_type(call, a, b);
  Expr inner = b.rank() == 1 ? b.sizes[0] : b.sizes[b.rank() - 2];
  require_equal(call, a.sizes.back(), inner, "inner sizes");
  Exprs batches[2];
  if (a.rank() > 2) batches[0].assign(a.sizes.begin(), a.sizes.end() - 2);
  if (b.rank() > 2) batches[1].assign(b.sizes.begin(), b.sizes.end() - 2);
  Exprs sizes = broadcast(call, batches);
  if (a.rank() > 1) sizes.push_back(a.sizes[a.rank() - 2]);
  if (b.rank() > 1) sizes.push_back(b.sizes.back());
  return dense(call.env, a, std::move(sizes));
}

Value einsum_result(const Call& call) {
  Steps steps;
  steps.call = [&](std::string_view target, Values args) { return apply(call.env, target, std::move(args)); };
  steps.meta = [](const Value& value) -> const TensorMeta& { return value.as_tensor(); };
  return einsum(call["equation"].as_string(), call["tensors"].as_list(), steps);
}

/// The mask is added to the scores in place, so that it makes them no larger.
void check_mask(const Call& call, const Exprs& scores) {
  const Value* given = shapes::given(call, "attn_mask");
  if (!given) return;
  const Exprs& mask = given->as_tensor().sizes;
  bool fits = mask.size() <= scores.size();
  for (std::size_t d = 0; fits && d < mask.size(); ++d) {
    const auto have = mask[mask.size() - 1 - d].constant(), wanted = scores[scores.size() - 1 - d].constant();
    fits = !have || !wanted || *have == 1 || *have == *wanted;
  }
  if (!fits) refuse(call, "scores of sizes {} take no mask of sizes {}", show(scores), show(mask));
}

/// In the layout of the query where eager's CPU kernel takes the call, else dense as `matmul` has it
/// (ATen/native/transformers/sdp_utils_cpp.cpp).
Value attention(const Call& call) {
  const TensorMeta &query = call.tensor(0), &key = call.tensor(1), &value = call.tensor(2);
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) refuse(call, "takes at least two dimensions");
  require_same_type(call, query, key);
  require_same_type(call, query, value);
  require_equal(call, query.sizes.back(), key.sizes.back(), "sizes of a head of query and key");
  require_equal(call, key.sizes[key.rank() - 2], value.sizes[value.rank() - 2], "lengths of key and value");
  const bool grouped = flag(call, "enable_gqa");
  std::vector<Exprs> batches = {{query.sizes.begin(), query.sizes.end() - 2},
                                {key.sizes.begin(), key.sizes.end() - 2},
                                {value.sizes.begin(), value.sizes.end() - 2}};
  for (std::size_t i = 1; i < 3; ++i)
    if (grouped && !batches[0].empty() && !batches[i].empty()) batches[i].back() = batches[0].back();
  Exprs sizes = broadcast(call, batches);
  sizes.push_back(query.sizes[query.rank() - 2]);
  Exprs scores = sizes;
  scores.push_back(key.sizes[key.rank() - 2]);
  check_mask(call, scores);
  sizes.push_back(value.sizes.back());
  TensorMeta made = dense(call.env, query, std::move(sizes));
  bool same_batch = query.rank() == 4 && key.rank() == 4 && value.rank() == 4 &&
                    equal(call.env, query.sizes[0], key.sizes[0]) && equal(call.env, query.sizes[0], value.sizes[0]);
  bool same_heads =
      same_batch &&
      (grouped || (equal(call.env, query.sizes[1], key.sizes[1]) && equal(call.env, query.sizes[1], value.sizes[1])));
  bool fused = same_heads && equal(call.env, query.sizes[3], value.sizes[3]) && is_floating(query.dtype) &&
               call["dropout_p"].as_double() == 0.0 && query.strides[3].is_constant(1) &&
               key.strides[3].is_constant(1) && value.strides[3].is_constant(1);
  if (fused) made.strides = preserved_strides(call.env, query);
  return made;
}

/// The CPU kernel itself: its output, and log-sum-exp over (batch, sequence, head), seen as (batch, head, sequence).
Value flash_attention(const Call& call) {
  const TensorMeta& query = call.tensor(0);
  require_rank(call, query, 4);
  TensorMeta output = like_in_format(call.env, query, std::nullopt);
  DType sums = query.dtype == DType::F64 ? DType::F64 : DType::F32;
  TensorMeta log = dense(call.env, sums, query.device, {query.sizes[0], query.sizes[1], query.sizes[2]});
  log.strides = permuted_strides(call.env, log.sizes, std::vector<std::size_t>{0, 2, 1});
  return Values{output, log};
}

/// The gradients of query, key and value, laid out as (batch, sequence, head, dim).
Value flash_attention_backward(const Call& call) {
  Values results;
  for (std::string_view name : {"query", "key", "value"}) {
    TensorMeta made = dense(call.env, call[name].as_tensor(), call[name].as_tensor().sizes);
    require_rank(call, made, 4);
    made.strides = permuted_strides(call.env, made.sizes, std::vector<std::size_t>{0, 2, 1, 3});
    results.push_back(std::move(made));
  }
  return results;
}

/// Rows times the matrix of their group.
Value grouped(const Call& call) {
  const TensorMeta &rows = call.tensor(0), &matrices = call.tensor(1);
  require_rank(call, rows, 2);
  require_rank(call, matrices, 3);
  require_same_type(call, rows, matrices);
  require_equal(call, rows.sizes[1], matrices.sizes[1], "inner sizes");
  return dense(call.env, product_type(call, rows), rows.device, {rows.sizes[0], matrices.sizes[2]});
}

struct Product {
  ShapeFunction shape;
  std::string_view schemas;
};

const Product kProducts[] = {
    {mm, R"(
aten::mm(Tensor self, Tensor mat2) -> Tensor
aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
)"},
    {contraction, R"(
coil::contraction(Tensor self, Tensor other) -> Tensor
)"},
    {bmm, R"(
aten::bmm(Tensor self, Tensor mat2) -> Tensor
aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
)"},
    {mv, R"(
aten::mv(Tensor self, Tensor vec) -> Tensor
)"},
    {dot, R"(
aten::dot(Tensor self, Tensor tensor) -> Tensor
aten::vdot(Tensor self, Tensor other) -> Tensor
)"},
    {outer, R"(
aten::outer(Tensor self, Tensor vec2) -> Tensor
aten::ger(Tensor self, Tensor vec2) -> Tensor
)"},
    {grouped, R"(
aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor
transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor
)"},
    {linear, R"(
aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
)"},
    {matmul, R"(
aten::matmul(Tensor self, Tensor other) -> Tensor
aten::linalg_matmul(Tensor self, Tensor other) -> Tensor
)"},
    {einsum_result, R"(
aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor
)"},
    {attention, R"(
aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
)"},
    {flash_attention, R"(
aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0,
    bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
)"},
    {flash_attention_backward, R"(
aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value,
    Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None)
    -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
)"},
};

const Product kAddedProducts[] = {
    {addmm, R"(
aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
)"},
    {baddbmm, R"(
aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
)"},
    {addbmm, R"(
aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
)"},
    {addmv, R"(
aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
)"},
    {addr, R"(
aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
)"},
};

}  // namespace

void register_linalg() {
  for (const Product& p : kProducts) define_each(p.schemas, p.shape);
  for (const Product& p : kAddedProducts) define_with_twins(p.schemas, p.shape);
}

}  // namespace coil::ops::shapes
