#include "runtime/cuda/driver/dnn.h"

#include <algorithm>
#include <span>

#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr const char* kDnnNames[] = {"libcudnn.so.9"};

// Values of cudnn_graph.h: descriptors,
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kHeuristic = 4, kPlan = 5,
              kConvolutionForward = 10, kConvolutionBackwardWeights = 11, kConvolutionBackwardData = 12,
              kOperationPointwise = 13, kGraph = 15, kVariantPack = 16, kTensor = 17, kMatmul = 18,
              kOperationMatmul = 19, kReduction = 21, kOperationReduction = 22, kOperationReshape = 31;
// types of attributes,
constexpr int kHandleType = 0, kDataType = 1, kBooleanType = 2, kIntegerType = 3, kFloatType = 4, kDoubleType = 5,
              kPointerType = 6, kConvolutionModeType = 7, kHeuristicModeType = 8, kNoteType = 11,
              kPointwiseModeType = 14, kDescriptorType = 15, kReductionType = 18;
// attributes,
constexpr int kPointwiseMode = 0, kPointwisePrecision = 1, kPointwiseAxis = 9;
constexpr int kConvolutionPrecision = 100, kConvolutionModeAttribute = 101, kConvolutionDilations = 102,
              kConvolutionStrides = 103, kConvolutionPostPadding = 104, kConvolutionPrePadding = 105,
              kConvolutionDims = 106;
constexpr int kHeuristicMode = 200, kHeuristicGraph = 201, kHeuristicResults = 202, kConfigEngine = 300;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402;
constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConvolution = 702, kForwardW = 703, kForwardX = 704,
              kForwardY = 705;
constexpr int kBackwardAlpha = 706, kBackwardBeta = 707, kBackwardConvolution = 708, kBackwardW = 709,
              kBackwardDx = 710, kBackwardDy = 711;
constexpr int kWeightsAlpha = 712, kWeightsBeta = 713, kWeightsConvolution = 714, kWeightsDw = 715, kWeightsX = 716,
              kWeightsDy = 717;
constexpr int kPointwiseDesc = 750, kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753, kPointwiseT = 758;
constexpr int kGraphHandle = 800, kGraphOperations = 801;
constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorSizes = 902, kTensorStrides = 903, kTensorId = 906,
              kTensorVirtual = 907, kTensorByValue = 908;
constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
constexpr int kEngineNote = 1303;
constexpr int kMatmulPrecision = 1500, kMatmulA = 1520, kMatmulB = 1521, kMatmulC = 1522, kMatmulDesc = 1523;
constexpr int kReductionOperator = 1600, kReductionPrecision = 1601, kReductionX = 1610, kReductionY = 1611,
              kReductionDesc = 1612;
constexpr int kReshapeX = 2200, kReshapeY = 2201;
// and modes.
constexpr int kFloat = 0, kCrossCorrelation = 1, kGenIndex = 501, kBinarySelect = 601, kHeuristicFallback = 2,
              kHeuristicA = 3;
constexpr int kNoteTensorCore = 0, kNoteDownConvert = 1, kNoteNarrowSums = 2, kNoteNondeterministic = 4;

int dnn_type(DType d) {
  switch (d) {
    case DType::F32: return 0;
    case DType::F64: return 1;
    case DType::F16: return 2;
    case DType::I32: return 4;
    case DType::BF16: return 9;
    case DType::Bool: return 11;
    default: fail("cuDNN has no tensors of {}", torch_name(d));
  }
}

}  // namespace

Dnn::Dnn(CudaQueue& queue) : queue_(queue), library_("cuDNN 9", kDnnNames) {
#define X(name, symbol, result, parameters) library_.find(name##_, symbol);
  COIL_CUDNN(X)
#undef X
  check(create_(&handle_), "start");
}

Dnn::~Dnn() {
  if (handle_) destroy_(handle_);
}

void Dnn::check(Status status, const char* what) const {
  if (status != 0) fail("cuDNN cannot {}: {}", what, error_string_(status));
}

