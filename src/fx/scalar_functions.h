// Python's scalar functions as graphs call them on symbolic numbers: `_operator.add`, `torch.sym_max`, `math.floor`, …
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ops/value.h"

namespace coil::fx {

struct ScalarCall {
  const ops::Values& args;
  const std::string& node;  ///< names a float that is known only at run time
};
using ScalarFunction = std::function<ops::Value(const ScalarCall&)>;

/// Exact on integers, bools and constant floats; a float that is made of sizes is a `SymFloat` that says how, one that
/// is made of data no more than its node's name. Null for an unknown target.
const ScalarFunction* find_scalar_function(std::string_view target);

}  // namespace coil::fx
