// What a plan asks of its inputs, and which of their properties a binding depends on.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/bound_plan.h"
#include "runtime/plan/plan.h"

namespace coil::runtime {

class InputGuards {
 public:
  explicit InputGuards(const Plan&);

  /// Whether the plan computes with the value of input `index`, which then must be on the host.
  bool reads_value(std::size_t index) const { return reads_value_[index]; }
  /// Whether it does so with any.
  bool reads_values() const { return reads_values_; }

  /// Throws Error, in the user's terms, unless there are as many as the plan takes.
  void check_count(std::size_t given) const {
    if (given != plan_.inputs.size()) refuse_count(given);
  }
  /// Throws Error likewise for other dtypes and ranks, and for memory of values. There are as many inputs as the plan
  /// takes, here and below.
  void check(std::span<const Tensor> given) const;
  /// Sizes and strides as kernels assume them, which `slots` have; throws Error where other sizes are given.
  void bind(std::span<const Tensor> given, std::span<const std::int64_t> slots, std::vector<BoundInput>&) const;
  /// Whether a binding for inputs that looked like `seen` does for these.
  bool hold(const std::vector<SeenInput>& seen, std::span<const Tensor> given) const;
  void remember(std::span<const Tensor> given, std::vector<SeenInput>& seen) const;

 private:
  [[noreturn]] void refuse_count(std::size_t given) const;

  const Plan& plan_;
  std::vector<bool> reads_stride_, reads_value_;  ///< for each input: the shape program reads its strides, its value
  bool reads_values_ = false;
};

/// A tensor's dtype and sizes, for messages.
std::string describe(const Tensor&);

}  // namespace coil::runtime
