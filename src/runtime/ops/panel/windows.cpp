#include "runtime/ops/panel/windows.h"

#include <algorithm>

#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/convolution_call.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/view_layout.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

constexpr std::string_view kWindows = "windows:";  // windows:FORM OF A PHASE'S AND GROUP'S PANELS

/// Sizes of a convolution, and where each phase's and group's panels lie.
struct Shape {
  std::int64_t images, groups, channels, results;  ///< of a group
  std::int64_t width;                              ///< of a panel
  std::vector<Phase> phases;

  Shape(const ConvolutionProblem& p, std::int64_t panel)
      : images(p.x.sizes[0]),
        groups(p.groups),
        channels(p.x.sizes[1] / p.groups),
        results(p.y.sizes[1] / p.groups),
        width(panel),
        phases(phases_of(p)) {}

  std::int64_t panels() const { return (results + width - 1) / width; }
  std::int64_t depth(const Phase& phase) const { return phase.taps() * channels; }
  std::size_t group_bytes(const Phase& phase) const { return packed_bytes(DType::F32, results, depth(phase), width); }
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const Phase& phase : phases) all += group_bytes(phase) * static_cast<std::size_t>(groups);
    return all;
  }
  std::string form() const { return std::string(kWindows) + packed_form(DType::F32, width); }
};

/// One phase as rows of windows.
struct Job {
  const Phase* phase = nullptr;
  std::int64_t rows = 0, depth = 0;
  std::int64_t first_inside = 0, end_inside = 0;  ///< places along the last dimension whose taps are all within x
  std::int64_t piece = 0, pieces = 0;             ///< channels that are neighbours in x, and how many such of one line
  std::int64_t panel_offset = 0;                  ///< bytes
  bool direct = false;                            ///< rows of x are the windows
  bool along_lines = false;                       ///< a window is a run of one line of x
  Division division;
};

struct Unit {
  std::int64_t job = 0, block = 0, group = 0, panel = 0;
};

/// A place among a phase's results.
struct Position {
  std::int64_t image = 0;
  Places q = {};
};

class Windows : public ConvolutionCall {
 public:
  Windows(const ConvolutionProblem& p, const Shape& s)
      : ConvolutionCall(p, channels_last(DType::F32, p.y.sizes)),
        s_(s),
        x_channels_(p.x.sizes[1]),
        y_channels_(p.y.sizes[1]) {
    describe_post(p, y_channels_);
    describe_jobs();
  }

 private:
  Staging::Operand post_operand(const BoundView& given, std::size_t index, Post& made) override {
    return operand_by_rows(given, index, made, y_channels_);
  }

  void describe_jobs() {
    // Bytes of windows that stay in the second-level cache beside a stretch of a panel.
    constexpr std::int64_t kMostBytes = 512 << 10, kMostRows = 240, kLeastRows = 48;
    std::int64_t multiplications = 0, offset = 0, most_rows = 0;
    for (const Phase& phase : s_.phases) {
      Job job = job_of(phase);
      multiplications += job.rows * job.depth * s_.results * s_.groups;
      job.panel_offset = offset;
      offset += static_cast<std::int64_t>(s_.group_bytes(phase)) * s_.groups;
      if (job.rows > 0) jobs_.push_back(job);
    }
    for (Job& job : jobs_) {
      const std::int64_t fit = kMostBytes / (4 * std::max<std::int64_t>(job.depth, 1));
      const auto split = static_cast<std::int64_t>(jobs_.size()) * s_.groups * s_.panels();
      job.division = divide(job.rows, split, multiplications, std::clamp(fit, kLeastRows, kMostRows));
      const std::int64_t rows = (job.rows + job.division.row_blocks - 1) / job.division.row_blocks;
      most_rows = std::max(most_rows, rows);
      window_floats_ = std::max(window_floats_, job.direct ? 0 : (rows * job.depth + 15) / 16 * 16);
      add_units(job);
    }
    divide_among_threads(static_cast<std::int64_t>(units_.size()), multiplications,
                         window_floats_ + most_rows * kernels_.width);
  }

  void add_units(const Job& job) {
    const std::int64_t at = &job - jobs_.data();
    for (std::int64_t block = 0; block < job.division.row_blocks; ++block)
      for (std::int64_t group = 0; group < s_.groups; ++group)
        for (std::int64_t panel = 0; panel < s_.panels(); ++panel) units_.push_back({at, block, group, panel});
  }

