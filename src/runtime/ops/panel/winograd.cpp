#include "runtime/ops/panel/winograd.h"

#include <algorithm>
#include <mutex>

#include "library_ops/winograd_transforms.h"
#include "runtime/ops/panel/convolution_call.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/ops/panel/winograd_kernels.h"
#include "runtime/ops/winograd_weight.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/best_loops.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

using winograd::kWindow;
using winograd::Transforms;

constexpr std::int64_t kTaps = kWindow * kWindow, kFloats = 16;  // of a window, and of a vector

std::int64_t whole_vectors(std::int64_t floats) { return (floats + kFloats - 1) / kFloats * kFloats; }

/// An odd number of cache lines: what lies a power of two apart shares few sets of a cache.
std::int64_t odd_lines(std::int64_t floats) { return (whole_vectors(floats) / kFloats | 1) * kFloats; }

std::string form_of(std::int64_t tile) { return fmt::format("winograd:{}:", tile); }

/// Sizes of a convolution, and how its weight lies: term after term, each in panels of results.
struct FilteredShape {
  const Transforms& transforms;
  std::int64_t channels, results, width, panels;

  FilteredShape(const ConvolutionProblem& p, std::int64_t tile, std::int64_t width)
      : transforms(winograd::transforms(tile)),
        channels(p.weight.sizes[1]),
        results(p.weight.sizes[0]),
        width(width),
        panels((results + width - 1) / width) {}

  std::int64_t panel_floats() const { return channels * width; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(transforms.terms()) * packed_bytes(DType::F32, results, channels, width);
  }
  std::string form() const { return form_of(transforms.tile) + packed_form(DType::F32, width); }
  /// Columns of a panel that the weight has.
  std::int64_t columns(std::int64_t panel) const { return std::min(width, results - panel * width); }
};

const WinogradKernels& transforms_of_this_machine() {
  static const WinogradKernels* const best =
      best_loops<WinogradKernels>(COIL_ON_X86(&kWinogradAvx512), COIL_ON_X86(&kWinogradAvx2), nullptr);
  if (best) return *best;
  fail("this machine cannot use a weight packed for vectors that it does not have; compile the model for it");
}

struct Tile {
  std::int64_t image = 0, down = 0, across = 0;
};

class Winograd : public ConvolutionCall {
 public:
  Winograd(const ConvolutionProblem& p, std::int64_t tile, std::int64_t width)
      : ConvolutionCall(p, channels_last(DType::F32, p.y.sizes)),
        s_(p, tile, width),
        tile_(tile),
        square_(s_.transforms.square),
        padding_{p.padding[0], p.padding[1]},
        down_((to_[1] + tile - 1) / tile),
        across_((to_[2] + tile - 1) / tile) {
    const auto& powers = s_.transforms.at[1];  // the first ones, of 0, p, -p, ..
    for (std::size_t i = 1; i + 1 < powers.size(); i += 2) points_.push_back(static_cast<float>(powers[i].value()));
    describe_post(p, s_.results);
    describe_slices(p);
  }

  void forget_constants() override { windows_made_of_ = nullptr; }

 private:
  Staging::Operand post_operand(const BoundView& given, std::size_t index, Post& made) override {
    return operand_by_rows(given, index, made, s_.results);
  }

  Points points() const { return {points_.data(), static_cast<int>(points_.size())}; }
  std::int64_t terms() const { return s_.transforms.terms(); }
  /// How many vectors of this machine hold a panel's columns.
  int vectors_of(std::int64_t panel) const {
    return static_cast<int>((s_.columns(panel) + kernels_.lanes - 1) / kernels_.lanes);
  }

  /// Gives a slice as many tiles as have their terms in the second-level cache, and in a fourth of what the call reads
  /// and writes, but no fewer than multiply a panel at the processor's speed: six rows where the weight stays in that
  /// cache too.
  void describe_slices(const ConvolutionProblem& p) {
    constexpr std::int64_t kMostFloats = 128 << 10, kNearBytes = 768 << 10, kLeastNear = 6, kLeastFar = 16;
    const std::int64_t tiles = p.x.sizes[0] * down_ * across_,
                       multiplications = tiles * terms() * s_.channels * s_.results;
    v_row_ = whole_vectors(s_.channels);
    m_row_ = s_.panels * s_.width;
    const std::int64_t threads = threads_worth(multiplications),
                       floats = std::min(kMostFloats, (numel(p.x.sizes) + numel(p.y.sizes)) / 4 / threads),
                       least = static_cast<std::int64_t>(s_.bytes()) <= kNearBytes ? kLeastNear : kLeastFar,
                       fit = std::max(floats / (terms() * (v_row_ + m_row_)), least);
    most_tiles_ = std::clamp<std::int64_t>((tiles + threads - 1) / threads, 1, fit);
    v_step_ = odd_lines(most_tiles_ * v_row_);
    m_step_ = odd_lines(most_tiles_ * m_row_);
    divide_among_threads(tiles, multiplications, terms() * (v_step_ + m_step_) + kRun * tile_ * tile_ * kernels_.width);
  }

