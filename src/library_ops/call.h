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

/// What an operand that is made where it is read consists of.
inline constexpr Text kPre{
    .name = "pre",
    .sentence =
        "Each element of the first operand as it is multiplied, in the words of the loop IR (f32, then rounded "
        "to the second operand's type): `load(buf0, [])` is the element of `a`, buf1 and on those of the "
        "operands behind all others. Not given where it is `a` itself.",
    .presence = Presence::Optional};
inline constexpr Integer kPreOperands{.name = "pre_operands",
                                      .sentence = "How many operands `pre` reads beside the first."};

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
