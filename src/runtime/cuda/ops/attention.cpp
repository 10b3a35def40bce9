// `attention` and `attention_backward` by cuDNN: each one graph of products, with a softmax between them, that its
// engines run without writing the scores.
#include <limits>

#include "library_ops/attention.h"
#include "runtime/cuda/driver/dnn.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/convert.h"
#include "runtime/device/library.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The layout in which cuDNN is shown rows of heads: as they lie, where each row is dense and begins on 16 bytes.
BoundView rows_shown(const BoundView& given) {
  const std::int64_t piece = kDeviceAlignment / static_cast<std::int64_t>(size_of(given.dtype));
  BoundView shown = given;
  std::int64_t extent = 1;  // dimensions of size 1 count as dense ones
  for (std::size_t d = given.sizes.size(); d-- > 0;) {
    if (given.sizes[d] == 1) shown.strides[d] = extent;
    const bool fits =
        d + 1 == given.sizes.size() ? shown.strides[d] == 1 : shown.strides[d] % piece == 0 && shown.strides[d] > 0;
    if (!fits) return dense_view(given.dtype, given.sizes);
    extent = std::max(extent, shown.strides[d] * given.sizes[d]);
  }
  return shown;
}

/// What both directions have: operands of a call as tensors of one graph, and memory of the call's own between.
class AttentionGraph : public PreparedCall {
 public:
  using Tensor = DnnGraph::Tensor;

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(queue_, inputs, outputs, workspace, staged_);
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i]) pointers_[i] = staged_[*sources_[i]];
    for (const auto& [operand, bytes] : zeroed_)
      queue_.driver().check(
          queue_.driver().fill_bytes(reinterpret_cast<Address>(staged_[operand]), 0, bytes, queue_.stream()),
          "fill memory");
    graph_->run(pointers_, staged_[scratch_]);
    staging_.store(queue_, outputs, staged_);
  }

 protected:
  AttentionGraph(CudaQueue& queue, const Attributes& attributes)
      : queue_(queue),
        causal_(read(attributes, library_ops::attention::kCausal)),
        scale_(static_cast<float>(read(attributes, library_ops::attention::kScale))) {}

  void restart() {
    graph_ = std::make_unique<DnnGraph>(queue_.dnn());
    staging_ = {};
    sources_.clear();
    pointers_.clear();
    zeroed_.clear();
    own_.clear();
  }

  bool finish(const DnnGraph::Freedom& freedom) {
    if (!graph_->build(freedom)) return false;
    scratch_ = staging_.scratch(graph_->workspace_bytes());
    staged_.resize(staging_.operands());
    return true;
  }

  static BoundView transposed(BoundView v) {
    std::swap(v.sizes[2], v.sizes[3]);
    std::swap(v.strides[2], v.strides[3]);
    return v;
  }

  Tensor input(std::size_t index, const BoundView& given, bool transpose = false) {
    const BoundView shown = rows_shown(given);
    return add(staging_.input(index, given, shown), transpose ? transposed(shown) : shown);
  }
  Tensor output(std::size_t index, const BoundView& given) {
    const BoundView shown = rows_shown(given);
    return add(staging_.output(index, given, shown, false), shown);
  }
  /// The logarithms of the queries' sums [B, H, S], as the library has numbers of each row: [B, H, S, 1].
  static BoundView dense_logarithms(const BoundView& given) { return dense_view(DType::F32, given.sizes); }
  Tensor logarithms_input(std::size_t index, const BoundView& given) {
    return add(staging_.input(index, given, dense_logarithms(given)), dense_view(DType::F32, per_row_));
  }
  Tensor logarithms_output(std::size_t index, const BoundView& given) {
    return add(staging_.output(index, given, dense_logarithms(given), false), dense_view(DType::F32, per_row_));
  }
  /// f32 memory of the call's own, `zeroed` before each run.
  Tensor scratch(const Sizes& sizes, bool zeroed) {
    const BoundView view = dense_view(DType::F32, sizes);
    const DeviceStaging::Operand operand = staging_.scratch(dense_bytes(view));
    if (zeroed) zeroed_.emplace_back(operand, dense_bytes(view));
    return add(operand, view);
  }
  /// A tensor of this call's own, filled once.
  Tensor constant(const Sizes& sizes, const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    const Storage& memory = own_.emplace_back(queue_.allocate(bytes));
    queue_.driver().check(queue_.driver().copy_to_device(reinterpret_cast<Address>(memory.data.get()), values.data(),
                                                         bytes, queue_.stream()),
                          "copy memory to the device");
    sources_.emplace_back(std::nullopt);
    pointers_.push_back(memory.data.get());
    return graph_->tensor(DType::F32, sizes, contiguous_strides(sizes));
  }

  /// Numbers that are added to the scores; a mask that is the same for all heads or the whole batch is shown once.
  Tensor mask_input(std::size_t index, BoundView m) {
    if (m.dtype == DType::Bool) fail("attention by cuDNN takes masks that are added, not those of bool");
    for (std::size_t d = 0; d < 2; ++d)
      if (m.strides[d] == 0) m.sizes[d] = 1;
    return input(index, m);
  }

  Tensor f32(const Sizes& sizes) { return graph_->between(DType::F32, sizes); }
  Tensor apply(int mode, Tensor x, const Sizes& sizes) {
    const Tensor y = f32(sizes);
    graph_->pointwise(mode, x, y);
    return y;
  }
  Tensor apply(int mode, Tensor a, Tensor b, const Sizes& sizes) {
    const Tensor y = f32(sizes);
    graph_->pointwise(mode, a, b, y);
    return y;
  }
  Tensor reduce(int mode, Tensor x) {
    const Tensor y = f32(per_row_);
    graph_->reduce(mode, x, y);
    return y;
  }
  Tensor scaled(Tensor x) { return apply(kDnnMul, x, graph_->number(scale_, 4), scores_); }
  Tensor scaled_scores(Tensor q, Tensor transposed_k) {
    const Tensor product = f32(scores_);
    graph_->product(q, transposed_k, product);
    return scaled(product);
  }
  /// Scores without those of keys that come after their query.
  Tensor seen(Tensor scores) {
    const Tensor row = graph_->between(DType::I32, scores_), column = graph_->between(DType::I32, scores_),
                 is_seen = graph_->between(DType::Bool, scores_), kept = f32(scores_);
    graph_->index(scores, row, 2);
    graph_->index(scores, column, 3);
    graph_->pointwise(kDnnGreaterEqual, row, column, is_seen);
    graph_->select(is_seen, scores, graph_->number(kNothing, 4), kept);
    return kept;
  }

  /// Sizes of the scores [B, H, S, T]; throws Error for operands that do not go together.
  void set_sizes(const BoundView& q, const BoundView& k, std::initializer_list<const BoundView*> rows) {
    if (q.dtype != DType::F16 && q.dtype != DType::BF16)
      fail("attention by cuDNN takes float16 and bfloat16, not {}", torch_name(q.dtype));
    for (const BoundView* view : rows)
      if (view->sizes.size() != 4 || view->dtype != q.dtype)
        fail("attention takes tensors of one type and four dimensions");
    scores_ = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
    per_row_ = {q.sizes[0], q.sizes[1], q.sizes[2], 1};
  }
  [[noreturn]] void refuse(std::string_view what, const BoundView& q, const BoundView& k, const BoundView& v) const {
    fail("cuDNN has no engine for {} of q [{}], k [{}], v [{}] in {}: {}", what, fmt::join(q.sizes, ", "),
         fmt::join(k.sizes, ", "), fmt::join(v.sizes, ", "), short_name(q.dtype), graph_->why());
  }

  CudaQueue& queue_;
  const bool causal_;
  const float scale_;
  Sizes scores_, per_row_;
  std::unique_ptr<DnnGraph> graph_;

 private:
  Tensor add(DeviceStaging::Operand source, const BoundView& shown) {
    sources_.emplace_back(source);
    pointers_.push_back(nullptr);
    return graph_->tensor(shown.dtype, shown.sizes, shown.strides);
  }

  DeviceStaging staging_;
  std::vector<std::optional<DeviceStaging::Operand>> sources_;  ///< of the graph's tensors; none: one of `own_`
  std::vector<const void*> pointers_;                           ///< of the graph's tensors
  std::vector<std::pair<DeviceStaging::Operand, std::size_t>> zeroed_;
  std::vector<void*> staged_;
  std::vector<Storage> own_;
  DeviceStaging::Operand scratch_ = 0;
};

