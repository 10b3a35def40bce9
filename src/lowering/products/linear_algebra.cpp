// Matrix products: library calls `linear` (a weight on the right) and `matmul` (two computed operands).
#include <algorithm>

#include "ir/vectors.h"
#include "library_ops/products.h"
#include "lowering/common.h"
#include "lowering/products/products.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Attributes = library_ops::Attributes;

// Libraries of GPUs have slow kernels for matrices whose rows do not start on 16 bytes, and for products over or into
// numbers of columns that are not whole vectors (a vocabulary of 50,257). Large products are therefore made with
// operands and results grown to whole vectors, the new elements 0: where the operand is computed by a kernel anyway
// that costs nothing, else a copy.

constexpr std::int64_t kMostGrowth = 8;             // columns for each new one, at least
constexpr std::int64_t kSmallest = 1 << 24;         // multiplications
constexpr std::int64_t kSmallestCopied = 1 << 28;   // the same where operands must be copied,
constexpr std::int64_t kWorthCopying = 256;         // and uses of each of their elements
constexpr std::int64_t kSmallestDirect = 16 << 20;  // bytes of a result that several products write,
constexpr std::int64_t kSmallestBiased = 64 << 20;  // also where they need copies of a bias,
constexpr std::int64_t kFewestDirect = 512;         // and its rows

// On a device with grids of threads, a row times a matrix over so few elements is a loop: what makes the operands is
// computed in it, and libraries have no kernel for many small ones.
constexpr std::int64_t kFewTerms = 32;

/// `n` up to a whole number of vectors; itself where that is not known or not worth it.
Expr grown(const Context& ctx, DType dtype, Expr n) {
  const std::int64_t step = ctx.product_vector_bytes() / static_cast<std::int64_t>(size_of(dtype));
  const auto c = n.constant();
  if (step <= 1 || !c) return n;
  const std::int64_t more = round_up(*c, step);
  return (more - *c) * kMostGrowth <= *c ? Expr(more) : n;
}

/// The dimension of the storage that dimension `d` of a view indexes, if no other dimension of the view does.
std::optional<std::size_t> storage_dimension(Context& ctx, const TensorBox& box, std::size_t d) {
  if (box.linear) return std::nullopt;
  const Expr variable = ctx.graph.ivar(d);
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < box.map.size(); ++k) {
    if (!sym::contains(box.map[k], variable)) continue;
    if (found || !(box.map[k] == variable) || !(box.storage->sizes[k] == box.sizes[d])) return std::nullopt;
    found = k;
  }
  return found;
}

/// Whether an operand that so many products are made with may become a copy.
bool worth_a_copy(Context& ctx, const TensorBox& box, Expr uses) {
  const auto& env = ctx.graph.env();
  return !box.storage->realized() ||
         (env.hint_or(uses, 0) >= kWorthCopying && env.hint_or(uses * sym::product(box.sizes), 0) >= kSmallestCopied);
}

bool may_grow(Context& ctx, const TensorBox& box, std::size_t d, Expr uses) {
  return storage_dimension(ctx, box, d) && worth_a_copy(ctx, box, uses);
}

/// Whether the value is computed from the result of a loop of this program: then that loop's kernel can compute the
/// value too.
bool follows_a_kernel(Context& ctx, ir::Scalar body) {
  for (ir::Scalar load : ir::loads(body))
    for (ir::OperationId w : ctx.graph.buffer(load->buffer).writers) {
      const auto& node = ctx.graph.operations()[w].node;
      if (std::holds_alternative<ir::Pointwise>(node) || std::holds_alternative<ir::Reduction>(node)) return true;
    }
  return false;
}

