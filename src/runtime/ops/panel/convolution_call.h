// What convolutions in f32 by loops of Coil's own share: operands in the layouts that they read, post-operations, and
// threads with scratch memory of their own.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/ops/convolution.h"
#include "runtime/ops/panel/gemm.h"
#include "runtime/ops/panel/kernels.h"
#include "runtime/ops/panel/window_phases.h"

namespace coil::runtime::panels {

/// Cache lines of the next panel that each strip prefetches, spread evenly over the strips.
struct Ahead {
  const char* at;
  std::int64_t left, rate;
  Ahead(const float* from, std::int64_t floats, std::int64_t turns)
      : at(reinterpret_cast<const char*>(from)), left(floats / 16), rate((left + turns - 1) / turns) {}
  void give(Strip& s) {
    if (left <= 0) return;
    s.ahead = at;
    s.lines = static_cast<int>(rate);
    const std::int64_t fetched = rate * std::max<std::int64_t>(1, s.k / 4);
    at += fetched * 64;
    left -= fetched;
  }
};

/// Whether so many results are made of a weight that is not packed that it may be brought into another form in each
/// call.
bool is_worth_packing(const ConvolutionProblem&);
/// The whole weight, of p's sizes, with dense `strides`; `desc` says so in calls.
Packed pack_whole(const ConvolutionProblem&, const Tensor& weight, std::string_view desc, const Sizes& strides);
/// Throws Error where a packed weight has too few bytes for that.
void check_packed_whole(const ConvolutionProblem&);

class ConvolutionCall : public PreparedCall {
 public:
  std::size_t workspace_bytes() const final { return staging_.bytes(); }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) final;

 protected:
  /// x comes channels-last, and y is made in `form`. A weight that is not packed is brought into `weight` in each call.
  ConvolutionCall(const ConvolutionProblem&, const BoundView& form, const BoundView& weight = {});
  /// For the constructors of derived classes: the post-operations, whose operands `post_operand` describes; y itself,
  /// where one adds to it, has its rows `y_step` apart.
  void describe_post(const ConvolutionProblem&, std::int64_t y_step);
  /// For the constructors of derived classes, as their last step: divides the work, which takes so many
  /// multiplications, into `parts`, and gives each thread so much scratch memory.
  void divide_among_threads(std::int64_t parts, std::int64_t multiplications, std::int64_t scratch_floats);

  virtual Staging::Operand post_operand(const BoundView& given, std::size_t index, Post& made) = 0;
  /// Parts of the work from `begin` to `end`, by one thread.
  virtual void run_parts(std::int64_t begin, std::int64_t end, float* scratch) const = 0;

  /// For `post_operand` where y is made channels-last: one value for each channel, one for all, or as many as y has, in
  /// rows `y_step` apart.
  Staging::Operand operand_by_rows(const BoundView& given, std::size_t index, Post& made, std::int64_t y_step);
  /// The tensor itself if it lies in `form`, else a copy that does.
  Staging::Operand input(std::size_t index, const BoundView& given, const BoundView& form);
  template <class T>
  T* pointer(Staging::Operand o) const {
    return static_cast<T*>(pointers_[o]);
  }

  const Kernels& kernels_ = kernels_of_this_machine();
  Places from_, to_;  ///< sizes of x's and y's spatial dimensions
  Staging staging_;
  Staging::Operand x_ = 0, weight_ = 0, y_ = 0;
  std::optional<Staging::Operand> bias_;
  std::vector<Post> post_;

 private:
  std::vector<std::optional<Staging::Operand>> post_operands_;
  Staging::Operand scratch_ = 0;
  std::int64_t parts_ = 0, scratch_floats_ = 0;
  int threads_ = 1;
  std::vector<void*> pointers_;
};

}  // namespace coil::runtime::panels