void Dnn::follow_queue() {
  if (stream_set_ && stream_ == queue_.stream()) return;
  check(set_stream_(handle_, queue_.stream()), "take a stream");
  stream_ = queue_.stream();
  stream_set_ = true;
}

DnnGraph::~DnnGraph() {
  for (auto d = owned_.rbegin(); d != owned_.rend(); ++d) dnn_.drop_(*d);
}

DnnGraph::Descriptor DnnGraph::make(int type) {
  Descriptor d = nullptr;
  dnn_.check(dnn_.make_(type, &d), "describe an operation");
  owned_.push_back(d);
  return d;
}

void DnnGraph::set(Descriptor d, int attribute, int type, std::int64_t count, const void* values) {
  if (taken_ && dnn_.set_(d, attribute, type, count, values) != 0) taken_ = refused("a description");
}

void DnnGraph::connect(Descriptor operation, int attribute, Tensor t) {
  set(operation, attribute, kDescriptorType, tensors_[static_cast<std::size_t>(t)]);
}

void DnnGraph::finish(Descriptor d) {
  if (taken_ && dnn_.finalize_(d) != 0) taken_ = refused("an operation");
}

DnnGraph::Tensor DnnGraph::add_tensor(DType dtype, const Sizes& sizes, const Sizes& strides, std::int64_t alignment,
                                      bool is_virtual, bool by_value) {
  const auto id = static_cast<Tensor>(tensors_.size());
  Descriptor t = make(kTensor);
  set(t, kTensorType, kDataType, dnn_type(dtype));
  set(t, kTensorSizes, kIntegerType, static_cast<std::int64_t>(sizes.size()), sizes.data());
  set(t, kTensorStrides, kIntegerType, static_cast<std::int64_t>(strides.size()), strides.data());
  set(t, kTensorId, kIntegerType, id + 1);
  set(t, kTensorAlignment, kIntegerType, alignment);
  if (is_virtual) set(t, kTensorVirtual, kBooleanType, is_virtual);
  if (by_value) set(t, kTensorByValue, kBooleanType, by_value);
  finish(t);
  tensors_.push_back(t);
  return id;
}

DnnGraph::Tensor DnnGraph::tensor(DType dtype, const Sizes& sizes, const Sizes& strides, std::int64_t alignment) {
  const Tensor t = add_tensor(dtype, sizes, strides, alignment, false, false);
  in_memory_.push_back(t + 1);
  bytes_.push_back(static_cast<std::size_t>(layout_span(sizes, strides)) * size_of(dtype));
  if (dtype == DType::F64) precision_ = dnn_type(dtype);
  return t;
}

DnnGraph::Tensor DnnGraph::between(DType dtype, const Sizes& sizes, const Sizes& strides) {
  return add_tensor(dtype, sizes, strides.empty() ? contiguous_strides(sizes) : strides, 16, true, false);
}

DnnGraph::Tensor DnnGraph::number(float value, std::size_t rank) {
  const Tensor t = add_tensor(DType::F32, Sizes(rank, 1), Sizes(rank, 1), 4, false, true);
  numbers_.push_back(t + 1);
  number_values_.push_back(value);
  return t;
}

DnnGraph::Descriptor DnnGraph::convolution_kind(const Convolution& c) {
  const auto rank = static_cast<std::int64_t>(c.stride.size());
  Descriptor conv = make(kConvolution);
  set(conv, kConvolutionPrecision, kDataType, precision_);
  set(conv, kConvolutionModeAttribute, kConvolutionModeType, kCrossCorrelation);
  set(conv, kConvolutionDims, kIntegerType, rank);
  set(conv, kConvolutionDilations, kIntegerType, rank, c.dilation.data());
  set(conv, kConvolutionStrides, kIntegerType, rank, c.stride.data());
  set(conv, kConvolutionPrePadding, kIntegerType, rank, c.padding.data());
  set(conv, kConvolutionPostPadding, kIntegerType, rank, c.padding_end.data());
  finish(conv);
  return conv;
}

