#include "runtime/ops/panel/few_results.h"

#include <algorithm>

#include "runtime/device/threads.h"
#include "runtime/ops/panel/convolution_call.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

constexpr std::string_view kFewResults = "few_results:f32";
constexpr std::int64_t kMostResults = 4;

/// Results of one line that a thread makes at a time, several lines of them.
struct Block {
  std::int64_t image = 0, z = 0, line = 0, lines = 0, place = 0, places = 0;
};

/// [O, C, ..] with the channels innermost.
BoundView weight_by_channels(const ConvolutionProblem& p) { return channels_last(DType::F32, p.weight.sizes); }

class FewResults : public ConvolutionCall {
 public:
  explicit FewResults(const ConvolutionProblem& p)
      : ConvolutionCall(p, dense_view(DType::F32, p.y.sizes), weight_by_channels(p)),
        phase_(phases_of(p)[0]),
        images_(p.x.sizes[0]),
        channels_(p.x.sizes[1]),
        results_(p.y.sizes[1]),
        low_(phase_.axes[2].taps.front().offset),
        halo_(phase_.axes[2].taps.back().offset - low_) {
    describe_post(p, plane());
    divide_work();
  }

 private:
  std::int64_t plane() const { return to_[0] * to_[1] * to_[2]; }

  Staging::Operand post_operand(const BoundView& given, std::size_t index, Post& made) override {
    made.one_column = is_of_channels(given);
    made.operand_step = made.one_column ? given.strides[1] : plane();
    return made.one_column ? staging_.input(index) : input(index, given, dense_view(DType::F32, given.sizes));
  }

  /// A block's lines of x stay in the second-level cache.
  void divide_work() {
    constexpr std::int64_t kMostPlaces = 512, kMostFloats = 128 << 10, kMostLines = 16;
    const std::int64_t places = std::min(to_[2], kMostPlaces);
    line_step_ = (places + halo_ + panel_ + 15) / 16 * 16;
    const auto &outer = phase_.axes[0], &inner = phase_.axes[1];
    const auto depth = static_cast<std::int64_t>(outer.taps.size());
    const std::int64_t reach = inner.taps.back().offset - inner.taps.front().offset;
    const std::int64_t fit = (kMostFloats / (depth * channels_ * line_step_) - 1 - reach) / inner.from_step + 1;
    const std::int64_t most = (to_[1] + thread_count() - 1) / thread_count();
    const std::int64_t lines = std::clamp<std::int64_t>(fit, 1, std::clamp<std::int64_t>(most, 1, kMostLines));
    lines_held_ = (lines - 1) * inner.from_step + reach + 1;
    const std::int64_t scratch_floats = depth * lines_held_ * channels_ * line_step_ + results_ * panel_;
    for (std::int64_t image = 0; image < images_; ++image)
      for (std::int64_t z = 0; z < to_[0]; ++z)
        for (std::int64_t line = 0; line < to_[1]; line += lines)
          for (std::int64_t place = 0; place < to_[2]; place += places)
            blocks_.push_back(
                {image, z, line, std::min(lines, to_[1] - line), place, std::min(places, to_[2] - place)});
    divide_among_threads(static_cast<std::int64_t>(blocks_.size()),
                         images_ * plane() * results_ * phase_.taps() * channels_, scratch_floats);
  }

  void run_parts(std::int64_t begin, std::int64_t end, float* scratch) const override {
    std::vector<Post> post(post_.size());
    for (std::int64_t k = begin; k < end; ++k) run_block(blocks_[static_cast<std::size_t>(k)], scratch, post);
  }

  void run_block(const Block& b, float* scratch, std::vector<Post>& post) const {
    const auto &outer = phase_.axes[0], &inner = phase_.axes[1];
    const std::int64_t first = b.line * inner.from_step + inner.taps.front().offset;
    const std::int64_t held =
        (b.lines - 1) * inner.from_step + inner.taps.back().offset - inner.taps.front().offset + 1;
    const std::int64_t slab = lines_held_ * channels_ * line_step_;
    for (std::size_t t = 0; t < outer.taps.size(); ++t) {
      const std::int64_t z = b.z * outer.from_step + outer.taps[t].offset;
      for (std::int64_t line = 0; line < held; ++line)
        turn_line(b, z, first + line, scratch + static_cast<std::int64_t>(t) * slab + line * channels_ * line_step_);
    }
    float* sum = scratch + static_cast<std::int64_t>(outer.taps.size()) * slab;
    for (std::int64_t line = 0; line < b.lines; ++line)
      for (std::int64_t place = 0; place < b.places; place += panel_)
        make_results(b, line, place, scratch, slab, sum, post);
  }

