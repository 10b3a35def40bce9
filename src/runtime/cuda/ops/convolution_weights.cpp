// `convolution_weights` by cuDNN.
#include "runtime/ops/convolution_weights.h"

#include "library_ops/convolutions.h"
#include "runtime/cuda/driver/dnn.h"
#include "runtime/cuda/ops/contest.h"
#include "runtime/cuda/ops/convolution_layout.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/convert.h"
#include "runtime/device/host_call_site.h"
#include "runtime/device/library.h"
#include "runtime/device/messages.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

/// x without what no window reaches, and its padding at the end: cuDNN wants dy to be as large as a convolution of x
/// gives it, and x may have room for more.
struct Reached {
  BoundView x;
  Sizes padding_end;

  explicit Reached(const WeightGradientProblem& p) : x(p.x), padding_end(p.padding) {
    for (std::size_t d = 0; d < p.spatial(); ++d) {
      const std::int64_t reach = (p.dw.sizes[d + 2] - 1) * p.dilation[d] + 1,
                         extent = (p.dy.sizes[d + 2] - 1) * p.stride[d] + reach;
      std::int64_t& size = x.sizes[d + 2];
      if (size + 2 * p.padding[d] < extent + p.stride[d]) continue;
      size = std::min(size, extent - p.padding[d]);
      padding_end[d] = extent - p.padding[d] - size;
    }
  }
};

class WeightGradientCall : public PreparedCall {
 public:
  /// With channels innermost or not, as the library is shown them, by an engine behind `skipped` that it has.
  WeightGradientCall(CudaQueue& queue, const WeightGradientProblem& p, bool last, int skipped) : queue_(queue) {
    const Reached reached(p);
    if (numel(reached.x.sizes) == 0 || numel(p.dy.sizes) == 0)
      make_empty(p);
    else if (!attempt(p, reached, last, skipped))
      graph_ = nullptr;
  }

  /// False when no engine takes it; `why` then tells what the library said.
  bool is_ready() const { return graph_ || empty_bytes_; }
  const std::string& why() const { return why_; }
  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(queue_, inputs, outputs, workspace, pointers_);
    if (graph_) {
      const void* const operands[] = {pointers_[x_], pointers_[dy_], pointers_[dw_]};
      graph_->run(operands, pointers_[scratch_]);
    } else {
      queue_.driver().check(
          queue_.driver().fill_bytes(reinterpret_cast<Address>(pointers_[dw_]), 0, empty_bytes_, queue_.stream()),
          "fill memory");
    }
    staging_.store(queue_, outputs, pointers_);
  }

 private:
  /// A sum over no elements.
  void make_empty(const WeightGradientProblem& p) {
    const BoundView dense = dense_view(p.dw.dtype, p.dw.sizes);
    empty_bytes_ = dense_bytes(dense);
    dw_ = staging_.output(0, p.dw, dense, false);
    pointers_.resize(staging_.operands());
  }

  bool attempt(const WeightGradientProblem& p, const Reached& reached, bool last, int skipped) {
    graph_ = std::make_unique<DnnGraph>(queue_.dnn());
    auto input = [&](std::size_t place, const BoundView& given, DeviceStaging::Operand& operand) {
      const BoundView shown = shown_as(given, last), seen = widened(shown);
      operand = staging_.input(place, given, shown);
      return graph_->tensor(seen.dtype, seen.sizes, seen.strides);
    };
    const DnnGraph::Tensor xt = input(0, reached.x, x_), dyt = input(1, p.dy, dy_);
    const BoundView shown = shown_as(p.dw, last), seen = widened(shown);
    dw_ = staging_.output(0, p.dw, shown, false);
    const DnnGraph::Tensor dwt = graph_->tensor(seen.dtype, seen.sizes, seen.strides);
    graph_->weight_gradient(
        xt, dyt, dwt,
        {widened(p.stride, 1), widened(p.padding, 0), widened(reached.padding_end, 0), widened(p.dilation, 1)});
    const bool exact = p.x.dtype == DType::F32;
    const DnnGraph::Freedom freedom{.matrix_units = !exact || p.tf32,
                                    .narrower = !exact,
                                    .matrix_units_first = size_of(p.x.dtype) == 2 && p.groups == 1};
    if (!graph_->build(freedom, skipped)) {
      why_ = graph_->why();
      return false;
    }
    scratch_ = staging_.scratch(graph_->workspace_bytes());
    pointers_.resize(staging_.operands());
    return true;
  }

  CudaQueue& queue_;
  DeviceStaging staging_;
  std::unique_ptr<DnnGraph> graph_;  ///< none: the gradient is 0
  DeviceStaging::Operand x_ = 0, dy_ = 0, dw_ = 0, scratch_ = 0;
  std::size_t empty_bytes_ = 0;
  std::vector<void*> pointers_;
  std::string why_;
};

