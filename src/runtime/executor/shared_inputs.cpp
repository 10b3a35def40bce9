#include "runtime/executor/shared_inputs.h"

#include <algorithm>

#include "runtime/views/strided_copy.h"

namespace coil::runtime {

SharedInputs::Range SharedInputs::range(const Tensor& t) {
  const std::int64_t span = layout_span(t.sizes, t.strides);
  return {t.bytes(), t.bytes() + span * static_cast<std::int64_t>(size_of(t.dtype)), false};
}

/// Whether any inputs share memory that is written to, by a sweep over memory: each range against the furthest end
/// before it.
bool SharedInputs::any(std::span<const Tensor> inputs) {
  ranges_.clear();
  for (const Tensor& t : inputs) ranges_.push_back(range(t));
  for (std::size_t m : mutated_) ranges_[m].mutated = true;
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const std::byte *all = nullptr, *written = nullptr;
  for (const Range& r : ranges_) {
    if (r.begin == r.end) continue;
    if (r.begin < written || (r.mutated && r.begin < all)) return true;
    all = std::max(all, r.end);
    if (r.mutated) written = std::max(written, r.end);
  }
  return false;
}

const std::vector<char>& SharedInputs::find(std::span<const Tensor> inputs) {
  found_.assign(inputs.size(), false);
  if (mutated_.empty() || inputs.size() < 2 || !any(inputs)) return found_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Range mine = range(inputs[i]);
    for (std::size_t m : mutated_) {
      if (m >= i && std::binary_search(mutated_.begin(), mutated_.end(), i)) break;
      const Range other = range(inputs[m]);
      if (m != i && mine.begin < other.end && other.begin < mine.end) found_[i] = true;
    }
  }
  return found_;
}

}  // namespace coil::runtime