  Tile tile_at(std::int64_t index) const {
    return {index / (down_ * across_), index / across_ % down_, index % across_};
  }

  /// Working memory of one thread: the terms of a slice's input and of its products, results that wait for their
  /// post-operations, and which tiles' squares are bounded.
  struct Slice {
    float *v, *m, *sums;
    std::vector<char> bounded;
    std::vector<Post> post;
  };

  void run_parts(std::int64_t begin, std::int64_t end, float* scratch) const override {
    const std::int64_t slices = (end - begin + most_tiles_ - 1) / most_tiles_;
    float *v = scratch, *m = v + terms() * v_step_;
    Slice s{v, m, m + terms() * m_step_, std::vector<char>(static_cast<std::size_t>(most_tiles_)),
            std::vector<Post>(post_.size())};
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      const std::int64_t first = begin + (end - begin) * slice / slices,
                         count = begin + (end - begin) * (slice + 1) / slices - first;
      for (std::int64_t t = 0; t < count; ++t)
        s.bounded[static_cast<std::size_t>(t)] = transform(tile_at(first + t), s.v + t * v_row_);
      multiply(count, s.v, s.m);
      for (std::int64_t t = 0; t < count;) {
        const Tile at = tile_at(first + t);
        const std::int64_t run = std::min({kRun, count - t, across_ - at.across});
        for (std::int64_t panel = 0; panel < s_.panels; ++panel) finish(at, s, t, run, panel);
        t += run;
      }
    }
  }

  /// Line and place in x where a tile's square begins.
  std::int64_t line_of(const Tile& t) const { return t.down * tile_ - padding_[0]; }
  std::int64_t place_of(const Tile& t) const { return t.across * tile_ - padding_[1]; }
  std::int64_t offset(std::int64_t image, std::int64_t line, std::int64_t place) const {
    return ((image * from_[1] + line) * from_[2] + place) * s_.channels;
  }

  /// A bit for each of a square's lines, or places, that x has.
  unsigned inside(std::int64_t start, std::int64_t size) const {
    unsigned bits = 0;
    for (std::int64_t i = 0; i < square_; ++i)
      if (start + i >= 0 && start + i < size) bits |= 1u << i;
    return bits;
  }

  bool transform(const Tile& t, float* to) const {
    return transforms_.in({.points = points(),
                           .from = pointer<const float>(x_) + offset(t.image, line_of(t), place_of(t)),
                           .line_step = from_[2] * s_.channels,
                           .place_step = s_.channels,
                           .lines = inside(line_of(t), from_[1]),
                           .places = inside(place_of(t), from_[2]),
                           .channels = s_.channels,
                           .to = to,
                           .term_step = v_step_});
  }

  const float* panel_at(std::int64_t term, std::int64_t panel) const {
    return pointer<const float>(weight_) + (term * s_.panels + panel) * s_.panel_floats();
  }

  void multiply(std::int64_t count, const float* v, float* m) const {
    for (std::int64_t term = 0; term < terms(); ++term)
      for (std::int64_t panel = 0; panel < s_.panels; ++panel) {
        const bool last = panel + 1 == s_.panels;
        const float* next = panel_at(last ? (term + 1) % terms() : term, last ? 0 : panel + 1);
        multiply_panel(count, panel, panel_at(term, panel), next, v + term * v_step_,
                       m + term * m_step_ + panel * s_.width);
      }
  }

  void multiply_panel(std::int64_t count, std::int64_t panel, const float* weight, const float* next, const float* v,
                      float* m) const {
    const Kernels& k = kernels_;
    const int vectors = vectors_of(panel);
    const std::int64_t strips = (count + k.rows[vectors] - 1) / k.rows[vectors],
                       stretches = std::max<std::int64_t>(1, (s_.channels + k.depth - 1) / k.depth);
    Ahead ahead(next, s_.panel_floats(), strips * std::max<std::int64_t>(1, s_.channels / 4));
    for (std::int64_t stretch = 0; stretch < stretches; ++stretch) {
      const std::int64_t from = s_.channels * stretch / stretches, to = s_.channels * (stretch + 1) / stretches;
      for (std::int64_t strip = 0, row = 0; strip < strips; ++strip) {
        const std::int64_t end = count * (strip + 1) / strips;
        Strip s{.a = v + row * v_row_ + from,
                .a_step = v_row_,
                .panel = weight + from * s_.width,
                .panel_step = s_.width,
                .k = to - from,
                .sum = m + row * m_row_,
                .sum_step = m_row_,
                .add = from > 0,
                .vectors = vectors,
                .rows = static_cast<int>(end - row)};
        ahead.give(s);
        k.multiply(s);
        row = end;
      }
    }
  }

  /// `run` tiles of one line of tiles, from tile `first` of the slice on: the results of one panel.
  void finish(const Tile& at, Slice& s, std::int64_t first, std::int64_t run, std::int64_t panel) const {
    const std::int64_t line_step = kRun * tile_ * kernels_.width;
    for (std::int64_t t = 0; t < run; ++t) {
      float* to = s.sums + t * tile_ * kernels_.width;
      const SquareOut out{.points = points(),
                          .from = s.m + (first + t) * m_row_ + panel * s_.width,
                          .term_step = m_step_,
                          .vectors = vectors_of(panel),
                          .to = to,
                          .line_step = line_step,
                          .place_step = kernels_.width};
      if (!s.bounded[static_cast<std::size_t>(first + t)] || !transforms_.out(out))
        compute_exactly({at.image, at.down, at.across + t}, panel, to, line_step);
    }
    const std::int64_t line = at.down * tile_, place = at.across * tile_, lines = std::min(tile_, to_[1] - line),
                       places = std::min(run * tile_, to_[2] - place);
    for (std::int64_t a = 0; a < lines; ++a)
      finish_line((at.image * to_[1] + line + a) * to_[2] + place, places, panel, s.sums + a * line_step, s.post);
  }

  /// Bias and post-operations for some results that follow one another, from row `row` of y on.
  void finish_line(std::int64_t row, std::int64_t count, std::int64_t panel, const float* sums,
                   std::vector<Post>& post) const {
    std::ranges::copy(post_, post.begin());
    for (Post& p : post)
      if (p.operand) p.operand = static_cast<const float*>(p.operand) + row * p.operand_step;
    kernels_.finish({.sum = sums,
                     .column = panel * s_.width,
                     .rows = static_cast<int>(count),
                     .columns = static_cast<int>(s_.columns(panel)),
                     .bias = bias_ ? pointer<const float>(*bias_) : nullptr,
                     .post = post.data(),
                     .posts = static_cast<int>(post.size()),
                     .y = pointer<float>(y_) + row * s_.results,
                     .y_step = s_.results});
  }

  // ---- Tiles with NaN and infinities

  void compute_exactly(const Tile& t, std::int64_t panel, float* to, std::int64_t line_step) const {
    const std::int64_t depth = kTaps * s_.channels;
    std::vector<float> windows(static_cast<std::size_t>(tile_ * tile_ * depth));
    float* window = windows.data();
    for (std::int64_t a = 0; a < tile_; ++a)
      for (std::int64_t b = 0; b < tile_; ++b, window += depth) gather(t, a, b, window);
    const float* weight = windows_of_weight() + panel * depth * s_.width;
    for (std::int64_t a = 0; a < tile_; ++a)
      kernels_.multiply({.a = windows.data() + a * tile_ * depth,
                         .a_step = depth,
                         .panel = weight,
                         .panel_step = s_.width,
                         .k = depth,
                         .sum = to + a * line_step,
                         .sum_step = kernels_.width,
                         .vectors = vectors_of(panel),
                         .rows = static_cast<int>(tile_)});
  }

  /// The window of one of a tile's results; what `to` holds where x ends stays 0.
  void gather(const Tile& t, std::int64_t a, std::int64_t b, float* to) const {
    const std::int64_t line = line_of(t) + a, place = place_of(t) + b;
    for (std::int64_t i = 0; i < kWindow; ++i)
      for (std::int64_t j = 0; j < kWindow; ++j, to += s_.channels)
        if (line + i >= 0 && line + i < from_[1] && place + j >= 0 && place + j < from_[2])
          std::copy_n(pointer<const float>(x_) + offset(t.image, line + i, place + j), s_.channels, to);
  }

  /// The weight itself, of its transform, in panels whose rows are taps times channels. Made when it is first needed:
  /// few programs ever see a NaN.
  const float* windows_of_weight() const {
    const std::lock_guard lock(windows_mutex_);
    if (windows_made_of_ == pointer<const float>(weight_)) return windows_.data();
    windows_.assign(static_cast<std::size_t>(s_.panels * kTaps * s_.panel_floats()), 0.0f);
    for (std::int64_t panel = 0; panel < s_.panels; ++panel)
      for (std::int64_t tap = 0; tap < kTaps; ++tap)
        recover(panel, tap, windows_.data() + (panel * kTaps + tap) * s_.panel_floats());
    windows_made_of_ = pointer<const float>(weight_);
    return windows_.data();
  }

  void recover(std::int64_t panel, std::int64_t tap, float* to) const {
    const auto& rows = s_.transforms.recover;
    std::vector<double> sums(static_cast<std::size_t>(s_.panel_floats()));
    for (std::int64_t term = 0; term < terms(); ++term) {
      const auto factor_in = [&](std::int64_t row, std::int64_t column) {
        return rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)].value();
      };
      const double factor = factor_in(tap / kWindow, term / square_) * factor_in(tap % kWindow, term % square_);
      const float* from = panel_at(term, panel);
      if (factor == 0) continue;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += factor * double{from[i]};
    }
    std::ranges::transform(sums, to, [](double sum) { return static_cast<float>(sum); });
  }

  static constexpr std::int64_t kRun = 4;  ///< tiles whose results wait for their post-operations

  const WinogradKernels& transforms_ = transforms_of_this_machine();
  FilteredShape s_;
  std::int64_t tile_, square_;
  std::int64_t padding_[2];
  std::int64_t down_, across_;  ///< tiles of an image
  std::vector<float> points_;
  std::int64_t most_tiles_ = 1;           ///< of a slice
  std::int64_t v_row_ = 0, m_row_ = 0;    ///< floats of a tile's row in a term of each form
  std::int64_t v_step_ = 0, m_step_ = 0;  ///< and of a term
  mutable std::mutex windows_mutex_;
  mutable std::vector<float> windows_;
  mutable const float* windows_made_of_ = nullptr;
};

