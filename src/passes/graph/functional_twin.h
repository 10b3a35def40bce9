// The operator without side effects that computes what an in-place one writes: `aten.add.Tensor` for
// `aten.add_.Tensor`.
#pragma once
#include <optional>
#include <vector>

#include "fx/graph.h"

namespace coil::passes {

struct FunctionalTwin {
  const ops::Operator* op =
      nullptr;  ///< null: an operator from outside, which the host calls with copies to write to (ops/outside.h)
  /// Parameters of the in-place operator that are written, in the order in which the twin gives their new values.
  std::vector<std::size_t> written;
  /// How many of the twin's results come before those values: results that the in-place operator has besides them.
  std::size_t own_results = 0;
};

/// Nothing when the operator writes to none of its arguments. Operators that eager lets write without a schema that
/// says so (`batch_norm` in training) count as in-place. Throws Error when an operator of torch's has no such form.
std::optional<FunctionalTwin> functional_twin(const fx::Node&);

/// The twin's arguments by name, out of the in-place call's arguments.
std::vector<std::pair<std::string, ops::Value>> twin_arguments(const FunctionalTwin&, const fx::Node&);

}  // namespace coil::passes