/// Stores a computed value in a buffer of larger sizes and fills the rest with 0. Value and rest are operations of
/// their own, so that the value keeps its iteration space and can be fused with other operations over it.
TensorBox stored_in_parts(Context& ctx, const TensorBox& whole, const Exprs& sizes) {
  const Exprs& own = whole.sizes;
  auto [result, window] = library_result(ctx, whole.dtype(), sizes, sym::contiguous_strides(sizes));
  store_part(ctx, window.buffer, own, ctx.graph.ivars(own.size()), element(ctx, whole, own));
  Exprs region = own;
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (sizes[d] == own[d]) continue;
    region[d] = sizes[d] - own[d];
    Exprs at = ctx.graph.ivars(own.size());
    at[d] = at[d] + own[d];
    store_part(ctx, window.buffer, region, std::move(at), number(ctx, register_type(whole.dtype()), 0));
    region[d] = sizes[d];
  }
  return result;
}

/// The operand with dimensions `dims`, and its rows in memory, grown. Views of one storage share what is made of it.
TensorBox grown(Context& ctx, TensorBox box, const std::vector<std::size_t>& dims, Expr uses) {
  const std::shared_ptr<ir::StorageBox> storage = box.storage;
  if (box.linear || storage->sizes.empty() || (dims.empty() && !worth_a_copy(ctx, box, uses))) return box;
  Exprs sizes = storage->sizes;
  sizes.back() = grown(ctx, storage->dtype, sizes.back());
  for (std::size_t d : dims) {
    Expr& size = sizes[*storage_dimension(ctx, box, d)];
    size = box.sizes[d] = grown(ctx, storage->dtype, size);
  }
  if (sizes == storage->sizes) return box;
  std::vector<bool> grew;
  for (std::size_t d = 0; d < sizes.size(); ++d) grew.push_back(!(sizes[d] == storage->sizes[d]));
  auto& [original, made] = ctx.grown_storages[{storage.get(), grew}];
  if (!made) {
    original = storage;
    const TensorBox whole{storage, storage->sizes, ctx.graph.ivars(sizes.size()), false};
    if (!storage->realized() && follows_a_kernel(ctx, storage->body)) {
      made = stored_in_parts(ctx, whole, sizes).storage;
    } else {
      Element inside = condition(ctx, 1);
      for (std::size_t d = 0; d < sizes.size(); ++d)
        if (grew[d]) inside = inside & condition(ctx, sym::lt(ctx.graph.ivar(d), storage->sizes[d]));
      const TensorBox result = pointwise(ctx, storage->dtype, sizes,
                                         element_at(ctx, whole, ctx.graph.ivars(sizes.size()), sizes, {}, inside),
                                         sym::contiguous_strides(sizes));
      result.realize();
      made = result.storage;
    }
  }
  box.storage = made;
  return box;
}

/// Whether the node's value goes out of the program, as it is or seen in other sizes, and nowhere else.
bool only_leaves(const fx::Node& node) {
  constexpr std::string_view kViews[] = {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default",
                                         "aten.unsqueeze.default", "aten.alias.default"};
  return !node.users().empty() && std::ranges::all_of(node.users(), [&](const fx::Node* user) {
    return user->opcode == fx::Opcode::Output ||
           (user->opcode == fx::Opcode::CallFunction && std::ranges::find(kViews, user->target) != std::end(kViews) &&
            only_leaves(*user));
  });
}

/// Whether the product of two matrices goes to where its result leaves the program in parts that start on whole vectors
/// (runtime/cuda/ops/row_parts.h): what is left of the weight then does too.
bool goes_into_rows(Context& ctx, const TensorBox& a, const TensorBox& b, std::size_t b_k, const sym::TensorMeta& meta,
                    bool bias) {
  const bool adds_more = ctx.node->is_call("aten.addmm.default") && !bias;
  if (!(ctx.options.products_into_rows && ctx.target().has(target::Feature::ProductsIntoRows)) || b.rank() != 2 ||
      !only_leaves(*ctx.node) || adds_more)
    return false;
  const auto& env = ctx.graph.env();
  const Expr rows = sym::product(std::span(meta.sizes).first(meta.sizes.size() - 1));
  if (env.hint_or(rows, 0) < kFewestDirect ||
      env.hint_or(rows * meta.sizes.back(), 0) * static_cast<std::int64_t>(size_of(meta.dtype)) <
          (bias ? kSmallestBiased : kSmallestDirect))
    return false;
  const auto lies_along = [&](const TensorBox& box, std::size_t d) {
    const auto found = storage_dimension(ctx, box, d);
    return found && *found + 1 == box.storage->sizes.size() &&
           env.statically_known_multiple_of(
               box.sizes[d], ctx.product_vector_bytes() / static_cast<std::int64_t>(size_of(meta.dtype)));
  };
  return lies_along(a, a.rank() - 1) && lies_along(b, b_k);
}

