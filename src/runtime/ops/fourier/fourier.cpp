// Fourier transforms on the CPU: `fourier` and `fourier_to_real`. Sequences go through the loops of kernels.h in blocks
// of as many as a vector has lanes. Two real sequences go as the parts of a complex one.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "library_ops/fourier.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/by_element_type.h"
#include "runtime/ops/fourier/transform.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using fourier::Pair;
using fourier::Places;

/// An operand as sequences along one dimension.
class Sequences {
 public:
  Sequences() = default;
  Sequences(const BoundView& view, std::size_t dim) : points_(view.sizes[dim]), step_(view.strides[dim]) {
    for (std::size_t d = 0; d < view.sizes.size(); ++d) {
      if (d == dim) continue;
      sizes_.push_back(view.sizes[d]);
      strides_.push_back(view.strides[d]);
    }
  }
  std::int64_t points() const { return points_; }
  std::int64_t count() const { return numel(sizes_); }
  bool is_like(const Sequences& other) const { return sizes_ == other.sizes_; }
  /// How many lie side by side, so that a point of several of them is read or written at once; 0 where their own points
  /// do, or nothing does.
  std::int64_t side_by_side() const {
    return step_ != 1 && !strides_.empty() && strides_.back() == 1 ? sizes_.back() : 0;
  }

  /// Some of them, from `first` on, whose starts are written to `starts`.
  Places places(std::int64_t first, std::int64_t count, std::int64_t* starts) const {
    const std::int64_t innermost = sizes_.empty() ? 1 : sizes_.back(), step = sizes_.empty() ? 0 : strides_.back();
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t begin = start(first + i), run = std::min(count - i, innermost - (first + i) % innermost);
      for (std::int64_t k = 0; k < run; ++k) starts[i++] = begin + k * step;
    }
    return {starts, count, step_};
  }

 private:
  std::int64_t start(std::int64_t sequence) const {
    std::int64_t at = 0;
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      at += sequence % sizes_[d] * strides_[d];
      sequence /= sizes_[d];
    }
    return at;
  }

  Sizes sizes_, strides_;
  std::int64_t points_ = 1, step_ = 1;
};

/// What both operations share: a block of sequences at a time, in scratch memory of two arrays of complex vectors for
/// each worker.
template <class T>
class FourierOf : public LibraryOp {
 public:
  FourierOf(std::string_view name, const Attributes& attributes)
      : name_(name), dim_(static_cast<std::size_t>(read(attributes, library_ops::fourier::kDim))) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    from_.clear();
    to_.clear();
    for (const BoundView& view : inputs) from_.push_back(sequences(view));
    for (const BoundView& view : outputs) to_.push_back(sequences(view));
    for (const auto* list : {&from_, &to_})
      for (const Sequences& s : *list)
        if (!s.is_like(from_[0])) fail("{}: operands have other sizes beside dimension {}", name_, dim_);
    const std::int64_t length = this->length();
    if (length < 1) fail("{} of {} points: there is nothing to be transformed", name_, length);
    if (!fits()) fail("{}: operands and results have sizes that do not fit along dimension {}", name_, dim_);
    if (!transform_ || transform_->length() != length) transform_.emplace(length, kernels_);
    run_ = from_[0].count();
    for (const auto* list : {&from_, &to_})
      for (const Sequences& s : *list)
        if (s.side_by_side() >= kernels_.lanes) run_ = s.side_by_side();
    ranges_ = run_ == 0 ? 0 : from_[0].count() / run_ * ranges_of_run();
    blocks_ = in_pairs() ? (ranges_ + 1) / 2 : ranges_;
    constexpr std::int64_t kPointsOfThread = 4096;
    workers_ = std::max(1, chunk_count(blocks_, 1 + kPointsOfThread / (length * kernels_.lanes), thread_count()));
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(workers_ * 4 * array()) * sizeof(T); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    parallel_ranges(workers_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w) {
        T* scratch = static_cast<T*>(workspace) + w * 4 * array();
        const Pair<T> x{scratch, scratch + array()}, other{scratch + 2 * array(), scratch + 3 * array()};
        for (std::int64_t b = blocks_ * w / workers_; b < blocks_ * (w + 1) / workers_; ++b)
          block(b, inputs, outputs, x, other);
      }
    });
  }

 protected:
  /// Points of a transform.
  virtual std::int64_t length() const = 0;
  /// Whether operands and results are as long as the operation says.
  virtual bool fits() const = 0;
  /// Whether a block has twice as many sequences as a vector has lanes.
  virtual bool in_pairs() const = 0;
  virtual void block(std::int64_t index, std::span<const void* const> inputs, std::span<void* const> outputs, Pair<T> x,
                     Pair<T> other) const = 0;

  /// A range of as many sequences as there are lanes, or fewer at the end of a run; empty behind the last range.
  struct Range {
    std::int64_t first, count;
  };
  Range range(std::int64_t index) const {
    if (index >= ranges_) return {from_[0].count(), 0};
    const std::int64_t in_run = index % ranges_of_run() * kernels_.lanes;
    return {index / ranges_of_run() * run_ + in_run, std::min(kernels_.lanes, run_ - in_run)};
  }
  void gather(std::size_t operand, Range range, std::span<const void* const> inputs, T* to) const {
    std::array<std::int64_t, fourier::kMostLanes> starts{};
    kernels_.gather(static_cast<const T*>(inputs[operand]), from_[operand].places(range.first, range.count, &starts[0]),
                    from_[operand].points(), to);
  }
  void scatter(const T* part, std::size_t result, Range range, std::span<void* const> outputs) const {
    std::array<std::int64_t, fourier::kMostLanes> starts{};
    kernels_.scatter(part, to_[result].points(), static_cast<T*>(outputs[result]),
                     to_[result].places(range.first, range.count, &starts[0]));
  }
  void clear(T* array, std::int64_t points) const { std::fill(array, array + points * kernels_.lanes, T(0)); }

  const fourier::KernelsOf<T>& kernels_ = fourier::kernels_of_this_machine().of(T());
  std::string name_;
  std::vector<Sequences> from_, to_;
  std::optional<fourier::Transform<T>> transform_;

 private:
  Sequences sequences(const BoundView& view) const {
    if (dim_ >= view.sizes.size()) fail("{}: an operand has no dimension {}", name_, dim_);
    return {view, dim_};
  }
  /// Elements of an array of vectors. The half of a transform is a point longer than half of it.
  std::int64_t array() const { return std::max<std::int64_t>(transform_->room(), 2) * kernels_.lanes; }

  std::int64_t ranges_of_run() const { return (run_ + kernels_.lanes - 1) / kernels_.lanes; }

  std::size_t dim_;
  std::int64_t run_ = 0;  ///< sequences that ranges do not go beyond: those side by side, or all
  std::int64_t ranges_ = 0, blocks_ = 0;
  int workers_ = 1;
};

