// `convolution` by cuDNN: the bias, an addition and an activation in the same graph.
#include "runtime/ops/convolution.h"

#include <algorithm>

#include "library_ops/convolutions.h"
#include "runtime/cuda/driver/dnn.h"
#include "runtime/cuda/ops/contest.h"
#include "runtime/cuda/ops/convolution_layout.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/cached_op.h"
#include "runtime/device/convert.h"
#include "runtime/device/host_call_site.h"
#include "runtime/device/library.h"
#include "runtime/device/messages.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

std::optional<int> activation_mode(PostOp::Kind kind) {
  switch (kind) {
    case PostOp::Kind::Relu: return kDnnRelu;
    case PostOp::Kind::Tanh: return kDnnTanh;
    case PostOp::Kind::Sigmoid: return kDnnSigmoid;
    case PostOp::Kind::Silu: return kDnnSwish;
    default: return std::nullopt;
  }
}

/// Additions, then at most one activation.
bool takes(const std::vector<PostOp>& post) {
  for (std::size_t i = 0; i < post.size(); ++i)
    if (post[i].kind != PostOp::Kind::Add && !(i + 1 == post.size() && activation_mode(post[i].kind))) return false;
  return true;
}

/// cuDNN sees a transposed convolution as the gradient of one from y to x, and wants x to be as large as that one gives
/// it: where output padding leaves room for another place, y is padded less.
Sizes end_padding(const ConvolutionProblem& p) {
  Sizes padding = p.padding_end;
  for (std::size_t d = 0; p.transposed && d < p.spatial(); ++d) {
    const std::int64_t reach = (p.kernel(d) - 1) * p.dilation[d] + 1,
                       natural = (p.x.sizes[d + 2] - 1) * p.stride[d] + reach - p.padding[d] - padding[d];
    if (const std::int64_t left_over = p.y.sizes[d + 2] - natural; left_over >= p.stride[d]) padding[d] -= left_over;
  }
  return padding;
}

/// One of the ways to carry out a convolution.
struct Way {
  bool last = false;   ///< the library is shown channels innermost
  bool split = false;  ///< what follows the product is a graph of its own
  int skipped = 0;     ///< engines that the product could have had
  bool alone = false;  ///< without what follows: to be timed, not used
};

class ConvolutionCall : public PreparedCall {
 public:
  ConvolutionCall(CudaQueue& queue, const ConvolutionProblem& p, const Way& way) : queue_(queue) {
    if (!attempt(p, way)) parts_.clear();
  }