/// Operands of a product y[.., M, N] = a[.., M, K] b, and the columns that it is made with.
struct Operands {
  TensorBox a, b;
  Expr columns;
};
Operands grown_operands(Context& ctx, const TensorBox& a, const TensorBox& b, std::size_t b_k, std::size_t b_n,
                        const sym::TensorMeta& meta, bool bias = false) {
  const auto& env = ctx.graph.env();
  const std::size_t a_k = a.rank() - 1;
  const Expr m = meta.sizes[meta.sizes.size() - 2], n = meta.sizes.back(), k = a.sizes[a_k],
             rows = b.rank() == 2 ? sym::product(std::span(meta.sizes).first(meta.sizes.size() - 1)) : m;
  Operands result{a, b, n};
  if (ctx.product_vector_bytes() == 0 || env.hint_or(sym::product(meta.sizes) * k, 0) < kSmallest) return result;
  const bool over = !(grown(ctx, b.dtype(), k) == k) && may_grow(ctx, a, a_k, n) && may_grow(ctx, b, b_k, rows);
  const bool into =
      !(grown(ctx, b.dtype(), n) == n) && may_grow(ctx, b, b_n, rows) && !goes_into_rows(ctx, a, b, b_k, meta, bias);
  std::vector<std::size_t> of_a, of_b;
  if (over) of_a.push_back(a_k), of_b.push_back(b_k);
  if (into) of_b.push_back(b_n);
  result.a = grown(ctx, a, of_a, n);
  result.b = grown(ctx, b, of_b, rows);
  result.columns = result.b.sizes[b_n];
  return result;
}

/// Number of multiplications in the largest product that has the node's value, or a transpose of it, as a factor; 0 if
/// there is no such product.
std::int64_t largest_product(const Context& ctx, const fx::Node& node) {
  constexpr std::string_view kViews[] = {"aten.t.default",    "aten.transpose.int",        "aten.permute.default",
                                         "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"};
  std::int64_t most = 0;
  for (const fx::Node* user : node.users()) {
    if (std::ranges::find(kViews, user->target) != std::end(kViews)) {
      most = std::max(most, largest_product(ctx, *user));
      continue;
    }
    const bool adds = user->is_call("aten.addmm.default") || user->is_call("aten.baddbmm.default");
    if (!adds && !user->is_call("aten.mm.default") && !user->is_call("aten.bmm.default")) continue;
    const fx::Node *a = user->args[adds].as_node(), *b = user->args[adds + 1].as_node();
    if (a == &node || b == &node)
      most = std::max(most, ctx.graph.env().hint_or(sym::product(user->tensor().sizes) * a->tensor().sizes.back(), 0));
  }
  return most;
}

/// The result of a product into `columns`, of which the first are the node's.
std::pair<TensorBox, BufferView> product_result(Context& ctx, const sym::TensorMeta& meta, Expr columns) {
  Exprs sizes = meta.sizes;
  sizes.back() = columns;
  auto made = library_result(ctx, meta.dtype, sizes,
                             columns == meta.sizes.back() ? meta.strides : sym::contiguous_strides(sizes));
  made.first.sizes.back() = meta.sizes.back();
  return made;
}