/// q, k, v, mask? -> y, logarithms?
class ForwardCall : public AttentionGraph {
 public:
  ForwardCall(CudaQueue& queue, const Attributes& attributes, std::span<const BoundView> in,
              std::span<const BoundView> out)
      : AttentionGraph(queue, attributes) {
    const bool masked = read(attributes, library_ops::attention::kHasMask);
    if (in.size() != (masked ? 4u : 3u) || out.empty() || out.size() > 2)
      fail("attention takes q, k, v and a mask, and gives y and the logarithms of its sums");
    set_sizes(in[0], in[1], {&in[0], &in[1], &in[2], &out[0]});
    // Engines know the causal pattern in most cases; where none takes it, it is a mask like others.
    const bool built = attempt(in, out, causal_ ? Causal::Pattern : Causal::No) ||
                       (causal_ && !masked && attempt(in, out, Causal::Mask));
    if (!built) refuse("attention", in[0], in[1], in[2]);
  }

 private:
  enum class Causal { No, Pattern, Mask };

  /// 0 where a query sees a key, -inf elsewhere.
  Tensor causal_mask() {
    const std::int64_t rows = scores_[2], columns = scores_[3];
    std::vector<float> mask(static_cast<std::size_t>(rows * columns), 0.0f);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = i + 1; j < columns; ++j) mask[static_cast<std::size_t>(i * columns + j)] = kNothing;
    return constant({1, 1, rows, columns}, mask);
  }

  bool attempt(std::span<const BoundView> in, std::span<const BoundView> out, Causal causal) {
    restart();
    DnnGraph& g = *graph_;
    const Tensor q = input(0, in[0]), k = input(1, in[1], true), v = input(2, in[2]);
    std::optional<Tensor> mask;
    if (in.size() > 3) mask = mask_input(3, in[3]);
    if (causal == Causal::Mask) mask = causal_mask();

    Tensor value = scaled_scores(q, k);
    if (mask) value = apply(kDnnAdd, value, *mask, scores_);
    if (causal == Causal::Pattern) value = seen(value);
    const Tensor most = reduce(kDnnReduceMax, value);
    value = apply(kDnnExp, apply(kDnnSub, value, most, scores_), scores_);
    const Tensor sum = reduce(kDnnReduceAdd, value);
    // The logarithms of the sums, which only training keeps: without them engines do not see that this is attention.
    const Tensor logarithm = apply(kDnnLog, sum, per_row_),
                 statistics = out.size() > 1 ? logarithms_output(1, out[1]) : f32(per_row_);
    g.pointwise(kDnnAdd, most, logarithm, statistics);
    const Tensor weights = g.between(in[0].dtype, scores_);
    g.pointwise(kDnnDiv, value, sum, weights);
    g.product(weights, v, output(0, out[0]));
    return finish({});
  }
};