  /// False when no engine takes it; `why` then tells what the library said.
  bool is_ready() const { return !parts_.empty(); }
  const std::string& why() const { return why_; }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(queue_, inputs, outputs, workspace, pointers_);
    for (Part& part : parts_) {
      std::vector<const void*>& pointers = part.pointers;
      for (std::size_t i = 0; i < part.operands.size(); ++i) pointers[i] = pointers_[part.operands[i]];
      part.graph->run(pointers, pointers_[part.scratch]);
    }
    staging_.store(queue_, outputs, pointers_);
  }

 private:
  using Operand = DeviceStaging::Operand;
  struct Part {
    std::unique_ptr<DnnGraph> graph;
    std::vector<Operand> operands;  ///< in the order of the graph's tensors
    Operand scratch = 0;
    std::vector<const void*> pointers;
  };
  /// An operand as it reaches cuDNN.
  struct Seen {
    BoundView view;
    Operand operand;
  };

  Seen input(std::size_t place, const BoundView& given, bool last) {
    const BoundView shown = shown_as(given, last);
    return {widened(shown), staging_.input(place, given, shown)};
  }

  Seen bias(const ConvolutionProblem& p) {
    if (p.bias->dtype != p.x.dtype)
      fail("the bias of a convolution is {}, but its input {}", short_name(p.bias->dtype), short_name(p.x.dtype));
    Sizes sizes(widened(p.y).sizes.size(), 1), strides(sizes.size(), p.y.sizes[1]);
    sizes[1] = p.y.sizes[1];
    strides[1] = 1;
    return {{p.bias->dtype, std::move(sizes), std::move(strides)},
            staging_.input(2, *p.bias, dense_view(p.bias->dtype, p.bias->sizes))};
  }

  /// A tensor of the part under construction.
  static DnnGraph::Tensor use(Part& part, const Seen& seen) {
    part.operands.push_back(seen.operand);
    return part.graph->tensor(seen.view.dtype, seen.view.sizes, seen.view.strides);
  }

  bool finish(Part& part, const DnnGraph::Freedom& freedom, int skipped) {
    if (!part.graph->build(freedom, skipped)) {
      why_ = part.graph->why();
      return false;
    }
    part.scratch = staging_.scratch(part.graph->workspace_bytes());
    part.pointers.resize(part.operands.size());
    return true;
  }

  bool attempt(const ConvolutionProblem& p, const Way& way) {
    const bool last = way.last, split = way.split;
    const std::size_t links = (p.bias ? 1u : 0u) + p.post.size();
    if (split && links == 0) return false;
    const Seen x = input(0, p.x, last), w = input(1, p.weight, last);
    const BoundView shown = shown_as(p.y, last);
    const Seen y{widened(shown), staging_.output(0, p.y, shown, false)};
    auto start = [&]() -> Part& {
      return parts_.emplace_back(Part{std::make_unique<DnnGraph>(queue_.dnn()), {}, 0, {}});
    };
    const bool exact = p.x.dtype == DType::F32;
    const DnnGraph::Freedom freedom{.matrix_units = !exact || p.tf32,
                                    .narrower = !exact,
                                    .matrix_units_first = size_of(p.x.dtype) == 2 && p.groups == 1};

    Part* part = &start();
    DnnGraph::Tensor xt = use(*part, x), wt = use(*part, w);
    std::size_t link = 0;
    auto next = [&] {
      return link++ == links ? use(*part, y)
                             : part->graph->between(p.x.dtype == DType::F64 ? DType::F64 : DType::F32, y.view.sizes,
                                                    y.view.strides);
    };
    DnnGraph::Tensor value = split ? use(*part, y) : next();
    part->graph->convolution(xt, wt, value,
                             {widened(p.stride, 1), widened(p.padding, 0), widened(end_padding(p), 0),
                              widened(p.dilation, 1), p.transposed});
    if (split) {
      if (!finish(*part, freedom, way.skipped)) return false;
      pointers_.resize(staging_.operands());
      if (way.alone) return true;
      part = &start();
      value = use(*part, y);
      ++link;
    }
    if (p.bias) {
      const DnnGraph::Tensor vector = use(*part, bias(p)), sum = next();
      part->graph->pointwise(kDnnAdd, value, vector, sum);
      value = sum;
    }
    std::size_t operand = 0;
    for (const PostOp& op : p.post) {
      if (op.kind == PostOp::Kind::Add) {
        const DnnGraph::Tensor added = use(*part, input(p.first_operand + operand, p.operands[operand], last)),
                               after = next();
        part->graph->pointwise(kDnnAdd, value, added, after);
        value = after;
        ++operand;
      } else {
        const DnnGraph::Tensor after = next();
        part->graph->pointwise(*activation_mode(op.kind), value, after);
        value = after;
      }
    }
    if (split ? !finish(*part, {}, 0) : !finish(*part, freedom, way.skipped)) return false;
    pointers_.resize(staging_.operands());
    return true;
  }

  CudaQueue& queue_;
  DeviceStaging staging_;
  std::vector<Part> parts_;
  std::vector<void*> pointers_;
  std::string why_;
};

void check_types(const ConvolutionProblem& p) {
  if (!p.packed_desc.empty()) fail("a weight that was packed for the cpu cannot be used on cuda");
  if (!takes(p.post)) fail("cuDNN cannot do all post-operations of a convolution");
  if (p.x.dtype != p.weight.dtype || p.x.dtype != p.y.dtype)
    fail("a convolution of {} and {} to {} does not run on cuda", short_name(p.x.dtype), short_name(p.weight.dtype),
         short_name(p.y.dtype));
}

/// The work of a convolution: bytes of its operands, each read or written once, and its multiplications.
Work work_of(const ConvolutionProblem& p) {
  Work work{.dtype = p.x.dtype, .tf32 = p.tf32};
  for (const BoundView* v : {&p.x, &p.weight, &p.y}) work.bytes += static_cast<double>(dense_bytes(*v));
  const double places = static_cast<double>(numel((p.transposed ? p.x : p.y).sizes));
  work.multiplications =
      places * static_cast<double>(numel(p.weight.sizes) / std::max<std::int64_t>(p.weight.sizes[0], 1));
  return work;
}