/// The result is the operation's alone: nothing of what was there before.
void DnnGraph::set_factors(Descriptor op, int alpha, int beta) {
  const float one = 1, zero = 0;
  if (precision_ == kFloat) {
    set(op, alpha, kFloatType, one);
    set(op, beta, kFloatType, zero);
  } else {
    set(op, alpha, kDoubleType, static_cast<double>(one));
    set(op, beta, kDoubleType, static_cast<double>(zero));
  }
}

void DnnGraph::convolution(Tensor x, Tensor w, Tensor y, const Convolution& c) {
  Descriptor conv = convolution_kind(c);
  Descriptor op = make(c.transposed ? kConvolutionBackwardData : kConvolutionForward);
  set(op, c.transposed ? kBackwardConvolution : kForwardConvolution, kDescriptorType, conv);
  connect(op, c.transposed ? kBackwardDy : kForwardX, x);
  connect(op, c.transposed ? kBackwardW : kForwardW, w);
  write(op, c.transposed ? kBackwardDx : kForwardY, y);
  set_factors(op, c.transposed ? kBackwardAlpha : kForwardAlpha, c.transposed ? kBackwardBeta : kForwardBeta);
  finish(op);
  operations_.push_back(op);
}

void DnnGraph::weight_gradient(Tensor x, Tensor dy, Tensor dw, const Convolution& c) {
  Descriptor conv = convolution_kind(c), op = make(kConvolutionBackwardWeights);
  set(op, kWeightsConvolution, kDescriptorType, conv);
  connect(op, kWeightsX, x);
  connect(op, kWeightsDy, dy);
  write(op, kWeightsDw, dw);
  set_factors(op, kWeightsAlpha, kWeightsBeta);
  finish(op);
  operations_.push_back(op);
}

void DnnGraph::note(std::vector<std::size_t>& places, Tensor t) const {
  const auto at = std::ranges::find(in_memory_, t + 1);
  if (at != in_memory_.end()) places.push_back(static_cast<std::size_t>(at - in_memory_.begin()));
}

void DnnGraph::read_beside(Descriptor op, int attribute, Tensor t) {
  connect(op, attribute, t);
  note(beside_, t);
}

void DnnGraph::write(Descriptor op, int attribute, Tensor t) {
  connect(op, attribute, t);
  note(written_, t);
}

DnnGraph::Descriptor DnnGraph::pointwise_operation(int mode) {
  Descriptor kind = make(kPointwise);
  set(kind, kPointwiseMode, kPointwiseModeType, mode);
  set(kind, kPointwisePrecision, kDataType, mode == kDnnGreaterEqual ? dnn_type(DType::Bool) : precision_);
  finish(kind);
  Descriptor op = make(kOperationPointwise);
  set(op, kPointwiseDesc, kDescriptorType, kind);
  operations_.push_back(op);
  return op;
}

void DnnGraph::pointwise(int mode, Tensor x, Tensor y) {
  Descriptor op = pointwise_operation(mode);
  read_beside(op, kPointwiseX, x);
  write(op, kPointwiseY, y);
  finish(op);
}

void DnnGraph::pointwise(int mode, Tensor x, Tensor b, Tensor y) {
  Descriptor op = pointwise_operation(mode);
  read_beside(op, kPointwiseX, x);
  read_beside(op, kPointwiseB, b);
  write(op, kPointwiseY, y);
  finish(op);
}

void DnnGraph::select(Tensor condition, Tensor x, Tensor b, Tensor y) {
  Descriptor op = pointwise_operation(kBinarySelect);
  read_beside(op, kPointwiseX, x);
  read_beside(op, kPointwiseB, b);
  read_beside(op, kPointwiseT, condition);
  write(op, kPointwiseY, y);
  finish(op);
}

