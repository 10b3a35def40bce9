// `attention` by cuDNN: two products with a softmax between them, as one graph that its engines run without writing the scores.
#include <limits>

#include "runtime/attributes.h"
#include "runtime/cached_op.h"
#include "runtime/cuda/dnn.h"
#include "runtime/cuda/library.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

struct AttentionProblem {
  BoundView q, k, v, y;
  std::optional<BoundView> mask;
  float scale = 1;
  bool causal = false;
};

AttentionProblem attention_problem(const Attributes& attributes, std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  const bool masked = int_attribute(attributes, "has_mask", 0) != 0;
  if (inputs.size() != (masked ? 4u : 3u) || outputs.size() != 1) fail("attention takes q, k, v and a mask, and gives y");
  AttentionProblem p{inputs[0], inputs[1], inputs[2], outputs[0], std::nullopt, static_cast<float>(double_attribute(attributes, "scale", 1)), int_attribute(attributes, "causal", 0) != 0};
  if (masked) p.mask = inputs[3];
  for (const BoundView* view : {&p.q, &p.k, &p.v, &p.y})
    if (view->sizes.size() != 4) fail("attention takes tensors of four dimensions");
  if (p.q.dtype != DType::F16 && p.q.dtype != DType::BF16) fail("attention by cuDNN takes float16 and bfloat16, not {}", torch_name(p.q.dtype));
  if (p.mask && p.mask->dtype == DType::Bool) fail("attention by cuDNN takes masks that are added, not those of bool");
  return p;
}

class AttentionCall : public PreparedCall {
 public:
  AttentionCall(CudaQueue& queue, const AttentionProblem& p) : queue_(queue) {
    // Engines know the causal pattern in most cases; where none takes it, it is a mask like others.
    const bool built = attempt(p, p.causal ? Causal::Pattern : Causal::No) || (p.causal && !p.mask && attempt(p, Causal::Mask));
    if (!built)
      fail("cuDNN has no engine for attention of q [{}], k [{}], v [{}] in {}: {}", fmt::join(p.q.sizes, ", "), fmt::join(p.k.sizes, ", "), fmt::join(p.v.sizes, ", "), short_name(p.q.dtype), graph_->why());
  }

  std::size_t workspace_bytes() const override { return graph_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::copy(inputs.begin(), inputs.end(), pointers_.begin());
    pointers_.back() = outputs[0];
    graph_->run(pointers_, workspace);
  }

 private:
  enum class Causal { No, Pattern, Mask };

