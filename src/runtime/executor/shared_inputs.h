// Inputs that lie in one another's memory, where the program writes to one of them.
#pragma once
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace coil::runtime {

/// A program computes as if each input had memory of its own: what it writes to one is not seen in another before the
/// run ends.
class SharedInputs {
 public:
  /// `mutated`: those that the program writes to, ascending.
  explicit SharedInputs(std::vector<std::size_t> mutated) : mutated_(std::move(mutated)) {}

  /// Which inputs need memory of their own for this run: those that overlap one that is written to. Of two that are
  /// written to, the later; `result[i]` is false throughout, and no memory is allocated, where none do.
  const std::vector<char>& find(std::span<const Tensor> inputs);

 private:
  struct Range {
    const std::byte *begin, *end;
    bool mutated;
  };
  static Range range(const Tensor&);
  bool any(std::span<const Tensor> inputs);

  std::vector<std::size_t> mutated_;
  std::vector<Range> ranges_;
  std::vector<char> found_;
};

}  // namespace coil::runtime