void DnnGraph::index(Tensor x, Tensor y, std::int64_t axis) {
  Descriptor kind = make(kPointwise);
  set(kind, kPointwiseMode, kPointwiseModeType, kGenIndex);
  set(kind, kPointwisePrecision, kDataType, precision_);
  set(kind, kPointwiseAxis, kIntegerType, axis);
  finish(kind);
  Descriptor op = make(kOperationPointwise);
  set(op, kPointwiseDesc, kDescriptorType, kind);
  read_beside(op, kPointwiseX, x);
  write(op, kPointwiseY, y);
  finish(op);
  operations_.push_back(op);
}

void DnnGraph::product(Tensor a, Tensor b, Tensor c) {
  Descriptor kind = make(kMatmul);
  set(kind, kMatmulPrecision, kDataType, precision_);
  finish(kind);
  Descriptor op = make(kOperationMatmul);
  connect(op, kMatmulA, a);
  connect(op, kMatmulB, b);
  write(op, kMatmulC, c);
  set(op, kMatmulDesc, kDescriptorType, kind);
  finish(op);
  operations_.push_back(op);
}

void DnnGraph::reshape(Tensor x, Tensor y) {
  Descriptor op = make(kOperationReshape);
  connect(op, kReshapeX, x);
  write(op, kReshapeY, y);
  finish(op);
  operations_.push_back(op);
}

void DnnGraph::reduce(int mode, Tensor x, Tensor y) {
  Descriptor kind = make(kReduction);
  set(kind, kReductionOperator, kReductionType, mode);
  set(kind, kReductionPrecision, kDataType, precision_);
  finish(kind);
  Descriptor op = make(kOperationReduction);
  connect(op, kReductionX, x);
  write(op, kReductionY, y);
  set(op, kReductionDesc, kDescriptorType, kind);
  finish(op);
  operations_.push_back(op);
}

bool DnnGraph::refused(const char* step) {
  char text[512] = {};
  dnn_.last_error_(text, sizeof text);
  why_ = fmt::format("{}: {}", step, text);
  return false;
}

bool DnnGraph::build(const Freedom& freedom, int skipped) {
  if (!taken_) return false;
  freedom_ = freedom;
  dnn_.follow_queue();
  Descriptor graph = make(kGraph);
  void* handle = dnn_.handle();
  set(graph, kGraphHandle, kHandleType, handle);
  set(graph, kGraphOperations, kDescriptorType, static_cast<std::int64_t>(operations_.size()), operations_.data());
  if (dnn_.finalize_(graph) != 0) return refused("the graph");
  to_skip_ = skipped;
  constexpr int kLists[] = {kHeuristicA, kHeuristicFallback};
  const auto found = [&](std::optional<bool> on_matrix_units) {
    return std::ranges::any_of(kLists, [&](int mode) { return try_mode(graph, mode, on_matrix_units); });
  };
  return freedom.matrix_units_first ? found(true) || found(false) : found(std::nullopt);
}

bool DnnGraph::try_mode(Descriptor graph, int mode, std::optional<bool> on_matrix_units) {
  Descriptor heuristic = make(kHeuristic);
  set(heuristic, kHeuristicGraph, kDescriptorType, graph);
  set(heuristic, kHeuristicMode, kHeuristicModeType, mode);
  if (dnn_.finalize_(heuristic) != 0) return refused("the heuristic");
  std::int64_t count = 0;
  if (dnn_.get_(heuristic, kHeuristicResults, kDescriptorType, 0, &count, nullptr) != 0 || count == 0)
    return refused("no engine");
  std::vector<Descriptor> configs;
  for (std::int64_t i = 0; i < count; ++i) configs.push_back(make(kEngineConfig));
  std::int64_t returned = 0;
  if (dnn_.get_(heuristic, kHeuristicResults, kDescriptorType, count, &returned, configs.data()) != 0)
    return refused("engines");
  configs.resize(static_cast<std::size_t>(returned));
  return std::any_of(configs.begin(), configs.end(), [&](Descriptor c) { return try_config(c, on_matrix_units); });
}

