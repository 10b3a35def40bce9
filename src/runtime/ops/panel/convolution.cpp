#include "runtime/ops/panel/convolution.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/threads.h"
#include "runtime/ops/panel/gemm.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

constexpr std::string_view kGroups = "groups:";  // groups:FORM OF A GROUP'S PANELS

/// Sizes of one convolution of signals.
struct Signal {
  std::int64_t images, groups, channels, results;  ///< of a group
  std::int64_t places, length, out, stride, padding;
  std::int64_t padded;  ///< places of the input that windows cover, zeros on both sides among them
  std::int64_t width;   ///< of a panel

  Signal(const ConvolutionProblem& p, std::int64_t panel)
      : images(p.x.sizes[0]),
        groups(p.groups),
        channels(p.x.sizes[1] / p.groups),
        results(p.y.sizes[1] / p.groups),
        places(p.kernel(0)),
        length(p.x.sizes[2]),
        out(p.y.sizes[2]),
        stride(p.stride[0]),
        padding(p.padding[0]),
        padded(out > 0 ? (out - 1) * stride + places : 0),
        width(panel) {}

  std::int64_t depth() const { return places * channels; }
  std::size_t group_bytes() const { return packed_bytes(DType::F32, results, depth(), width); }
  std::string form() const { return std::string(kGroups) + packed_form(DType::F32, width); }
};

bool is_signal_in_groups(const ConvolutionProblem& p) {
  return p.spatial() == 1 && !p.transposed && p.groups > 1 && p.dilation[0] == 1 && p.x.dtype == DType::F32;
}

/// Where it measured faster than oneDNN (docs/performance_cpu.md), which has kernels that are as fast for fewer places
/// or more channels.
bool gains(const Signal& s) {
  constexpr std::int64_t kLeastResults = 8, kLeastPlaces = 48, kMostChannels = 16;
  return s.channels > 1 && s.channels <= kMostChannels && s.results >= kLeastResults && s.places >= kLeastPlaces;
}

/// A window [positions, results of a group] on what lies as [images, results, positions].
BoundView of_group(const BoundView& v, const Signal& s) {
  return {v.dtype, {s.out, s.results}, {v.strides[2], v.strides[1]}};
}

std::int64_t offset(const BoundView& v, const Signal& s, std::int64_t image, std::int64_t group) {
  return (image * v.strides[0] + group * s.results * v.strides[1]) * static_cast<std::int64_t>(size_of(v.dtype));
}

/// The product of one image's group after another; each thread has a call of its own, which are alike.
class GroupedSignals : public PreparedCall {
 public:
  GroupedSignals(const ConvolutionProblem& p, const Signal& s) : p_(p), s_(s) {
    GemmProblem one;
    one.m = s_.out, one.n = s_.results, one.k = s_.depth();
    one.a = {0, {DType::F32, {one.m, one.k}, {s_.stride * s_.channels, 1}}, {one.m, one.k}};
    one.b = {1, {DType::F32, {one.k, one.n}, {1, one.k}}, {one.k, one.n}};
    one.y = {0, of_group(p.y, s_), {one.m, one.n}};
    if (p.bias) one.bias = GemmOperand{2, {p.bias->dtype, {one.n}, p.bias->strides}, {one.n}};
    for (std::size_t i = 0; i < p.operands.size(); ++i)
      one.operands.push_back({p.first_operand + i, of_group(p.operands[i], s_), {one.m, one.n}});
    one.post = p.post;
    one.packed_desc = p.packed_desc.substr(kGroups.size());
    one.packed_bytes = s_.group_bytes();
    const std::int64_t items = s_.images * s_.groups;
    const std::int64_t threads = std::clamp<std::int64_t>(items, 1, threads_worth(items * one.m * one.n * one.k));
    for (std::int64_t t = 0; t < threads; ++t) {
      calls_.push_back(make_gemm(one));
      inputs_.emplace_back(p.first_operand + p.operands.size());
    }
    window_bytes_ = aligned(static_cast<std::size_t>(s_.padded * s_.channels) * sizeof(float));
    call_bytes_ = window_bytes_ + aligned(calls_[0]->workspace_bytes());
  }