  Job job_of(const Phase& phase) const {
    Job job{.phase = &phase, .rows = s_.images, .depth = s_.depth(phase), .division = {}};
    bool whole = true;  // each place of x is read by one result, in order
    for (std::size_t d = 0; d < kDims; ++d) {
      const PhaseAxis& axis = phase.axes[d];
      job.rows *= axis.count;
      whole =
          whole && axis.taps.size() == 1 && axis.taps[0].offset == 0 && axis.from_step == 1 && axis.count == from_[d];
    }
    job.direct = whole;
    const PhaseAxis& last = phase.axes[kDims - 1];
    if (last.taps.empty()) return job;
    const std::int64_t low = last.taps.front().offset, high = last.taps.back().offset, size = from_[kDims - 1];
    job.first_inside = std::clamp<std::int64_t>((std::max<std::int64_t>(-low, 0) + last.from_step - 1) / last.from_step,
                                                0, last.count);
    job.end_inside =
        size > high ? std::clamp<std::int64_t>((size - 1 - high) / last.from_step + 1, job.first_inside, last.count)
                    : job.first_inside;
    const auto taps = static_cast<std::int64_t>(last.taps.size());
    const bool merged = s_.groups == 1 && high - low == taps - 1;
    job.along_lines = merged && job.phase->axes[0].taps.size() == 1 && job.phase->axes[1].taps.size() == 1;
    job.piece = merged ? taps * s_.channels : s_.channels;
    job.pieces = merged ? 1 : taps;
    return job;
  }

  Position position(const Job& job, std::int64_t row) const {
    Position at;
    for (std::size_t d = kDims; d-- > 0;) {
      at.q[d] = row % job.phase->axes[d].count;
      row /= job.phase->axes[d].count;
    }
    at.image = row;
    return at;
  }

  /// The number of a result's row in y, as rows of channels.
  std::int64_t result_row(const Job& job, const Position& at) const {
    std::int64_t row = at.image;
    for (std::size_t d = 0; d < kDims; ++d)
      row = row * to_[d] + job.phase->axes[d].start + job.phase->axes[d].step * at.q[d];
    return row;
  }

  /// Rows from `row` on, and before `end`, whose results lie evenly: to the end of a line of results.
  std::int64_t end_of_line(const Job& job, std::int64_t row, std::int64_t end) const {
    const std::int64_t count = job.phase->axes[kDims - 1].count;
    return std::min(end, row / count * count + count);
  }

  void run_parts(std::int64_t begin, std::int64_t end, float* scratch) const override {
    const float* windows = nullptr;
    std::int64_t step = 0;
    std::vector<Post> post(post_.size());
    for (std::int64_t at = begin; at < end; ++at) {
      const Unit& unit = units_[static_cast<std::size_t>(at)];
      const Job& job = jobs_[static_cast<std::size_t>(unit.job)];
      const std::int64_t first = job.rows * unit.block / job.division.row_blocks,
                         last = job.rows * (unit.block + 1) / job.division.row_blocks;
      if (job.direct) {
        step = x_channels_;
        windows = pointer<const float>(x_) + first * step + unit.group * s_.channels;
      } else if (const float* runs = runs_of_line(job, first, last)) {
        step = job.phase->axes[kDims - 1].from_step * x_channels_;
        windows = runs;
      } else if (at == begin || unit.panel == 0) {
        step = job.depth;
        windows = scratch;
        gather(job, unit.group, first, last, scratch);
      }
      const Unit* next = at + 1 < end ? &units_[static_cast<std::size_t>(at + 1)] : nullptr;
      multiply(job, unit, next, first, last, windows, step, scratch + window_floats_, post);
    }
  }

  // ---- Windows

  /// Where the windows of these rows begin in x, if each is a run of one line and all are within it; else null.
  const float* runs_of_line(const Job& job, std::int64_t first, std::int64_t last) const {
    if (!job.along_lines || last <= first || end_of_line(job, first, last) < last) return nullptr;
    const auto& axes = job.phase->axes;
    const Position at = position(job, first);
    const std::int64_t q = at.q[2];
    if (q < job.first_inside || q + last - first > job.end_inside) return nullptr;
    std::int64_t place = at.image;
    for (std::size_t d = 0; d < kDims; ++d) {
      const std::int64_t along = at.q[d] * axes[d].from_step + axes[d].taps.front().offset;
      if (along < 0 || along >= from_[d]) return nullptr;
      place = place * from_[d] + along;
    }
    return pointer<const float>(x_) + place * x_channels_;
  }