bool DnnGraph::try_config(Descriptor config, std::optional<bool> on_matrix_units) {
  Descriptor engine = make(kEngine);
  std::int64_t count = 0;
  if (dnn_.get_(config, kConfigEngine, kDescriptorType, 1, &count, &engine) != 0) return refused("an engine");
  int all[16] = {};
  count = 0;
  if (dnn_.get_(engine, kEngineNote, kNoteType, 16, &count, all) != 0) count = 0;
  const std::span<const int> notes(all, static_cast<std::size_t>(std::min<std::int64_t>(count, 16)));
  const auto has = [&](int note) { return std::ranges::find(notes, note) != notes.end(); };
  if (has(kNoteNarrowSums) || (has(kNoteNondeterministic) && !freedom_.any_order) ||
      (has(kNoteTensorCore) && !freedom_.matrix_units) || (has(kNoteDownConvert) && !freedom_.narrower) ||
      (on_matrix_units && *on_matrix_units != has(kNoteTensorCore))) {
    why_ = "engines that are left out for what they do to numbers";
    return false;
  }
  if (to_skip_ > 0) {
    --to_skip_;
    why_ = "no engine behind those that were skipped";
    return false;
  }
  Descriptor plan = make(kPlan);
  void* handle = dnn_.handle();
  set(plan, kPlanHandle, kHandleType, handle);
  set(plan, kPlanConfig, kDescriptorType, config);
  if (dnn_.finalize_(plan) != 0) return refused("a plan");
  std::int64_t workspace = 0;
  dnn_.check(dnn_.get_(plan, kPlanWorkspace, kIntegerType, 1, &count, &workspace), "say what memory it needs");
  workspace_bytes_ = static_cast<std::size_t>(workspace);
  plan_ = plan;
  return true;
}

void DnnGraph::run(std::span<const void* const> pointers, void* workspace) {
  COIL_CHECK(plan_ && pointers.size() == in_memory_.size());
  dnn_.follow_queue();
  if (!pack_ || workspace != last_workspace_ || !std::ranges::equal(pointers, last_)) {
    if (pack_) {
      std::erase(owned_, pack_);
      dnn_.drop_(pack_);
      pack_ = nullptr;
    }
    std::vector<std::int64_t> ids = in_memory_;
    ids.insert(ids.end(), numbers_.begin(), numbers_.end());
    std::vector<const void*> all(pointers.begin(), pointers.end());
    for (const float& value : number_values_) all.push_back(&value);
    pack_ = make(kVariantPack);
    set(pack_, kPackIds, kIntegerType, static_cast<std::int64_t>(ids.size()), ids.data());
    set(pack_, kPackPointers, kPointerType, static_cast<std::int64_t>(all.size()), all.data());
    set(pack_, kPackWorkspace, kPointerType, workspace);
    finish(pack_);
    if (!taken_) fail("cuDNN does not take the operands of a call: {}", why_);
    last_.assign(pointers.begin(), pointers.end());
    last_workspace_ = workspace;
  }
  wait_for_operands(pointers);
  dnn_.check(dnn_.execute_(dnn_.handle(), plan_, pack_), "run");
  dnn_.queue().in_flight().add(ranges(written_, pointers));
  dnn_.queue().in_flight().set_lets_begin(false);
}

std::vector<ByteRange> DnnGraph::ranges(std::span<const std::size_t> places,
                                        std::span<const void* const> pointers) const {
  std::vector<ByteRange> found;
  for (std::size_t place : places) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pointers[place]);
    found.push_back({begin, begin + bytes_[place]});
  }
  return found;
}

/// Generated kernels of Hopper begin before the library's kernel in front of them ends, where that one allows it, and
/// results were wrong where such a graph adds a residual (seen with torch 2.11's cuDNN, 2026-11-25).
void DnnGraph::wait_for_operands(std::span<const void* const> pointers) {
  const InFlight& in_flight = dnn_.queue().in_flight();
  if (in_flight.none()) return;
  const std::vector<ByteRange> read = ranges(beside_, pointers);
  if (std::ranges::any_of(read, [&](const ByteRange& r) { return in_flight.may_write(r); }))
    dnn_.queue().end_library_work();
}

}  // namespace coil::runtime::cuda