/// Stride and dilation 1, one group, windows of 3x3.
bool is_filtered(const ConvolutionProblem& p) {
  const auto all = [](const Sizes& sizes, std::int64_t value) {
    return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == value; });
  };
  return is_f32(p) && p.spatial() == 2 && !p.transposed && p.groups == 1 && p.kernel(0) == kWindow &&
         p.kernel(1) == kWindow && all(p.stride, 1) && all(p.dilation, 1);
}

}  // namespace

std::unique_ptr<PreparedCall> make_winograd(const ConvolutionProblem& p) {
  if (!p.packed_desc.starts_with("winograd:")) return nullptr;
  if (!is_filtered(p)) fail("a weight packed for Winograd's filtering is given to another convolution");
  for (const Transforms& t : winograd::all_transforms())
    if (const std::string form = form_of(t.tile); p.packed_desc.starts_with(form)) {
      const FilteredShape s(p, t.tile, width_of_form(std::string_view(p.packed_desc).substr(form.size())));
      if (s.form() == p.packed_desc && p.packed_bytes >= s.bytes())
        return std::make_unique<Winograd>(p, t.tile, s.width);
    }
  fail("a packed weight does not have the form that its description says");
}

std::optional<WeightForm> winograd_form(const ConvolutionProblem& p, std::string_view isa) {
  const std::int64_t widest = widest_panel(isa);
  if (!p.winograd_tile || widest == 0 || !is_filtered(p)) return std::nullopt;
  const FilteredShape s(p, *p.winograd_tile, panel_width(p.weight.sizes[0], widest));
  return WeightForm{s.form(), s.bytes(), [s, strides = p.weight.strides](float* to, const float* weight) {
                      return transform_weight(to, weight, strides, s.channels, s.results, s.width, s.transforms);
                    }};
}

std::optional<Packed> pack_winograd(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  const auto form = weight.dtype == DType::F32 ? winograd_form(p, isa) : std::nullopt;
  return form ? std::optional(packed_in(*form, p, weight)) : std::nullopt;
}

}  // namespace coil::runtime::panels