  void gather(const Job& job, std::int64_t group, std::int64_t first, std::int64_t last, float* to) const {
    if (job.depth == 0) return;
    for (std::int64_t row = first; row < last;) {
      const std::int64_t end = end_of_line(job, row, last);
      gather_line(job, position(job, row), group, end - row, to + (row - first) * job.depth);
      row = end;
    }
  }

  /// Windows of `count` results of one line, from `at` on.
  void gather_line(const Job& job, const Position& at, std::int64_t group, std::int64_t count, float* to) const {
    const PhaseAxis &depth = job.phase->axes[0], &height = job.phase->axes[1], &line = job.phase->axes[2];
    const std::int64_t part = static_cast<std::int64_t>(line.taps.size()) * s_.channels;
    for (const Tap& outer : depth.taps)
      for (const Tap& inner : height.taps) {
        const std::int64_t z = at.q[0] * depth.from_step + outer.offset, y = at.q[1] * height.from_step + inner.offset;
        if (z < 0 || z >= from_[0] || y < 0 || y >= from_[1]) {
          for (std::int64_t r = 0; r < count; ++r) std::fill_n(to + r * job.depth, part, 0.0f);
        } else {
          const std::int64_t start = ((at.image * from_[0] + z) * from_[1] + y) * from_[2];
          gather_part(job, pointer<const float>(x_) + start * x_channels_ + group * s_.channels, at.q[2], count, to);
        }
        to += part;
      }
  }

  /// From one line of x, which begins at `x`: the taps along it.
  void gather_part(const Job& job, const float* x, std::int64_t q, std::int64_t count, float* to) const {
    const PhaseAxis& line = job.phase->axes[2];
    const std::int64_t end = q + count, inside = std::clamp(job.first_inside, q, end),
                       behind = std::clamp(job.end_inside, inside, end);
    const auto taps = static_cast<std::int64_t>(line.taps.size());
    for (std::int64_t at = q; at < end; ++at) {
      if (at == inside && behind > inside) {
        const std::int64_t spread = taps > 1 ? line.taps[1].offset - line.taps[0].offset : 1;
        kernels_.copy({.to = to + (inside - q) * job.depth,
                       .to_step = job.depth,
                       .from = x + (inside * line.from_step + line.taps[0].offset) * x_channels_,
                       .from_step = line.from_step * x_channels_,
                       .tap_step = spread * x_channels_,
                       .rows = behind - inside,
                       .taps = job.pieces,
                       .length = job.piece});
        at = behind - 1;
        continue;
      }
      float* row = to + (at - q) * job.depth;
      for (const Tap& tap : line.taps) {
        const std::int64_t place = at * line.from_step + tap.offset;
        if (place >= 0 && place < from_[2])
          std::copy_n(x + place * x_channels_, s_.channels, row);
        else
          std::fill_n(row, s_.channels, 0.0f);
        row += s_.channels;
      }
    }
  }

  // ---- Products

  const float* panel_at(const Job& job, std::int64_t group, std::int64_t panel) const {
    const std::int64_t bytes = job.panel_offset + group * static_cast<std::int64_t>(s_.group_bytes(*job.phase));
    return reinterpret_cast<const float*>(pointer<const char>(weight_) + bytes) + panel * job.depth * s_.width;
  }

  void multiply(const Job& job, const Unit& unit, const Unit* next, std::int64_t first, std::int64_t last,
                const float* windows, std::int64_t step, float* sums, std::vector<Post>& post) const {
    const Kernels& k = kernels_;
    const std::int64_t width = s_.width, columns = std::min(width, s_.results - unit.panel * width),
                       column = unit.group * s_.results + unit.panel * width;
    const int vectors = static_cast<int>((columns + k.lanes - 1) / k.lanes);
    const std::int64_t strips = (last - first + k.rows[vectors] - 1) / k.rows[vectors],
                       stretches = std::max<std::int64_t>(1, (job.depth + k.depth - 1) / k.depth),
                       stretch = ((job.depth + stretches - 1) / stretches + 3) / 4 * 4;
    const float* panel = panel_at(job, unit.group, unit.panel);
    const float* after = next ? panel_at(jobs_[static_cast<std::size_t>(next->job)], next->group, next->panel) : panel;
    std::int64_t from = 0;
    do {
      const std::int64_t to = std::min(from + stretch, job.depth), floats = (to - from) * width;
      Ahead ahead(to < job.depth ? panel + to * width : after, after == panel && to == job.depth ? 0 : floats,
                  strips * std::max<std::int64_t>(1, (to - from) / 4));
      for (std::int64_t strip = 0, row = 0; strip < strips; ++strip) {
        const std::int64_t end = (last - first) * (strip + 1) / strips;
        Strip s{.a = windows + row * step + from,
                .a_step = step,
                .panel = panel + from * width,
                .panel_step = width,
                .k = to - from,
                .sum = sums + row * k.width,
                .sum_step = k.width,
                .add = from > 0,
                .vectors = vectors,
                .rows = static_cast<int>(end - row)};
        ahead.give(s);
        if (to == job.depth && even(job)) fetch_results(first + row, first + end, column, columns);
        k.multiply(s);
        if (to == job.depth) finish(job, first + row, first + end, s.sum, column, columns, post);
        row = end;
      }
      from = to;
    } while (from < job.depth);
  }

