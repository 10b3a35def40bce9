#include "runtime/ops/nan_guard.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "library_ops/checks.h"
#include "library_ops/products.h"
#include "runtime/device/threads.h"
#include "runtime/ops/staging.h"
#include "runtime/views/half.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// y computed by another call, then the remaining post-operations over it.
template <class T>
class FinishedCall : public PreparedCall {
 public:
  FinishedCall(std::unique_ptr<PreparedCall> head, std::vector<PostOp> rest, const BoundView& y,
               std::span<const EpilogueOperand> operands, DType loop)
      : head_(std::move(head)), rest_(std::move(rest)), count_(numel(y.sizes)) {
    const BoundView dense = dense_view(loop, y.sizes);
    y_ = staging_.output(0, y, dense, true);
    for (const EpilogueOperand& o : operands) operands_.push_back(staging_.input(o.input, o.view, dense));
    pointers_.resize(staging_.operands());
    if (std::ranges::any_of(rest_, [](const PostOp& op) { return op.kind == PostOp::Kind::Sum; })) {
      old_.old_output(0, y, dense);
      old_pointers_.resize(old_.operands());
    }
  }

  std::size_t workspace_bytes() const override { return shared_bytes() + old_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    if (!old_pointers_.empty())
      old_.load(inputs, outputs, static_cast<std::byte*>(workspace) + shared_bytes(), old_pointers_);
    head_->run(inputs, outputs, workspace);
    staging_.load(inputs, outputs, workspace, pointers_);
    constexpr std::int64_t kGrain = 4096;
    parallel_ranges(count_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      T* y = static_cast<T*>(pointers_[y_]);
      std::size_t operand = 0;
      for (const PostOp& op : rest_) {
        const bool sum = op.kind == PostOp::Kind::Sum;
        const T* other = sum                  ? static_cast<const T*>(old_pointers_[0])
                         : op.takes_operand() ? static_cast<const T*>(pointers_[operands_[operand++]])
                                              : nullptr;
        for (std::int64_t i = begin; i < end; ++i) {
          if (sum || op.kind == PostOp::Kind::Add)
            y[i] += other[i];
          else if (op.kind == PostOp::Kind::Mul)
            y[i] *= other[i];
          else
            y[i] = static_cast<T>(apply_post_op(op, static_cast<double>(y[i])));
        }
      }
    });
    staging_.store(outputs, pointers_);
  }

 private:
  /// Bytes of a workspace that the head uses first, and then the staged result and operands.
  std::size_t shared_bytes() const { return (std::max(head_->workspace_bytes(), staging_.bytes()) + 63) / 64 * 64; }

  std::unique_ptr<PreparedCall> head_;
  std::vector<PostOp> rest_;
  std::int64_t count_;
  Staging staging_, old_;  ///< `old_`: what y holds before the head writes to it, where a sum needs that
  std::vector<void*> old_pointers_;
  Staging::Operand y_ = 0;
  std::vector<Staging::Operand> operands_;
  std::vector<void*> pointers_;
};

/// The fast form while the flag is 1. The exact one is made when it is first needed, and brings its own workspace: few
/// programs ever see it.
class FlaggedCall : public PreparedCall {
 public:
  FlaggedCall(std::unique_ptr<PreparedCall> fast, std::function<std::unique_ptr<PreparedCall>()> make_exact,
              std::size_t flag)
      : fast_(std::move(fast)), make_exact_(std::move(make_exact)), flag_(flag) {}

  std::size_t workspace_bytes() const override { return fast_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::int32_t flag = 0;
    std::memcpy(&flag, inputs[flag_], sizeof flag);
    if (flag != 0) return fast_->run(inputs, outputs, workspace);
    if (!exact_) {
      exact_ = make_exact_();
      own_workspace_ = Storage::allocate(std::max<std::size_t>(exact_->workspace_bytes(), 1));
    }
    exact_->run(inputs, outputs, own_workspace_.data.get());
  }

 private:
  std::unique_ptr<PreparedCall> fast_, exact_;
  std::function<std::unique_ptr<PreparedCall>()> make_exact_;
  std::size_t flag_;
  Storage own_workspace_;
};

/// Whether any of `n` floats, seen as their bits, lies beyond the limit: NaN and infinities do, since they are the
/// greatest bits. `T` is signed, as wide as the float.
template <class T>
bool any_beyond(const T* values, std::int64_t n, T limit) {
  constexpr std::int64_t kLanes = 16 / sizeof(T);  // wider ones than every machine has would be done element by element
  typedef T Lanes __attribute__((vector_size(16)));
  constexpr T kMagnitude = std::numeric_limits<T>::max();
  Lanes beyond0{}, beyond1{};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    Lanes a, b;
    std::memcpy(&a, values + i, sizeof a);
    std::memcpy(&b, values + i + kLanes, sizeof b);
    beyond0 |= (a & kMagnitude) > limit;
    beyond1 |= (b & kMagnitude) > limit;
  }
  beyond0 |= beyond1;
  T any = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) any = static_cast<T>(any | beyond0[lane]);
  for (; i < n; ++i) any = static_cast<T>(any | (static_cast<T>(values[i] & kMagnitude) > limit));
  return any != 0;
}

/// A view as runs of elements that lie one behind another, in any order.
struct Runs {
  std::int64_t length = 1;
  Sizes sizes, strides;  ///< where the runs begin
  std::int64_t count = 1;