/// dy, q, k, v, y, logarithms, mask? -> dq, dk, dv. With P = exp(S - logarithms) and dP = dy v', dS = P * (dP - sum(dy
/// * y)) * scale; dq = dS k, dk = dS' q, dv = P' dy.
class BackwardCall : public AttentionGraph {
 public:
  BackwardCall(CudaQueue& queue, const Attributes& attributes, std::span<const BoundView> in,
               std::span<const BoundView> out)
      : AttentionGraph(queue, attributes) {
    const std::size_t operands = read(attributes, library_ops::attention::kHasMask) ? 7 : 6;
    if (in.size() != operands || out.size() != 3)
      fail("attention_backward takes dy, q, k, v, y, the logarithms of its sums and a mask, and gives dq, dk and dv");
    const BoundView &q = in[1], &k = in[2], &v = in[3];
    set_sizes(q, k, {&in[0], &q, &k, &v, &in[4], &out[0], &out[1], &out[2]});
    // Before, keys past the last were taken for zeros that count.
    if (queue.dnn().version() < kWholeKeys && k.sizes[2] % 128 != 0)
      fail(
          "attention's gradient over {} keys needs cuDNN 9.16 or later (this is {}); before, their number must be a "
          "multiple of 128",
          k.sizes[2], queue.dnn().version());
    restart();
    describe(in, out);
    if (!finish({.any_order = true})) refuse("attention's gradient", q, k, v);
  }