  /// Whether results follow one another in y.
  static bool even(const Job& job) {
    return std::ranges::all_of(job.phase->axes, [](const PhaseAxis& axis) { return axis.step == 1; });
  }

  /// Asks for lines of y that `finish` will write, which come while the rows are multiplied.
  void fetch_results(std::int64_t row, std::int64_t end, std::int64_t column, std::int64_t columns) const {
    for (; row < end; ++row) {
      const float* at = pointer<const float>(y_) + row * y_channels_ + column;
      for (std::int64_t c = 0; c < columns; c += 16) __builtin_prefetch(at + c, 1);
    }
  }

  void finish(const Job& job, std::int64_t row, std::int64_t end, const float* sum, std::int64_t column,
              std::int64_t columns, std::vector<Post>& post) const {
    const std::int64_t step = job.phase->axes[2].step;
    while (row < end) {
      const std::int64_t until = even(job) ? end : end_of_line(job, row, end), at = result_row(job, position(job, row));
      Rows rows{.sum = sum,
                .column = column,
                .rows = static_cast<int>(until - row),
                .columns = static_cast<int>(columns),
                .posts = static_cast<int>(post_.size()),
                .y = pointer<float>(y_) + at * y_channels_,
                .y_step = step * y_channels_};
      if (bias_) rows.bias = pointer<const float>(*bias_);
      std::ranges::copy(post_, post.begin());
      for (Post& p : post) {
        if (p.operand) p.operand = static_cast<const float*>(p.operand) + at * p.operand_step;
        p.operand_step *= step;
      }
      rows.post = post.data();
      kernels_.finish(rows);
      sum += (until - row) * kernels_.width;
      row = until;
    }
  }

  Shape s_;
  std::int64_t x_channels_, y_channels_;
  std::vector<Job> jobs_;
  std::vector<Unit> units_;
  std::int64_t window_floats_ = 0;
};

/// Whether each result is of the place in x where it lies.
bool is_direct(const ConvolutionProblem& p) {
  const auto all = [](const Sizes& sizes, std::int64_t value) {
    return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == value; });
  };
  return all(p.stride, 1) && all(p.padding, 0) && all(p.padding_end, 0);
}

bool has_costly_post(const ConvolutionProblem& p) {
  constexpr std::size_t kManyOperands = 2;
  return p.operands.size() >= kManyOperands || std::ranges::any_of(p.post, is_costly);
}

/// Whether oneDNN's kernels for AVX2 are slow at it: sequences, whose operands it reads from memory again and again,
/// and windows whose places lie far apart, of which its registers hold few at a time.
bool is_slow_on_avx2(const ConvolutionProblem& p) {
  constexpr std::int64_t kFarApart = 4;
  return (p.spatial() == 1 && p.kernel(0) > 1) || p.dilation.back() >= kFarApart;
}

/// Whether what neighbouring results of a long line read lies multiples of 4 KiB apart, so that it shares one set of
/// the first-level cache, as with 512 channels and a stride of 2: oneDNN reads it where it lies again and again.
bool reads_one_cache_set(const ConvolutionProblem& p) {
  constexpr std::int64_t kSets = 4096, kLongLine = 14;  // bytes over which the sets repeat; results
  const std::int64_t step = p.stride.back() * p.x.sizes[1] * static_cast<std::int64_t>(sizeof(float));
  const bool steps = p.stride.back() > 1 || (p.spatial() == 1 && p.kernel(0) > 1);
  return steps && step % kSets == 0 && p.y.sizes.back() >= kLongLine;
}