  std::size_t workspace_bytes() const override { return call_bytes_ * calls_.size(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    const std::int64_t items = s_.images * s_.groups, threads = static_cast<std::int64_t>(calls_.size());
    const auto share = [&](std::int64_t thread) {
      auto* own = static_cast<std::byte*>(workspace) + static_cast<std::size_t>(thread) * call_bytes_;
      for (std::int64_t k = items * thread / threads; k < items * (thread + 1) / threads; ++k)
        run_group(static_cast<std::size_t>(thread), k / s_.groups, k % s_.groups, inputs, outputs[0], own);
    };
    if (threads == 1) return share(0);
    parallel_ranges(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) share(thread);
    });
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  void run_group(std::size_t thread, std::int64_t image, std::int64_t group, std::span<const void* const> inputs,
                 void* y, std::byte* own) {
    std::vector<const void*>& in = inputs_[thread];
    const auto at = [](const void* start, std::int64_t bytes) { return static_cast<const std::byte*>(start) + bytes; };
    fill_window(reinterpret_cast<float*>(own),
                static_cast<const float*>(inputs[0]) + image * p_.x.strides[0] + group * s_.channels * p_.x.strides[1]);
    in[0] = own;
    in[1] = at(inputs[1], group * static_cast<std::int64_t>(s_.group_bytes()));
    if (p_.bias)
      in[2] =
          at(inputs[2], group * s_.results * p_.bias->strides[0] * static_cast<std::int64_t>(size_of(p_.bias->dtype)));
    for (std::size_t i = 0; i < p_.operands.size(); ++i)
      in[p_.first_operand + i] = at(inputs[p_.first_operand + i], offset(p_.operands[i], s_, image, group));
    void* out = static_cast<std::byte*>(y) + offset(p_.y, s_, image, group);
    calls_[thread]->run(in, std::span(&out, 1), own + window_bytes_);
  }

  /// [padded, channels] of a group's [channels, length].
  void fill_window(float* to, const float* from) const {
    const std::int64_t first = s_.padding, last = std::clamp(s_.padding + s_.length, first, std::max(first, s_.padded));
    const auto zeros = [&](std::int64_t begin, std::int64_t end) {
      if (begin < end) std::fill(to + begin * s_.channels, to + end * s_.channels, 0.0f);
    };
    zeros(0, std::min(first, s_.padded));
    for (std::int64_t place = first; place < last; ++place) {
      const float* x = from + (place - s_.padding) * p_.x.strides[2];
      float* row = to + place * s_.channels;
      if (p_.x.strides[1] == 1) {
        std::memcpy(row, x, static_cast<std::size_t>(s_.channels) * sizeof(float));
        continue;
      }
      for (std::int64_t c = 0; c < s_.channels; ++c) row[c] = x[c * p_.x.strides[1]];
    }
    zeros(last, s_.padded);
  }

  ConvolutionProblem p_;
  Signal s_;
  std::vector<std::unique_ptr<PreparedCall>> calls_;  ///< of each thread
  std::vector<std::vector<const void*>> inputs_;      ///< of each call
  std::size_t window_bytes_ = 0, call_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PreparedCall> make_convolution(const ConvolutionProblem& p) {
  if (!p.packed_desc.starts_with(kGroups)) return nullptr;
  if (!is_signal_in_groups(p)) fail("a weight packed for signals in groups is given to another convolution");
  const Signal s(p, width_of_form(p.packed_desc.substr(kGroups.size())));
  if (p.packed_bytes < s.group_bytes() * static_cast<std::size_t>(s.groups))
    fail("a packed weight does not have the form that its description says");
  return std::make_unique<GroupedSignals>(p, s);
}

std::optional<Packed> pack_convolution(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  const std::int64_t widest = widest_panel(isa);
  if (widest == 0 || !is_signal_in_groups(p) || weight.dtype != DType::F32 || p.y.dtype != DType::F32)
    return std::nullopt;
  const Signal s(p, panel_width(p.y.sizes[1] / p.groups, widest));
  if (!gains(s)) return std::nullopt;
  Packed packed;
  packed.attributes["packed_desc"] = s.form();
  packed.attributes["weight_sizes"] = weight.sizes;
  packed.bytes = Tensor::empty(DType::U8, {static_cast<std::int64_t>(s.group_bytes()) * s.groups});
  // [results, places, channels] of a group as a matrix [places and channels, results].
  Tensor rows = Tensor::empty(DType::F32, {s.results, s.depth()});
  const BoundView b{DType::F32, {s.depth(), s.results}, {1, s.depth()}};
  const float* from = reinterpret_cast<const float*>(weight.bytes());
  for (std::int64_t group = 0; group < s.groups; ++group) {
    for (std::int64_t o = 0; o < s.results; ++o)
      for (std::int64_t place = 0; place < s.places; ++place)
        for (std::int64_t c = 0; c < s.channels; ++c)
          rows.data<float>()[o * s.depth() + place * s.channels + c] =
              from[(group * s.results + o) * weight.strides[0] + c * weight.strides[1] + place * weight.strides[2]];
    pack(packed.bytes.bytes() + static_cast<std::size_t>(group) * s.group_bytes(), rows.bytes(), b, s.width);
  }
  return packed;
}

}  // namespace coil::runtime::panels