/// y[B.., M, N] = a[B.., M, K] b as a sum of products, for what no library of the device takes, or none well. `b` may
/// be one matrix for all of `a`.
TensorBox product_by_kernel(Context& ctx, const TensorBox& a, const TensorBox& b, const sym::TensorMeta& meta) {
  const std::size_t rank = meta.sizes.size();
  const Exprs over{a.sizes.back()};
  Exprs left = ctx.graph.ivars(rank), right = ctx.graph.ivars(b.rank());
  left[rank - 1] = right[b.rank() - 2] = ctx.graph.rvar(0);
  right[b.rank() - 1] = ctx.graph.ivar(rank - 1);
  const DType t = register_type(meta.dtype);
  const TensorBox sum = reduction(
      ctx, t, meta.sizes, over, ReductionKind::Sum,
      element_at(ctx, a, left, meta.sizes, over).cast(t) * element_at(ctx, b, right, meta.sizes, over).cast(t));
  return result(ctx, element(ctx, sum, meta.sizes), meta);
}

bool has_division(Expr e) {
  return e.kind() == sym::Kind::Mod || e.kind() == sym::Kind::FloorDiv ||
         std::ranges::any_of(e.operands(), has_division);
}

/// Whether a product of few rows makes the elements of `b` itself: quantized weights, for one, are read as they lie,
/// which takes half the time that it takes to read what is made of them, or less. Several of them in a byte are
/// unpacked in memory: vectors of the sum would read them with gaps.
bool makes_matrix(Context& ctx, const TensorBox& b, const sym::TensorMeta& meta) {
  constexpr std::uint32_t kMostOperations = 24;
  if (ctx.options.batch_invariant || b.rank() != 2 || b.storage->realized() || !is_floating(meta.dtype)) return false;
  const auto& env = ctx.graph.env();
  const auto rows = sym::product(std::span(meta.sizes).first(meta.sizes.size() - 1)).constant();
  if (!rows || *rows > ctx.target().costs.rows_by_made_matrix || b.storage->body->ops > kMostOperations) return false;
  const auto bytes = [&](const Exprs& sizes, DType t) {
    return env.hint_or(sym::product(sizes), 0) * static_cast<std::int64_t>(size_of(t));
  };
  const std::int64_t made = bytes(b.sizes, b.dtype());
  std::set<ir::BufferId> seen;
  std::int64_t read = 0;
  for (Scalar n : ir::topological({&b.storage->body, 1})) {
    std::int64_t each = 0;
    if (ir::is_load(n)) {
      const ir::Layout& from = ctx.graph.buffer(n->buffer).layout;
      each = bytes(from.sizes, from.dtype);
      if (n->mask || !n->args.empty()) return false;
      if (seen.insert(n->buffer).second) read += each;
    }
    // A factor for each group of elements may be read so.
    const bool small = ir::is_load(n) && 16 * each <= made;
    if (!small && std::ranges::any_of(n->index, has_division)) return false;
  }
  return read > 0 && 2 * read <= made;
}

/// y[.., N] = x[.., K] weight + bias. `weight` is [N, K], or [K, N] when `transposed`.
TensorBox linear(Context& ctx, const TensorBox& x, const TensorBox& weight, bool transposed,
                 std::optional<TensorBox> bias, const sym::TensorMeta& meta) {
  if (makes_matrix(ctx, weight, meta)) {
    const TensorBox made =
        product_by_kernel(ctx, x, transposed ? weight : permute(ctx, weight, {1, 0}), bias ? unrounded(meta) : meta);
    if (!bias) return made;
    const DType t = register_type(meta.dtype);
    return result(
        ctx, element(ctx, made, meta.sizes).cast(t) + element(ctx, expand(ctx, *bias, meta.sizes), meta.sizes).cast(t),
        meta);
  }
  const Operands operands =
      grown_operands(ctx, x, weight, transposed ? 0 : 1, transposed ? 1 : 0, meta, bias.has_value());
  if (bias && !(operands.columns == meta.sizes.back())) bias = grown(ctx, *bias, {0}, kSmallestCopied);
  // A weight that lies in memory the other way round is the other form of it.
  BufferView w = library_operand(operands.b);
  if (w.strides[0].is_constant(1) && !w.strides[1].is_constant(1)) {
    std::swap(w.sizes[0], w.sizes[1]);
    std::swap(w.strides[0], w.strides[1]);
    transposed = !transposed;
  }
  const Expr n = w.sizes[transposed ? 1 : 0], k = w.sizes[transposed ? 0 : 1];
  std::vector<BufferView> inputs{library_operand(operands.a), w};
  if (bias) inputs.push_back(library_operand(*bias));
  Attributes attributes{{"has_bias", std::int64_t{bias.has_value()}}, {"weight_transposed", std::int64_t{transposed}}};
  if (auto c = n.constant()) attributes["n"] = *c;
  if (auto c = k.constant()) attributes["k"] = *c;
  auto [box, out] = product_result(ctx, meta, operands.columns);
  add_library_call(ctx, "linear", std::move(attributes), std::move(inputs), {out});
  return box;
}