/// Where it measured faster than oneDNN (docs/performance_cpu.md), which reaches more of the processor's speed in whole
/// convolutions, but has slow ones for transposed convolutions, and for single places of several samples, and none for
/// some paddings and post-operations.
bool windows_gain(const ConvolutionProblem& p, std::string_view isa) {
  constexpr std::int64_t kLeastResults = 8, kManyResults = 64, kLeastChannels = 16;
  const Shape s(p, 1);
  if (s.channels == 1 || s.results == 1) return false;
  if (isa.starts_with("avx2") && s.groups == 1 && std::min(s.results, s.channels) >= kLeastResults &&
      is_slow_on_avx2(p))
    return true;
  if (p.transposed) return s.results >= kLeastResults && (s.groups == 1 || s.channels >= kLeastResults);
  if (s.results >= kLeastResults && s.channels >= kLeastResults && !onednn::has_convolution_kernel(p)) return true;
  if (s.groups == 1 && s.results > kManyResults && reads_one_cache_set(p)) return true;
  if (s.groups > 1 || numel(p.weight.sizes) != p.weight.sizes[0] * p.weight.sizes[1]) return false;
  const auto is_place = [](const Places& sizes) { return sizes == Places{1, 1, 1}; };
  if (is_place(spatial_sizes(p.x)) && is_place(spatial_sizes(p.y))) return true;
  return is_direct(p) && has_costly_post(p) && s.results >= kManyResults && s.channels >= kLeastChannels;
}

/// One group's weight of one phase as rows of results: [results, taps and channels].
Tensor rows_of(const ConvolutionProblem& p, const Shape& s, const Phase& phase, std::int64_t group, const float* from) {
  Tensor rows = Tensor::empty(DType::F32, {s.results, s.depth(phase)});
  const Sizes& steps = p.weight.strides;
  const std::int64_t in = steps[p.transposed ? 0 : 1], out = steps[p.transposed ? 1 : 0];
  from += group * (p.transposed ? s.channels * in : s.results * out);
  Places strides = {};
  std::copy(steps.begin() + 2, steps.end(), strides.end() - static_cast<std::ptrdiff_t>(p.spatial()));
  float* to = rows.data<float>();
  for (std::int64_t o = 0; o < s.results; ++o)
    for (const Tap& z : phase.axes[0].taps)
      for (const Tap& y : phase.axes[1].taps)
        for (const Tap& x : phase.axes[2].taps) {
          const float* tap = from + o * out + z.kernel * strides[0] + y.kernel * strides[1] + x.kernel * strides[2];
          for (std::int64_t c = 0; c < s.channels; ++c) *to++ = tap[c * in];
        }
  return rows;
}

}  // namespace

std::unique_ptr<PreparedCall> make_windows(const ConvolutionProblem& p) {
  if (!p.packed_desc.starts_with(kWindows)) return nullptr;
  if (!is_f32(p)) fail("a weight packed for convolutions in f32 is given to another one");
  const Shape s(p, width_of_form(p.packed_desc.substr(kWindows.size())));
  if (p.packed_bytes < s.bytes()) fail("a packed weight does not have the form that its description says");
  return std::make_unique<Windows>(p, s);
}

namespace {

/// Whether it gains or not.
std::optional<WeightForm> any_windows_form(const ConvolutionProblem& p, std::string_view isa) {
  const std::int64_t widest = widest_panel(isa);
  if (widest == 0 || !is_f32(p)) return std::nullopt;
  const Shape s(p, panel_width(p.y.sizes[1] / p.groups, widest));
  return WeightForm{s.form(), s.bytes(), [p, s](float* packed, const float* weight) {
                      auto* to = reinterpret_cast<std::byte*>(packed);
                      for (const Phase& phase : s.phases)
                        for (std::int64_t group = 0; group < s.groups; ++group, to += s.group_bytes(phase)) {
                          if (s.depth(phase) == 0) continue;
                          const Tensor rows = rows_of(p, s, phase, group, weight);
                          const BoundView turned{DType::F32, {s.depth(phase), s.results}, {1, s.depth(phase)}};
                          pack(to, rows.bytes(), turned, s.width);
                        }
                      return true;
                    }};
}

}  // namespace

std::optional<WeightForm> windows_form(const ConvolutionProblem& p, std::string_view isa) {
  return windows_gain(p, isa) ? any_windows_form(p, isa) : std::nullopt;
}

std::optional<Packed> pack_any_windows(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  const auto form = weight.dtype == DType::F32 ? any_windows_form(p, isa) : std::nullopt;
  return form ? std::optional(packed_in(*form, p, weight)) : std::nullopt;
}

std::optional<Packed> pack_windows(const ConvolutionProblem& p, const Tensor& weight, std::string_view isa) {
  return windows_gain(p, isa) ? pack_any_windows(p, weight, isa) : std::nullopt;
}

}  // namespace coil::runtime::panels
