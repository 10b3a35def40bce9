#include "runtime/ops/panel/depthwise.h"

#include <algorithm>

#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/convolution_call.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

constexpr std::string_view kDepthwise = "depthwise:f32";

/// [channels, 1, ..] with the channels innermost.
BoundView form_of_weight(const ConvolutionProblem& p) {
  Sizes strides(p.weight.sizes.size(), 1);
  std::int64_t step = p.weight.sizes[0];
  for (std::size_t d = strides.size(); d-- > 1; step *= p.weight.sizes[d]) strides[d] = step;
  return {DType::F32, p.weight.sizes, strides};
}

class Depthwise : public ConvolutionCall {
 public:
  explicit Depthwise(const ConvolutionProblem& p)
      : ConvolutionCall(p, channels_last(DType::F32, p.y.sizes), form_of_weight(p)),
        phase_(phases_of(p)[0]),
        channels_(p.x.sizes[1]) {
    describe_post(p, channels_);
    const std::int64_t lines = p.x.sizes[0] * to_[0] * to_[1];
    pieces_ = (to_[2] + kPlaces - 1) / kPlaces;
    divide_among_threads(lines * pieces_, lines * to_[2] * channels_ * phase_.taps(), kPlaces * kernels_.width);
  }

 private:
  static constexpr std::int64_t kPlaces = 32;  // of a line that a thread makes at a time

  /// What taps read of x and of the weight, in elements from where the first place and the first channel lie.
  struct Reads {
    std::vector<std::int64_t> places, weights;
  };

  Staging::Operand post_operand(const BoundView& given, std::size_t index, Post& made) override {
    return operand_by_rows(given, index, made, channels_);
  }

  void run_parts(std::int64_t begin, std::int64_t end, float* scratch) const override {
    Reads reads;
    std::vector<Post> post(post_.size());
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t line = part / pieces_, first = part % pieces_ * kPlaces;
      run_line(line, first, std::min(first + kPlaces, to_[2]), scratch, reads, post);
    }
  }

  /// Places from `first` to `last` of one line of y, those together whose taps are the same.
  void run_line(std::int64_t line, std::int64_t first, std::int64_t last, float* sum, Reads& reads,
                std::vector<Post>& post) const {
    while (first < last) {
      const auto taps = taps_inside(2, first);
      std::int64_t end = first + 1;
      while (end < last && taps_inside(2, end) == taps) ++end;
      find_reads(line, taps, reads);
      const std::int64_t image = line / (to_[0] * to_[1]);
      const float* x = pointer<const float>(x_) +
                       (image * from_[0] * from_[1] * from_[2] + first * phase_.axes[2].from_step) * channels_;
      for (std::int64_t column = 0; column < channels_; column += kernels_.width) {
        const std::int64_t columns = std::min<std::int64_t>(kernels_.width, channels_ - column);
        kernels_.multiply_channels({.x = x + column,
                                    .x_step = phase_.axes[2].from_step * channels_,
                                    .places = reads.places.data(),
                                    .weight = pointer<const float>(weight_) + column,
                                    .weights = reads.weights.data(),
                                    .taps = static_cast<std::int64_t>(reads.places.size()),
                                    .sum = sum,
                                    .rows = static_cast<int>(end - first),
                                    .columns = static_cast<int>(columns)});
        finish(line * to_[2] + first, end - first, sum, column, columns, post);
      }
      first = end;
    }
  }

  /// The taps of one dimension that read x for a result's place, from the first to behind the last.
  std::pair<std::size_t, std::size_t> taps_inside(std::size_t d, std::int64_t place) const {
    const PhaseAxis& axis = phase_.axes[d];
    const std::int64_t at = place * axis.from_step;
    std::size_t first = 0, last = axis.taps.size();
    while (first < last && at + axis.taps[first].offset < 0) ++first;
    while (last > first && at + axis.taps[last - 1].offset >= from_[d]) --last;
    return {first, last};
  }

  void find_reads(std::int64_t line, std::pair<std::size_t, std::size_t> along, Reads& reads) const {
    const auto &outer = phase_.axes[0], &inner = phase_.axes[1];
    const std::int64_t z = line / to_[1] % to_[0], y = line % to_[1];
    const auto [outer_first, outer_last] = taps_inside(0, z);
    const auto [inner_first, inner_last] = taps_inside(1, y);
    reads.places.clear();
    reads.weights.clear();
    for (std::size_t a = outer_first; a < outer_last; ++a)
      for (std::size_t b = inner_first; b < inner_last; ++b)
        for (std::size_t c = along.first; c < along.second; ++c) {
          const Tap &tz = outer.taps[a], &ty = inner.taps[b], &tx = phase_.axes[2].taps[c];
          const std::int64_t depth = z * outer.from_step + tz.offset, height = y * inner.from_step + ty.offset;
          reads.places.push_back(((depth * from_[1] + height) * from_[2] + tx.offset) * channels_);
          const auto rows = static_cast<std::int64_t>(inner.taps.size()),
                     row = static_cast<std::int64_t>(phase_.axes[2].taps.size());
          reads.weights.push_back(((tz.kernel * rows + ty.kernel) * row + tx.kernel) * channels_);
        }
  }

  void finish(std::int64_t row, std::int64_t count, const float* sum, std::int64_t column, std::int64_t columns,
              std::vector<Post>& post) const {
    std::ranges::copy(post_, post.begin());
    for (Post& p : post)
      if (p.operand) p.operand = static_cast<const float*>(p.operand) + row * p.operand_step;
    kernels_.finish({.sum = sum,
                     .column = column,
                     .rows = static_cast<int>(count),
                     .columns = static_cast<int>(columns),
                     .bias = bias_ ? pointer<const float>(*bias_) : nullptr,
                     .post = post.data(),
                     .posts = static_cast<int>(post.size()),
                     .y = pointer<float>(y_) + row * channels_,
                     .y_step = channels_});
  }

  Phase phase_;
  std::int64_t channels_, pieces_ = 1;
};

bool is_depthwise(const ConvolutionProblem& p) {
  return is_f32(p) && !p.transposed && p.groups == p.x.sizes[1] && p.y.sizes[1] == p.groups;
}

/// Where it measured faster than oneDNN (docs/performance_cpu.md).
bool depthwise_gains(const ConvolutionProblem& p) {
  constexpr std::int64_t kLeastChannels = 8;
  return is_depthwise(p) && p.groups >= kLeastChannels && !onednn::has_depthwise_kernel(p);
}

}  // namespace

std::unique_ptr<PreparedCall> make_depthwise(const ConvolutionProblem& p) {
  if (is_worth_packing(p) && depthwise_gains(p)) return std::make_unique<Depthwise>(p);
  if (p.packed_desc != kDepthwise) return nullptr;
  if (!is_depthwise(p)) fail("a weight packed for depthwise convolutions is given to another one");
  check_packed_whole(p);
  return std::make_unique<Depthwise>(p);
}

std::optional<Packed> pack_any_depthwise(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  if (widest_panel(isa) == 0 || !is_depthwise(p) || weight.dtype != DType::F32) return std::nullopt;
  return pack_whole(p, weight, kDepthwise, form_of_weight(p).strides);
}

std::optional<Packed> pack_depthwise(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  return depthwise_gains(p) ? pack_any_depthwise(p, weight, isa) : std::nullopt;
}

}  // namespace coil::runtime::panels
