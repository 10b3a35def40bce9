// Arguments of a call that Coil leaves to its host: values with tensors by position.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "ops/value.h"

namespace coil::ops {

/// The tensor at this place among a call's inputs.
struct Operand {
  std::size_t index = 0;
  bool operator==(const Operand&) const = default;
};

struct CallArgument;
using CallArguments = std::vector<CallArgument>;

/// Integers may be symbolic; a Bool is a constant.
struct CallArgument : std::variant<None, bool, Expr, double, std::string, DType, Device, MemoryFormat, TensorLayout,
                                   Operand, CallArguments> {
  using variant::variant;
};

/// An argument with its keyword; none for one given by position.
struct NamedArgument {
  std::string keyword;
  CallArgument value;
};

/// `%0, [1, s0], dtype=f32`: operands by number.
std::string to_string(const std::vector<NamedArgument>&);
/// Calls `f` on every integer in them.
void for_each_integer(const CallArgument&, const std::function<void(Expr)>& f);

}  // namespace coil::ops