/// A batch of matrices: where it is nothing but a copy of what a GPU's library reads as well, rows or columns that
/// begin on whole vectors, it is not copied.
BufferView matrices(Context& ctx, const TensorBox& box) {
  const std::int64_t bytes = ctx.product_vector_bytes();
  const auto suits = [&](BufferView v) {
    if (lies_in_vectors(v, bytes)) return true;
    const std::size_t last = v.sizes.size() - 1;
    std::swap(v.sizes[last], v.sizes[last - 1]);
    std::swap(v.strides[last], v.strides[last - 1]);
    return lies_in_vectors(v, bytes);
  };
  if (bytes > 0)
    if (auto view = box.copied(suits)) return *view;
  return library_operand(box);
}

/// y[B.., M, N] = a[B.., M, K] b[B.., K, N], both operands with the same batch dimensions. `attributes`: what the call
/// has beside those of every product.
TensorBox matmul(Context& ctx, const TensorBox& a, const TensorBox& b, const sym::TensorMeta& meta,
                 Attributes attributes = {}) {
  if ((is_integral(meta.dtype) || meta.dtype == DType::Bool) && !ctx.target().has(target::Feature::IntegerProducts))
    return product_by_kernel(ctx, a, b, meta);
  if (makes_matrix(ctx, b, meta)) return product_by_kernel(ctx, a, b, meta);
  const std::size_t rank = meta.sizes.size();
  const auto terms = a.sizes.back().constant();
  if (ctx.target().has(target::Feature::ThreadGrids) && terms && *terms <= kFewTerms &&
      meta.sizes[rank - 2].is_constant(1))
    return product_by_kernel(ctx, a, b, meta);
  const Operands operands = grown_operands(ctx, a, b, rank - 2, rank - 1, meta);
  auto [box, out] = product_result(ctx, meta, operands.columns);
  attributes.emplace("has_bias", std::int64_t{0});
  add_library_call(ctx, "matmul", std::move(attributes), {matrices(ctx, operands.a), matrices(ctx, operands.b)}, {out});
  return box;
}

bool is_constant(Context& ctx, const TensorBox& box) {
  return box.storage->realized() && ctx.graph.buffer(*box.storage->buffer).kind == ir::BufferKind::Constant;
}