class ConvolutionWeightsOp : public CachedOp {
 public:
  ConvolutionWeightsOp(const Attributes& attributes, Queue& queue)
      : attributes_(attributes), queue_(static_cast<CudaQueue&>(queue)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const WeightGradientProblem problem = weight_gradient_problem(attributes_, inputs, outputs);
    if (is_floating(problem.dw.dtype))
      if (auto call = on_device(problem, inputs, outputs)) return call;
    return prepare_host_call(queue_, "convolution_weights", attributes_, inputs, outputs);
  }

 private:
  /// The call by the first engine that the library has for it, or by one that is clearly faster; null: it has none.
  std::unique_ptr<PreparedCall> on_device(const WeightGradientProblem& p, std::span<const BoundView> inputs,
                                          std::span<const BoundView> outputs) {
    if (p.x.dtype != p.dy.dtype || p.x.dtype != p.dw.dtype)
      fail("the gradient of a convolution's weight in {} from {} and {} does not run on cuda", short_name(p.dw.dtype),
           short_name(p.x.dtype), short_name(p.dy.dtype));
    const BoundView* const views[] = {&p.x, &p.dy, &p.dw};
    bool last = lie_channels_last(views);
    auto first = call(p, last, 0);
    if (!first) first = call(p, last = !last, 0);
    if (!first)
      tell(MessageLevel::Warning,
           "cuDNN has no engine for the gradient of a convolution's weight [{}] from x [{}] in {}, which is left to "
           "the host: {}",
           fmt::join(p.dw.sizes, ", "), fmt::join(p.x.sizes, ", "), short_name(p.x.dtype), why_);
    if (!first || p.fixed_engine || !Contest::may_be_held(queue_)) return first;
    Contest contest(queue_, inputs, outputs, work_of(p));
    contest.enter(std::move(first));
    for (int engine = 1; engine <= kOthers && contest.is_open(); ++engine) contest.enter(call(p, last, engine));
    return contest.take();
  }

  std::unique_ptr<PreparedCall> call(const WeightGradientProblem& p, bool last, int skipped) {
    auto made = std::make_unique<WeightGradientCall>(queue_, p, last, skipped);
    if (!made->is_ready()) why_ = made->why();
    return made->is_ready() ? std::move(made) : nullptr;
  }

  /// The work of the gradient: bytes of its operands, each read or written once, and its multiplications.
  static Work work_of(const WeightGradientProblem& p) {
    Work work{.dtype = p.x.dtype, .tf32 = p.tf32};
    for (const BoundView* v : {&p.x, &p.dy, &p.dw}) work.bytes += static_cast<double>(dense_bytes(*v));
    work.multiplications = static_cast<double>(numel(p.dy.sizes)) *
                           static_cast<double>(numel(p.dw.sizes) / std::max<std::int64_t>(p.dw.sizes[0], 1));
    return work;
  }

  static constexpr int kOthers = 3;  // engines behind the first that are tried
  Attributes attributes_;
  CudaQueue& queue_;
  std::string why_;
};

const DefineLibraryOps kConvolutionWeights(DeviceType::CUDA, {{library_ops::convolution_weights::kName,
                                                               call_site_on<ConvolutionWeightsOp>}});

}  // namespace

}  // namespace coil::runtime::cuda
