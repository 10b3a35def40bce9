#include "runtime/ops/gemm.h"

#include <algorithm>

#include "library_ops/products.h"
#include "runtime/ops/nan_guard.h"
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/batch_invariant.h"
#include "runtime/ops/panel/gemm.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// Appends a product's bias and the operands of its post-operations, which follow the two matrices in the call.
void add_epilogue(GemmProblem& p, const BoundCall& call) {
  const library_ops::EpilogueCall epilogue(call);
  p.post = epilogue.post();
  p.tf32 = epilogue.tf32();
  p.batch_invariant = epilogue.batch_invariant();
  auto operand = [&](std::size_t index) {
    if (index >= call.inputs.size()) fail("a post-operation of a matrix product has no operand");
    return GemmOperand{index, expand_view(call.inputs[index], epilogue.result().sizes), p.y.sizes};
  };
  std::size_t next = epilogue.first_post_operand();
  if (epilogue.has_bias()) {
    const std::size_t bias = next - 1;
    if (bias >= call.inputs.size()) fail("a matrix product with has_bias has no bias");
    if (call.inputs[bias].sizes == Sizes{p.n}) {
      p.bias = GemmOperand{bias, call.inputs[bias], {p.n}};
    } else {
      p.operands.push_back(operand(bias));
      p.post.insert(p.post.begin(), PostOp{PostOp::Kind::Add});
    }
  }
  for (const PostOp& op : epilogue.post())
    if (op.takes_operand()) p.operands.push_back(operand(next++));
}

void require(bool good, const char* what, const BoundView& a, const BoundView& b, const BoundView& y) {
  if (!good)
    fail("{}: sizes [{}] and [{}] do not give [{}]", what, fmt::join(a.sizes, ", "), fmt::join(b.sizes, ", "),
         fmt::join(y.sizes, ", "));
}

/// b with its last two dimensions exchanged.
BoundView transposed(BoundView v) {
  std::swap(v.sizes[v.sizes.size() - 1], v.sizes[v.sizes.size() - 2]);
  std::swap(v.strides[v.strides.size() - 1], v.strides[v.strides.size() - 2]);
  return v;
}

/// Fewer batch dimensions where every operand can be seen so without a copy: none when b is one matrix for all, else
/// one.
void merge_batch(GemmProblem& p) {
  auto reshape_all = [&](std::optional<std::int64_t> batch) {
    auto shape = [&](std::int64_t rows, std::int64_t columns) {
      return batch ? Sizes{*batch, rows, columns} : Sizes{p.batch * rows, columns};
    };
    const Sizes a = shape(p.m, p.k), y = shape(p.m, p.n);
    bool good = reshape_view(p.a.given, a) && reshape_view(p.y.given, y);
    for (const GemmOperand& o : p.operands) good = good && reshape_view(o.given, y);
    Sizes b = {p.k, p.n};
    if (batch) {
      b = shape(p.k, p.n);
      good = good && reshape_view(p.b.given, b);
    }
    if (!good) return false;
    p.a.sizes = a;
    p.y.sizes = y;
    p.b.sizes = b;
    for (GemmOperand& o : p.operands) o.sizes = y;
    return true;
  };
  const std::size_t rank = p.b.given.sizes.size();
  bool one_matrix = true;
  for (std::size_t d = 0; d + 2 < rank; ++d)
    one_matrix = one_matrix && (p.b.given.strides[d] == 0 || p.b.given.sizes[d] == 1);
  if (one_matrix && reshape_all(std::nullopt)) {
    p.b.given.sizes.erase(p.b.given.sizes.begin(), p.b.given.sizes.end() - 2);
    p.b.given.strides.erase(p.b.given.strides.begin(), p.b.given.strides.end() - 2);
    p.m *= p.batch;
    p.batch = 1;
    return;
  }
  if (rank > 3) reshape_all(p.batch);
}

}  // namespace