/// The product of a matrix and a matrix, or a weight; or of as many of both.
TensorBox product(Context& ctx, const TensorBox& a, const TensorBox& b, const sym::TensorMeta& meta) {
  if (b.rank() == 2 && is_floating(meta.dtype) && is_constant(ctx, b))
    return linear(ctx, a, b, true, std::nullopt, meta);
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
    const TensorBox sum = reduction(ctx, t, meta.sizes, {length}, ReductionKind::Sum,
                                    element_at(ctx, x, left, meta.sizes, {length}).cast(t) *
                                        element_at(ctx, weight, right, meta.sizes, {length}).cast(t));
    Element y = element(ctx, sum, meta.sizes);
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

Lowered mm(Context& ctx, const Values& args) {
  return product(ctx, ctx.tensor(args[0]), ctx.tensor(args[1]), ctx.result());
}

/// Whether the library adds a row to the product for nothing: the GPU's to any matrices (a result that goes to another
/// library call would need a kernel of its own for it), the CPU's where it has packed the weight.
bool adds_a_row(Context& ctx, const TensorBox& b, const sym::TensorMeta& meta) {
  const DType t = meta.dtype;
  if (ctx.target().has(target::Feature::AnyRowAdded)) return t == DType::F32 || t == DType::BF16 || t == DType::F16;
  return is_floating(t) && is_constant(ctx, b);
}

/// beta*self + alpha*(mat1 @ mat2)
Lowered addmm(Context& ctx, const Values& args) {
  const TensorBox self = ctx.tensor(args[0]), a = ctx.tensor(args[1]), b = ctx.tensor(args[2]);
  const sym::TensorMeta& meta = ctx.result();
  const ops::Value &beta = ctx.node->arg("beta"), &alpha = ctx.node->arg("alpha");
  const bool plain = is_number(beta, 1) && is_number(alpha, 1);
  const bool row = self.rank() == 1 && self.sizes[0] == meta.sizes.back();
  if (plain && row && a.rank() == 2 && self.dtype() == meta.dtype && adds_a_row(ctx, b, meta))
    return linear(ctx, a, b, true, self, meta);
  const DType t = register_type(meta.dtype);
  // The product is not rounded before the sum, which may be much smaller than it.
  Element y = element(ctx, product(ctx, a, b, unrounded(meta)), meta.sizes).cast(t);
  if (!is_number(alpha, 1)) y = y * Element{&ctx.graph.pool(), ctx.number(alpha, t)};
  if (is_number(beta, 0)) return result(ctx, y);
  Element addend = element(ctx, self, meta.sizes).cast(t);
  if (!is_number(beta, 1)) addend = addend * Element{&ctx.graph.pool(), ctx.number(beta, t)};
  return result(ctx, y + addend);
}

Lowered bmm(Context& ctx, const Values& args) {
  return matmul(ctx, ctx.tensor(args[0]), ctx.tensor(args[1]), ctx.result());
}

/// A product of matrices that the program wrote as a sum, which no permission to round operands is about.
Lowered contraction(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]), b = ctx.tensor(args[1]);
  if (!ctx.target().has(target::Feature::Tf32)) return product(ctx, a, b, ctx.result());
  return matmul(ctx, a, b, ctx.result(), {{std::string(library_ops::kTf32.name), std::int64_t{0}}});
}

/// matmul of torch where it comes whole: matrices with equal batch dimensions after broadcasting.
Lowered matmul_node(Context& ctx, const Values& args) {
  TensorBox a = ctx.tensor(args[0]), b = ctx.tensor(args[1]);
  const sym::TensorMeta& meta = ctx.result();
  if (a.rank() < 2 || b.rank() < 2) refuse(ctx, "has a vector among its operands");
  if (b.rank() == 2 && is_floating(meta.dtype) && is_constant(ctx, b))
    return linear(ctx, a, b, true, std::nullopt, meta);
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
  return result(ctx, element_at(ctx, ctx.tensor(args[0]), {ctx.graph.ivar(0)}, sizes).cast(t) *
                         element_at(ctx, ctx.tensor(args[1]), {ctx.graph.ivar(1)}, sizes).cast(t));
}

/// Whether a kernel of Coil's own takes the product; else a library multiplies run by run.
bool has_grouped_kernel(const Context& ctx, const BufferView& x, const BufferView& w, const BufferView& offsets,
                        const BufferView& y) {
  const DType t = x.dtype;
  if (offsets.dtype != DType::I32 && offsets.dtype != DType::I64) return false;
  const target::Target& target = ctx.graph.target(ctx.graph.buffer(x.buffer).layout.device);
  if (target.has(target::Feature::PlainProducts)) return w.dtype == t && y.dtype == t;
  const auto in_vectors = [&](const BufferView& v, std::size_t dim) {
    return ir::lies_in_vectors(ctx.graph.env(), v, dim);
  };
  return target.has(target::Feature::BlockedProducts) && (t == DType::BF16 || t == DType::F16) && w.dtype == t &&
         y.dtype == t && in_vectors(x, 1) && in_vectors(y, 1) && (in_vectors(w, 2) || in_vectors(w, 1));
}

