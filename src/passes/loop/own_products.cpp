#include "passes/loop/own_products.h"

#include <algorithm>

#include "ir/vectors.h"
#include "library_ops/products.h"
#include "library_ops/table.h"
#include "passes/loop/product_parts.h"

namespace coil {
namespace {

using library_ops::EpilogueCall;
using library_ops::PostOp;

/// The weight of a linear layer as the second operand of a product whose first one has such dimensions.
ir::BufferView matrix_of(const library_ops::LinearCall<const ir::Extern>& call) {
  ir::BufferView w = call.weight();
  if (!call.weight_transposed()) {
    std::swap(w.sizes[0], w.sizes[1]);
    std::swap(w.strides[0], w.strides[1]);
  }
  const ir::Exprs& batch = call.x().sizes;
  w.sizes.insert(w.sizes.begin(), batch.begin(), batch.end() - 2);
  w.strides.insert(w.strides.begin(), batch.size() - 2, 0);
  return w;
}

/// A view with dimensions of size 1 in front, up to `rank`.
ir::BufferView with_rank(ir::BufferView v, std::size_t rank) {
  const std::size_t missing = rank - v.sizes.size();
  v.sizes.insert(v.sizes.begin(), missing, 1);
  v.strides.insert(v.strides.begin(), missing, 0);
  return v;
}

// Rows of a product that a multiplication of the units takes, elements of the matrix up to which twice as many pay, and
// those that each of several matrices has at least: a block is much for one of fewer.
constexpr std::int64_t kRowsOfOneUnit = 8, kMostOfTwiceAsMany = std::int64_t{3} << 23, kFewestOfMatrix = 1 << 14;

bool is_narrow(DType t) { return t == DType::BF16 || t == DType::F16; }

/// Whether the kernel reads and writes these operands.
bool are_taken(const ir::Graph& graph, const ir::BufferView& a, const ir::BufferView& b, const ir::BufferView& y) {
  const std::size_t rank = a.sizes.size();
  const auto in_vectors = [&](const ir::BufferView& v, std::size_t dim) {
    return ir::lies_in_vectors(*graph.env_ptr(), v, dim);
  };
  return rank >= 2 && b.sizes.size() == rank && y.sizes.size() == rank && is_narrow(a.dtype) && b.dtype == a.dtype &&
         (y.dtype == a.dtype || y.dtype == DType::F32) && in_vectors(a, rank - 1) && in_vectors(y, rank - 1) &&
         (in_vectors(b, rank - 1) || in_vectors(b, rank - 2));
}

}  // namespace

bool is_products_choice(std::string_view choice) { return choice == "library" || choice == "own" || choice == "auto"; }

std::optional<ir::Extern> as_own_product(const ir::Graph& graph, const ir::Operation& op) {
  const auto* call = std::get_if<ir::Extern>(&op.node);
  if (!call || !library_ops::has(call->op, library_ops::Trait::Product)) return std::nullopt;
  if (!graph.target(ir::device_of(graph, op)).has(target::Feature::BlockedProducts) || graph.batch_invariant)
    return std::nullopt;
  const EpilogueCall<const ir::Extern> product(*call);
  if (!product.nan().empty() || product.first().sizes.size() < 2) return std::nullopt;
  const bool linear = library_ops::get(call->op).packable().has_value();
  const ir::BufferView& a = product.first();
  const ir::BufferView b = linear ? matrix_of(library_ops::LinearCall<const ir::Extern>(*call)) : product.second();
  if (!are_taken(graph, a, b, product.result())) return std::nullopt;
  ir::Extern own{
      .op = std::string(library_ops::matmul::kBlocked), .attributes = {}, .inputs = {a, b}, .outputs = call->outputs};
  std::vector<PostOp> post = product.post();
  if (std::ranges::any_of(post, [](const PostOp& p) { return p.kind == PostOp::Kind::Sum; })) return std::nullopt;
  if (product.has_bias()) {
    post.insert(post.begin(), PostOp{PostOp::Kind::Add});
    own.inputs.push_back(with_rank(product.bias(), a.sizes.size()));
  }
  for (std::size_t k = product.first_post_operand(); k < call->inputs.size(); ++k)
    own.inputs.push_back(call->inputs[k]);
  EpilogueCall(own).set_post(post);
  return own;
}

bool gains_as_few_rows(const ir::Graph& graph, const ir::Extern& own) {
  const ir::BufferView &a = own.inputs[0], &b = own.inputs[1];
  const std::size_t rank = b.sizes.size();
  sym::Expr rows = 1, matrices = 1;
  for (std::size_t d = 0; d + 1 < rank; ++d)
    (d + 2 == rank || b.strides[d].is_constant(0) ? rows : matrices) *= a.sizes[d];
  const sym::ShapeEnv& env = *graph.env_ptr();
  const sym::Expr elements = b.sizes[rank - 2] * b.sizes[rank - 1];
  if (!matrices.is_constant(1) && !env.statically_known_le(kFewestOfMatrix, elements)) return false;
  if (env.statically_known_le(rows, kRowsOfOneUnit)) return true;
  return env.statically_known_le(rows, 2 * kRowsOfOneUnit) && env.statically_known_le(elements, kMostOfTwiceAsMany);
}

void take_own_products(ir::Graph& graph, const PartsOfProduct& parts) {
  bool changed = false;
  std::vector<ir::Operation> operations;
  for (const ir::Operation& op : graph.operations()) {
    std::optional<ir::Extern> own = as_own_product(graph, op);
    const std::int64_t count = own ? parts(op, *own) : 0;
    operations.push_back(op);
    if (count == 0) continue;
    for (const ir::BufferView& view : own->inputs) graph.buffer(view.buffer).layout.fixed = true;
    for (const ir::BufferView& view : own->outputs) graph.buffer(view.buffer).layout.fixed = true;
    changed = true;
    if (count == 1) {
      operations.back().node = *std::move(own);
      continue;
    }
    operations.pop_back();
    std::ranges::move(product_in_parts(graph, op, *own, count), std::back_inserter(operations));
  }
  if (changed) graph.replace_operations(std::move(operations));
}

}  // namespace coil