  /// A tensor of this call's own, filled once.
  DnnGraph::Tensor own(DType dtype, const Sizes& sizes, const void* values) {
    const std::size_t bytes = static_cast<std::size_t>(numel(sizes)) * size_of(dtype);
    const Storage& memory = own_.emplace_back(queue_.allocate(bytes));
    queue_.driver().check(queue_.driver().copy_to_device(reinterpret_cast<Address>(memory.data.get()), values, bytes, queue_.stream()), "copy memory to the device");
    pointers_.push_back(memory.data.get());
    return graph_->tensor(dtype, sizes, contiguous_strides(sizes));
  }
  /// 0 where a query sees a key, -inf elsewhere.
  DnnGraph::Tensor causal_mask(std::int64_t rows, std::int64_t columns) {
    std::vector<float> mask(static_cast<std::size_t>(rows * columns), 0.0f);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = i + 1; j < columns; ++j) mask[static_cast<std::size_t>(i * columns + j)] = -std::numeric_limits<float>::infinity();
    return own(DType::F32, {1, 1, rows, columns}, mask.data());
  }

  bool attempt(const AttentionProblem& p, Causal causal) {
    graph_ = std::make_unique<DnnGraph>(queue_.dnn());
    own_.clear();
    pointers_.assign(p.mask ? 4 : 3, nullptr);
    DnnGraph& g = *graph_;
    const std::int64_t batch = p.q.sizes[0], heads = p.q.sizes[1], rows = p.q.sizes[2], columns = p.k.sizes[2];
    const Sizes scores = {batch, heads, rows, columns}, per_row = {batch, heads, rows, 1};
    const auto q = g.tensor(p.q.dtype, p.q.sizes, p.q.strides);
    // kᵀ: the same memory, seen with its last two dimensions exchanged.
    const auto k = g.tensor(p.k.dtype, {p.k.sizes[0], p.k.sizes[1], p.k.sizes[3], columns}, {p.k.strides[0], p.k.strides[1], p.k.strides[3], p.k.strides[2]});
    const auto v = g.tensor(p.v.dtype, p.v.sizes, p.v.strides);
    std::optional<DnnGraph::Tensor> mask;
    if (p.mask) {
      BoundView m = *p.mask;
      for (std::size_t d = 0; d < 2; ++d)
        if (m.strides[d] == 0) {
          m.sizes[d] = 1;
          m.strides[d] = m.sizes[2] * m.sizes[3];
        }
      mask = g.tensor(m.dtype, m.sizes, m.strides);
    }

    auto value = g.between(DType::F32, scores);
    g.product(q, k, value);
    auto then = [&](const Sizes& sizes, auto step) {
      const auto next = g.between(DType::F32, sizes);
      step(value, next);
      value = next;
    };
    then(scores, [&](auto x, auto next) { g.pointwise(kDnnMul, x, g.number(p.scale, 4), next); });
    if (causal == Causal::Mask) mask = causal_mask(rows, columns);
    if (mask) then(scores, [&](auto x, auto next) { g.pointwise(kDnnAdd, x, *mask, next); });
    if (causal == Causal::Pattern) {
      const auto row = g.between(DType::I32, scores), column = g.between(DType::I32, scores), seen = g.between(DType::Bool, scores);
      g.index(value, row, 2);
      g.index(value, column, 3);
      g.pointwise(kDnnGreaterEqual, row, column, seen);
      then(scores, [&](auto x, auto next) { g.select(seen, x, g.number(-std::numeric_limits<float>::infinity(), 4), next); });
    }
    const auto most = g.between(DType::F32, per_row), sum = g.between(DType::F32, per_row);
    g.reduce(kDnnReduceMax, value, most);
    then(scores, [&](auto x, auto next) { g.pointwise(kDnnSub, x, most, next); });
    then(scores, [&](auto x, auto next) { g.pointwise(kDnnExp, x, next); });
    g.reduce(kDnnReduceAdd, value, sum);
    // The logarithm of the sum, which only training keeps: without it engines do not see that this is attention.
    const auto logarithm = g.between(DType::F32, per_row), statistics = g.between(DType::F32, per_row);
    g.pointwise(kDnnLog, sum, logarithm);
    g.pointwise(kDnnAdd, most, logarithm, statistics);
    const auto weights = g.between(p.q.dtype, scores);
    g.pointwise(kDnnDiv, value, sum, weights);
    const auto y = g.tensor(p.y.dtype, p.y.sizes, p.y.strides);
    pointers_.push_back(nullptr);
    g.product(weights, v, y);
    return g.build(false);
  }

  CudaQueue& queue_;
  std::unique_ptr<DnnGraph> graph_;
  std::vector<Storage> own_;
  std::vector<const void*> pointers_;  ///< in the order of the graph's tensors
};

class AttentionOp : public CachedOp {
 public:
  AttentionOp(const Attributes& attributes, Queue& queue) : attributes_(attributes), queue_(static_cast<CudaQueue&>(queue)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return std::make_unique<AttentionCall>(queue_, attention_problem(attributes_, inputs, outputs));
  }

 private:
  Attributes attributes_;
  CudaQueue& queue_;
};

}  // namespace

std::unique_ptr<LibraryOp> make_attention(const Attributes& attributes, Queue& queue) { return std::make_unique<AttentionOp>(attributes, queue); }

}  // namespace coil::runtime::cuda