/// Runs of rows times a matrix for each run (the experts of a mixture), where the runs end being data.
Lowered grouped(Context& ctx, const Values& args) {
  const TensorBox x = ctx.tensor(args[0]), w = ctx.tensor(args[1]);
  const bool plain = args.size() <= 3 || (args[3].is_none() && (args[4].is_none() || args[4] == ops::Value(x.dtype())));
  if (x.rank() != 2 || w.rank() != 3 || args[2].is_none() || !plain)
    refuse(ctx, "is compiled for rows and a batch of matrices, without bias and in the type of the rows");
  auto [box, out] = library_result(ctx, ctx.result().dtype, ctx.result().sizes, ctx.result().strides);
  const BufferView rows = library_operand(x), matrices = library_operand(w),
                   offsets = library_operand(ctx.tensor(args[2]));
  add_library_call(ctx,
                   has_grouped_kernel(ctx, rows, matrices, offsets, out) ? "blocked_grouped_matmul" : "grouped_matmul",
                   {}, {rows, matrices, offsets}, {out});
  return box;
}

}  // namespace

TensorBox linear_product(Context& ctx, const TensorBox& x, const TensorBox& weight,
                         const std::optional<TensorBox>& bias, const sym::TensorMeta& meta) {
  return linear(ctx, x, weight, false, bias, meta);
}

void store_for_products(Context& ctx, const fx::Node& node, const TensorBox& box) {
  const std::shared_ptr<ir::StorageBox> storage = box.storage;
  if (ctx.product_vector_bytes() == 0 || storage->realized() || largest_product(ctx, node) < kSmallest) return;
  const TensorBox made = grown(ctx, box, {}, kSmallestCopied);
  if (made.storage == storage) return;
  const TensorBox whole{made.storage, made.storage->sizes, ctx.graph.ivars(storage->sizes.size()), false};
  storage->body = element_at(ctx, whole, ctx.graph.ivars(storage->sizes.size()), storage->sizes).scalar;
}

Expr columns_for_products(const Context& ctx, const fx::Node& node) {
  constexpr std::string_view kProducts[] = {"aten.linear.default", "aten.addmm.default", "aten.mm.default"};
  const sym::TensorMeta& meta = node.tensor();
  const auto is_factor = [&](const fx::Node* user) {
    if (std::ranges::find(kProducts, user->target) == std::end(kProducts)) return false;
    const fx::Node* factor = user->args[user->is_call("aten.addmm.default") ? 1 : 0].as_node();
    const Expr work = sym::product(user->tensor().sizes) * meta.sizes.back();
    return factor == &node && ctx.graph.env().hint_or(work, 0) >= kSmallest;
  };
  const bool fits = ctx.product_vector_bytes() > 0 && meta.rank() >= 2 && !node.users().empty() &&
                    meta.strides == sym::contiguous_strides(meta.sizes);
  return fits && std::ranges::all_of(node.users(), is_factor) ? grown(ctx, meta.dtype, meta.sizes.back())
                                                              : meta.sizes.back();
}

void add_linear_algebra(Table& t) {
  t["aten.linear.default"] = linear_node;
  t["aten.mm.default"] = t["aten.mm.dtype"] = mm;
  t["aten.addmm.default"] = t["aten.baddbmm.default"] = addmm;
  t["aten.bmm.default"] = t["aten.bmm.dtype"] = bmm;
  t["coil.contraction.default"] = contraction;
  t["aten.matmul.default"] = matmul_node;
  t["aten.outer.default"] = outer;
  t["transformers.grouped_mm_fallback.default"] = t["aten._grouped_mm.default"] = grouped;
}

}  // namespace coil::lowering
