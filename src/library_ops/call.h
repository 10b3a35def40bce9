// Views over a library call that name what its operands and attributes are: over a call of the IR, of the wrapper or of
// a plan, or over what the runtime hands to an operation, all of which have `attributes`, `inputs` and `outputs`.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "library_ops/attribute.h"
#include "library_ops/post_ops.h"

namespace coil::library_ops {

/// Post-operations that a call has, in order.
inline constexpr Texts kPost{.name = "post",
                             .sentence = "Post-operations, in order: each its name and its numbers, joined by colons.",
                             .presence = Presence::Optional};

template <class Call>
class CallView {
 public:
  explicit CallView(Call& call) : call_(&call) {}

 protected:
  decltype(auto) value(const auto& key) const { return read(call_->attributes, key); }
  auto& input(std::size_t k) const { return call_->inputs[k]; }
  auto& output(std::size_t k) const { return call_->outputs[k]; }

  Call* call_;
};

}  // namespace coil::library_ops