class ConvolutionOp : public CachedOp {
 public:
  ConvolutionOp(const Attributes& attributes, Queue& queue)
      : attributes_(attributes), queue_(static_cast<CudaQueue&>(queue)) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const ConvolutionProblem problem = convolution_problem(attributes_, inputs, outputs);
    if (is_floating(problem.y.dtype))
      if (auto call = on_device(problem, inputs, outputs)) return call;
    return prepare_host_call(queue_, "convolution", attributes_, inputs, outputs);
  }

 private:
  /// The call in the first way that the library takes, or in one that is clearly faster; null: it takes none.
  std::unique_ptr<PreparedCall> on_device(const ConvolutionProblem& p, std::span<const BoundView> inputs,
                                          std::span<const BoundView> outputs) {
    check_types(p);
    Way way;
    auto first = first_call(p, way);
    if (!first || p.fixed_engine || !Contest::may_be_held(queue_)) return first;
    Contest contest(queue_, inputs, outputs, work_of(p));
    contest.enter(std::move(first));
    for (int engine = 1; engine <= kOthers && contest.is_open(); ++engine)
      contest.enter(call(p, {.last = way.last, .split = way.split, .skipped = engine}));
    if (!way.split && (p.bias || !p.post.empty())) enter_products_alone(contest, p, way.last);
    return contest.take();
  }

  /// What follows a product is compiled by the library, in a quarter of a second: where the product by itself is fast.
  void enter_products_alone(Contest& contest, const ConvolutionProblem& p, bool last) {
    const double passes = 2 + static_cast<double>(p.operands.size());
    const double rest = Work{.bytes = passes * static_cast<double>(dense_bytes(p.y))}.least(queue_.cuda());
    for (int engine = 0; engine < kOthers && contest.is_open(); ++engine) {
      Way way{.last = last, .split = true, .skipped = engine, .alone = true};
      auto alone = call(p, way);
      if (!alone || contest.milliseconds(*alone) + rest > kMuchFaster * contest.best()) continue;
      way.alone = false;
      contest.enter(call(p, way));
    }
  }

  std::unique_ptr<PreparedCall> call(const ConvolutionProblem& p, const Way& way) {
    auto made = std::make_unique<ConvolutionCall>(queue_, p, way);
    if (!made->is_ready()) why_ = made->why();
    return made->is_ready() ? std::move(made) : nullptr;
  }

  /// The first call that an engine takes: in the layout in which more of the operands lie or in the other, whole or
  /// with what follows as a graph of its own, by the bytes that are moved besides.
  std::unique_ptr<PreparedCall> first_call(const ConvolutionProblem& p, Way& way) {
    std::vector<const BoundView*> views{&p.x, &p.weight, &p.y};
    for (const BoundView& operand : p.operands) views.push_back(&operand);
    const bool lie_last = lie_channels_last(views);
    std::vector<Way> ways;
    for (const bool split : {false, true})
      for (const bool last : {lie_last, !lie_last}) ways.push_back({.last = last, .split = split});
    std::ranges::stable_sort(
        ways, {}, [&](const Way& w) { return copied_bytes(views, w.last) + (w.split ? dense_bytes(p.y) : 0); });
    for (const Way& each : ways)
      if (auto made = call(p, way = each)) return made;
    tell(MessageLevel::Warning,
         "cuDNN has no engine for a convolution of x [{}] and weight [{}] in {}, which is left to the host: {}",
         fmt::join(p.x.sizes, ", "), fmt::join(p.weight.sizes, ", "), short_name(p.x.dtype), why_);
    return nullptr;
  }

  static constexpr int kOthers = 3;           // engines behind the first that are tried
  static constexpr double kMuchFaster = 0.7;  // of the time so far
  Attributes attributes_;
  CudaQueue& queue_;
  std::string why_;
};

const DefineLibraryOps kConvolution(DeviceType::CUDA, {{library_ops::convolution::kName, call_site_on<ConvolutionOp>}});

}  // namespace

}  // namespace coil::runtime::cuda