  /// [channels, line_step_] of what the block's results read of one line; zeros outside of x.
  void turn_line(const Block& b, std::int64_t z, std::int64_t line, float* to) const {
    const std::int64_t count = b.places + halo_, start = b.place + low_;
    const bool there = z >= 0 && z < from_[0] && line >= 0 && line < from_[1];
    const std::int64_t first = there ? std::clamp<std::int64_t>(-start, 0, count) : count,
                       last = std::clamp<std::int64_t>(from_[2] - start, first, count);
    if (first > 0 || last < count)
      for (std::int64_t c = 0; c < channels_; ++c) {
        std::fill_n(to + c * line_step_, first, 0.0f);
        std::fill_n(to + c * line_step_ + last, count - last, 0.0f);
      }
    if (first == last) return;
    const std::int64_t at = ((b.image * from_[0] + z) * from_[1] + line) * from_[2] + start + first;
    kernels_.turn({.to = to + first,
                   .to_step = line_step_,
                   .from = pointer<const float>(x_) + at * channels_,
                   .from_step = channels_,
                   .rows = last - first,
                   .columns = channels_});
  }

  /// Up to a panel's width of places of one line.
  void make_results(const Block& b, std::int64_t line, std::int64_t place, const float* lines, std::int64_t slab,
                    float* sum, std::vector<Post>& post) const {
    const std::int64_t columns = std::min(panel_, b.places - place), depth = phase_.taps() * channels_;
    for (std::int64_t o = 0; o < results_; ++o)
      std::fill_n(sum + o * panel_, panel_, bias_ ? pointer<const float>(*bias_)[o] : 0.0f);
    const auto& inner = phase_.axes[1];
    const float* weight = pointer<const float>(weight_);
    for (std::size_t z = 0; z < phase_.axes[0].taps.size(); ++z)
      for (const Tap& y : inner.taps)
        for (const Tap& x : phase_.axes[2].taps) {
          const std::int64_t held = line * inner.from_step + y.offset - inner.taps.front().offset;
          kernels_.multiply({.a = weight,
                             .a_step = depth,
                             .panel = lines + static_cast<std::int64_t>(z) * slab + held * channels_ * line_step_ +
                                      place + x.offset - low_,
                             .panel_step = line_step_,
                             .k = channels_,
                             .sum = sum,
                             .sum_step = panel_,
                             .add = true,
                             .vectors = static_cast<int>((columns + kernels_.lanes - 1) / kernels_.lanes),
                             .rows = static_cast<int>(results_)});
          weight += channels_;
        }
    finish(b.image, ((b.z * to_[1]) + b.line + line) * to_[2] + b.place + place, columns, sum, post);
  }

  void finish(std::int64_t image, std::int64_t at, std::int64_t columns, const float* sum,
              std::vector<Post>& post) const {
    const std::int64_t start = image * results_ * plane() + at;
    std::ranges::copy(post_, post.begin());
    for (Post& p : post)
      if (p.operand && !p.one_column) p.operand = static_cast<const float*>(p.operand) + start;
    kernels_.finish({.sum = sum,
                     .rows = static_cast<int>(results_),
                     .columns = static_cast<int>(columns),
                     .post = post.data(),
                     .posts = static_cast<int>(post.size()),
                     .y = pointer<float>(y_) + start,
                     .y_step = plane()});
  }

  const std::int64_t panel_ = kernels_.width;  ///< places that are multiplied at a time
  Phase phase_;
  std::int64_t images_, channels_, results_;
  std::int64_t low_, halo_;  ///< the first tap's offset along a line, and how far the last one's is from it
  std::vector<Block> blocks_;
  std::int64_t line_step_ = 0, lines_held_ = 0;
};

/// Where it measured faster than oneDNN (docs/performance_cpu.md).
bool few_results_gain(const ConvolutionProblem& p) {
  constexpr std::int64_t kLeastChannels = 8, kLeastPlaces = 32;
  return !p.transposed && p.groups == 1 && p.stride.back() == 1 && p.y.sizes[1] <= kMostResults &&
         p.x.sizes[1] >= kLeastChannels && p.y.sizes.back() >= kLeastPlaces &&
         numel(p.weight.sizes) > p.weight.sizes[0] * p.weight.sizes[1];
}

}  // namespace

std::unique_ptr<PreparedCall> make_few_results(const ConvolutionProblem& p) {
  if (is_worth_packing(p) && is_f32(p) && few_results_gain(p)) return std::make_unique<FewResults>(p);
  if (p.packed_desc != kFewResults) return nullptr;
  if (!is_f32(p) || p.transposed || p.groups != 1 || p.stride.back() != 1 || p.y.sizes[1] > kMostResults)
    fail("a weight packed for convolutions with few results is given to another one");
  check_packed_whole(p);
  return std::make_unique<FewResults>(p);
}

std::optional<Packed> pack_few_results(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  if (widest_panel(isa) == 0 || !is_f32(p) || weight.dtype != DType::F32 || !few_results_gain(p)) return std::nullopt;
  return pack_whole(p, weight, kFewResults, weight_by_channels(p).strides);
}

}  // namespace coil::runtime::panels