  explicit Runs(const BoundView& v) {
    std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
    for (std::size_t d = 0; d < v.sizes.size(); ++d)
      if (v.sizes[d] != 1 && v.strides[d] != 0) dims.emplace_back(v.strides[d], v.sizes[d]);
    std::sort(dims.begin(), dims.end());
    for (const auto& [stride, size] : dims) {
      if (stride == length && sizes.empty()) {
        length *= size;
      } else {
        sizes.push_back(size);
        strides.push_back(stride);
        count *= size;
      }
    }
    if (numel(v.sizes) == 0) length = 0;
  }
  std::int64_t begin(std::int64_t run) const {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      at += run % sizes[d] * strides[d];
      run /= sizes[d];
    }
    return at;
  }
};

class AllBounded : public LibraryOp {
 public:
  explicit AllBounded(const Attributes& a) : limit_(read(a, library_ops::checks::kLimit)) {
    if (!(limit_ > 0)) fail("all_bounded: a limit of {}", limit_);
  }

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const bool flags = outputs.size() == 1 && outputs[0].dtype == DType::I32 && numel(outputs[0].sizes) == 1 &&
                       (inputs.size() == 1 || (inputs.size() == 2 && inputs[1].dtype == DType::I32));
    if (!flags) fail("all_bounded takes a tensor and perhaps a flag, and gives a flag");
    runs_.emplace(inputs[0]);
    dtype_ = inputs[0].dtype;
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    std::int32_t flag = 1;
    if (inputs.size() > 1) std::memcpy(&flag, inputs[1], sizeof flag);
    if (flag != 0) flag = bounded(inputs[0]);
    std::memcpy(outputs[0], &flag, sizeof flag);
  }

 private:
  bool bounded(const void* data) const {
    const float limit = static_cast<float>(std::min<double>(limit_, std::numeric_limits<float>::max()));
    switch (dtype_) {
      case DType::F32: return !beyond<std::int32_t>(data, std::bit_cast<std::int32_t>(limit));
      case DType::BF16:
        return !beyond<std::int16_t>(data, static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(limit) >> 16));
      case DType::F16: {
        constexpr float kMax = 65504;
        return !beyond<std::int16_t>(data, std::bit_cast<std::int16_t>(static_cast<F16>(std::min(limit, kMax))));
      }
      default: fail("all_bounded does not take {}", torch_name(dtype_));
    }
  }

  template <class T>
  bool beyond(const void* data, T limit) const {
    const T* values = static_cast<const T*>(data);
    std::atomic<bool> found = false;
    auto look = [&](const T* at, std::int64_t n) {
      if (any_beyond(at, n, limit)) found.store(true, std::memory_order_relaxed);
    };
    constexpr std::int64_t kGrain = 16384;
    if (runs_->count == 1)
      parallel_ranges(runs_->length, kGrain,
                      [&](std::int64_t begin, std::int64_t end) { look(values + begin, end - begin); });
    else if (runs_->length > 0)
      parallel_ranges(runs_->count, std::max<std::int64_t>(1, kGrain / runs_->length),
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t run = begin; run < end; ++run)
                          look(values + runs_->begin(run), runs_->length);
                      });
    return found.load(std::memory_order_relaxed);
  }

  double limit_;
  std::optional<Runs> runs_;
  DType dtype_ = DType::F32;
};

}  // namespace

std::unique_ptr<PreparedCall> make_finished(std::unique_ptr<PreparedCall> head, std::vector<PostOp> rest,
                                            const BoundView& y, std::span<const EpilogueOperand> operands) {
  const DType loop = loop_dtype(y.dtype);
  if (loop == DType::F64)
    return std::make_unique<FinishedCall<double>>(std::move(head), std::move(rest), y, operands, loop);
  if (loop == DType::F32)
    return std::make_unique<FinishedCall<float>>(std::move(head), std::move(rest), y, operands, loop);
  fail("post-operations are computed on floats");
}

std::unique_ptr<PreparedCall> make_with_nan_kept(const Attributes& attributes, const std::vector<PostOp>& post,
                                                 const BoundView& y, std::vector<EpilogueOperand> operands,
                                                 std::size_t inputs,
                                                 std::function<std::unique_ptr<PreparedCall>(std::size_t)> make) {
  const std::string& form = read(attributes, library_ops::kNan);
  if (!form.empty() && form != library_ops::kFlagNan && form != library_ops::kKeepNan)
    fail("attribute 'nan' is '{}'; 'flag' and 'keep' are possible", form);
  const auto first = std::ranges::find_if(post, [](const PostOp& op) { return library_ops::info(op.kind).loses_nan; });
  if (form.empty() || first == post.end()) return make(post.size());
  const auto count = static_cast<std::size_t>(first - post.begin());
  const auto taken = static_cast<std::ptrdiff_t>(
      std::count_if(post.begin(), first, [](const PostOp& op) { return op.takes_operand(); }));
  operands.erase(operands.begin(), operands.begin() + taken);
  auto exact = [make, count, rest = std::vector<PostOp>(first, post.end()), y, operands] {
    return make_finished(make(count), rest, y, operands);
  };
  if (form == library_ops::kKeepNan) return exact();
  if (inputs < 3) fail("a call with nan=flag has no flag");
  return std::make_unique<FlaggedCall>(make(post.size()), std::move(exact), inputs - 1);
}

namespace {

const DefineLibraryOps kAllBounded({{library_ops::checks::kAllBounded, call_site<AllBounded>}});

}  // namespace

}  // namespace coil::runtime