GemmProblem linear_problem(const Attributes& attributes, std::span<const BoundView> inputs,
                           std::span<const BoundView> outputs) {
  if (inputs.size() < 2 || outputs.size() != 1 || inputs[0].sizes.empty())
    fail("linear takes x and a weight and gives y");
  const BoundCall call{attributes, inputs, outputs};
  const library_ops::LinearCall linear(call);
  const BoundView &x = linear.x(), &w = linear.weight(), &y = linear.result();
  GemmProblem p;
  p.packed_desc = linear.packed_desc();
  p.k = x.sizes.back();
  p.n = y.sizes.empty() ? 0 : y.sizes.back();
  p.m = numel(std::span(x.sizes).first(x.sizes.size() - 1));
  require(x.sizes.size() == y.sizes.size() && std::equal(x.sizes.begin(), x.sizes.end() - 1, y.sizes.begin()), "linear",
          x, w, y);
  p.a = {0, x, {p.m, p.k}};
  p.y = {0, y, {p.m, p.n}};
  if (p.packed_desc.empty()) {
    require(w.sizes.size() == 2, "linear", x, w, y);
    const BoundView b = linear.weight_transposed() ? w : transposed(w);
    require(b.sizes == Sizes{p.k, p.n}, "linear", x, w, y);
    p.b = {1, b, b.sizes};
  } else {
    const std::int64_t n = linear.n().value_or(p.n), k = linear.k().value_or(p.k);
    if (n != p.n || k != p.k) fail("linear: a packed weight of {}x{} was given for {}x{}", n, k, p.n, p.k);
    p.packed_bytes = dense_bytes(w);
    p.b = {1, {x.dtype, {p.k, p.n}, {1, p.k}}, {p.k, p.n}};
  }
  add_epilogue(p, call);
  return p;
}

GemmProblem matmul_problem(const Attributes& attributes, std::span<const BoundView> inputs,
                           std::span<const BoundView> outputs) {
  if (inputs.size() < 2 || outputs.size() != 1) fail("matmul takes a and b and gives y");
  const BoundView &a = inputs[0], &b = inputs[1], &y = outputs[0];
  const std::size_t rank = y.sizes.size();
  require(rank >= 2 && a.sizes.size() >= 2 && b.sizes.size() >= 2, "matmul", a, b, y);
  GemmProblem p;
  p.m = y.sizes[rank - 2];
  p.n = y.sizes[rank - 1];
  p.k = a.sizes.back();
  const Sizes batch(y.sizes.begin(), y.sizes.end() - 2);
  p.batch = numel(batch);
  auto with_batch = [&](std::int64_t rows, std::int64_t columns) {
    Sizes s = batch;
    s.push_back(rows);
    s.push_back(columns);
    return s;
  };
  require(a.sizes[a.sizes.size() - 2] == p.m && b.sizes[b.sizes.size() - 2] == p.k && b.sizes.back() == p.n, "matmul",
          a, b, y);
  auto broadcast = [](const BoundView& v, const Sizes& sizes) {
    BoundView e = expand_view(v, sizes);
    for (std::size_t i = 1; i <= 2; ++i) e.strides[e.strides.size() - i] = v.strides[v.strides.size() - i];
    return e;
  };
  p.a = {0, broadcast(a, with_batch(p.m, p.k)), with_batch(p.m, p.k)};
  p.b = {1, broadcast(b, with_batch(p.k, p.n)), with_batch(p.k, p.n)};
  p.y = {0, y, y.sizes};
  add_epilogue(p, {attributes, inputs, outputs});
  merge_batch(p);
  return p;
}

namespace {

std::unique_ptr<PreparedCall> make_product(const GemmProblem& problem) {
  if (problem.batch_invariant) return panels::make_batch_invariant_gemm(problem);
  if (auto call = panels::make_gemm(problem)) return call;
  if (auto call = onednn::make_gemm(problem)) return call;
  return make_plain_gemm(problem);
}

class GemmOp : public CachedOp {
 public:
  using ProblemFunction = GemmProblem (*)(const Attributes&, std::span<const BoundView>, std::span<const BoundView>);
  GemmOp(const Attributes& attributes, ProblemFunction problem) : attributes_(attributes), problem_(problem) {
    library_ops::parse_post_ops(read(attributes, library_ops::kPost));
  }

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const GemmProblem problem = problem_(attributes_, inputs, outputs);
    std::vector<EpilogueOperand> operands;
    for (const GemmOperand& o : problem.operands) operands.push_back({o.index, o.given});
    return make_with_nan_kept(attributes_, problem.post, outputs[0], std::move(operands), inputs.size(),
                              [problem](std::size_t post) { return make_product(with_post(problem, post)); });
  }

 private:
  Attributes attributes_;
  ProblemFunction problem_;
};

std::unique_ptr<LibraryOp> make_linear(const Attributes& attributes) {
  return std::make_unique<GemmOp>(attributes, linear_problem);
}

}  // namespace

std::unique_ptr<LibraryOp> make_matmul(const Attributes& attributes) {
  return std::make_unique<GemmOp>(attributes, matmul_problem);
}

namespace {

const DefineLibraryOps kProducts({{library_ops::linear::kName, make_linear},
                                  {library_ops::matmul::kName, make_matmul}});

}  // namespace

}  // namespace coil::runtime