template <class T>
class Fourier final : public FourierOf<T> {
 public:
  explicit Fourier(const Attributes& a)
      : FourierOf<T>(library_ops::fourier::kName, a), backwards_(read(a, library_ops::fourier::kBackwards)) {}

 private:
  using typename FourierOf<T>::Range;

  std::int64_t length() const override { return this->from_[0].points(); }
  bool in_pairs() const override { return this->from_.size() == 1; }
  bool fits() const override {
    const std::int64_t whole = length(), made = this->to_[0].points();
    return this->from_.back().points() == whole && this->to_[1].points() == made &&
           (made == whole || (in_pairs() && made == whole / 2 + 1));
  }

  Pair<T> transformed(Pair<T> x, Pair<T> other) const {
    return backwards_ ? this->transform_->run_backwards(x, other) : this->transform_->run(x, other);
  }

  void block(std::int64_t index, std::span<const void* const> inputs, std::span<void* const> outputs, Pair<T> x,
             Pair<T> other) const override {
    if (in_pairs()) return two_real_ones(index, inputs, outputs, x, other);
    const Range range = this->range(index);
    this->gather(0, range, inputs, x.re);
    this->gather(1, range, inputs, x.im);
    const Pair<T> made = transformed(x, other);
    this->scatter(made.re, 0, range, outputs);
    this->scatter(made.im, 1, range, outputs);
  }

  void two_real_ones(std::int64_t index, std::span<const void* const> inputs, std::span<void* const> outputs, Pair<T> x,
                     Pair<T> other) const {
    const std::array<Range, 2> ranges{this->range(2 * index), this->range(2 * index + 1)};
    this->gather(0, ranges[0], inputs, x.re);
    this->gather(0, ranges[1], inputs, x.im);
    const Pair<T> both = transformed(x, other), one = both.re == x.re ? other : x;
    for (std::size_t i = 0; i < ranges.size() && ranges[i].count > 0; ++i) {
      this->kernels_.take_apart({both.re, both.im}, length(), i == 1, this->to_[0].points(), one);
      this->scatter(one.re, 0, ranges[i], outputs);
      this->scatter(one.im, 1, ranges[i], outputs);
    }
  }

  bool backwards_;
};

template <class T>
class FourierToReal final : public FourierOf<T> {
 public:
  explicit FourierToReal(const Attributes& a) : FourierOf<T>(library_ops::fourier::kToRealName, a) {}

 private:
  using typename FourierOf<T>::Range;

  std::int64_t length() const override { return this->to_[0].points(); }
  bool in_pairs() const override { return true; }
  bool fits() const override {
    const auto is_half = [&](const Sequences& s) { return s.points() == length() / 2 + 1; };
    return std::ranges::all_of(this->from_, is_half);
  }

  void block(std::int64_t index, std::span<const void* const> inputs, std::span<void* const> outputs, Pair<T> x,
             Pair<T> other) const override {
    const std::array<Range, 2> ranges{this->range(2 * index), this->range(2 * index + 1)};
    for (std::size_t i = 0; i < ranges.size() && (i == 0 || ranges[i].count > 0); ++i) {
      this->gather(0, ranges[i], inputs, other.re);
      if (this->from_.size() > 1)
        this->gather(1, ranges[i], inputs, other.im);
      else
        this->clear(other.im, this->from_[0].points());
      this->kernels_.put_together({other.re, other.im}, length(), i == 1, x);
    }
    const Pair<T> made = this->transform_->run_backwards(x, other);
    this->scatter(made.re, 0, ranges[0], outputs);
    this->scatter(made.im, 0, ranges[1], outputs);
  }
};

const DefineLibraryOps kFourier({{library_ops::fourier::kName, call_site<ByElementType<Fourier>>},
                                 {library_ops::fourier::kToRealName, call_site<ByElementType<FourierToReal>>}});

}  // namespace
}  // namespace coil::runtime
