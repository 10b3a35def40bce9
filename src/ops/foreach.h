// Operators on lists of tensors (`_foreach_add.List`), as the operator that each item of the lists goes through.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/registry.h"

namespace coil::ops {

/// What a call on lists does to each item: one operator, and its arguments for each place in the lists.
struct ForeachItems {
  std::string target;  ///< `aten.add.Tensor`, or `aten.add_.Tensor` for a form in place
  std::vector<Values> args;
};

bool is_foreach(std::string_view target);
/// The items of a call with arguments in schema order; lists are of equal length. Throws Error where they are not.
ForeachItems foreach_items(const Operator&, const Values& args);

}  // namespace coil::ops