 private:
  static constexpr std::size_t kWholeKeys = 91600, kZeroesSums = 90600;

  Tensor exchanged(Tensor x, DType dtype) {
    const std::int64_t rows = scores_[2], columns = scores_[3], matrix = rows * columns;
    const Tensor y =
        graph_->between(dtype, {scores_[0], scores_[1], columns, rows}, {scores_[1] * matrix, matrix, 1, columns});
    graph_->reshape(x, y);
    return y;
  }

  /// a' b of each head of q, added up where heads share a key.
  void gradient_of_keys(Tensor weights, Tensor b, std::size_t index, const BoundView& given) {
    const Tensor result = output(index, given), a = exchanged(weights, given.dtype);
    if (given.sizes[1] == scores_[1]) return graph_->product(a, b, result);
    const Tensor by_head = graph_->between(given.dtype, {given.sizes[0], scores_[1], given.sizes[2], given.sizes[3]});
    graph_->product(a, b, by_head);
    graph_->reduce(kDnnReduceAdd, by_head, result);
  }

  void describe(std::span<const BoundView> in, std::span<const BoundView> out) {
    DnnGraph& g = *graph_;
    const Tensor dy = input(0, in[0]), q = input(1, in[1]), k = input(2, in[2], true), v = input(3, in[3], true),
                 y = input(4, in[4]), logarithms = logarithms_input(5, in[5]);
    const Tensor along = reduce(kDnnReduceAdd, apply(kDnnMul, dy, y, in[4].sizes)), sums = scratch(per_row_, false);
    g.pointwise(kDnnMul, along, g.number(1, 4), sums);

    Tensor value = scaled_scores(q, k);
    if (in.size() > 6) value = apply(kDnnAdd, value, mask_input(6, in[6]), scores_);
    value = apply(kDnnSub, value, logarithms, scores_);
    if (causal_) value = seen(value);
    const Tensor weights = apply(kDnnExp, value, scores_);
    gradient_of_keys(weights, dy, 2, out[2]);

    const Tensor product = f32(scores_);
    g.product(dy, v, product);
    const Tensor slopes = scaled(apply(kDnnMul, apply(kDnnSub, product, sums, scores_), weights, scores_));
    gradient_of_keys(slopes, q, 1, out[1]);

    const BoundView keys = rows_shown(in[2]);
    const Tensor rows = g.between(keys.dtype, keys.sizes, keys.strides),
                 summed = scratch(in[1].sizes, queue_.dnn().version() < kZeroesSums);
    g.reshape(k, rows);
    g.product(slopes, rows, summed);
    g.pointwise(kDnnIdentity, summed, output(0, out[0]));
  }
};

template <class Call>
class AttentionOp : public CachedOp {
 public:
  AttentionOp(const Attributes& attributes, Queue& queue)
      : attributes_(attributes), queue_(static_cast<CudaQueue&>(queue)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return std::make_unique<Call>(queue_, attributes_, inputs, outputs);
  }

 private:
  Attributes attributes_;
  CudaQueue& queue_;
};

const DefineLibraryOps kAttention(DeviceType::CUDA,
                                  {{library_ops::attention::kName, call_site_on<AttentionOp<ForwardCall>>},
                                   {library_ops::attention::kBackward, call_site_on<AttentionOp<BackwardCall>>}});

}  // namespace

}  // namespace coil::runtime::cuda
