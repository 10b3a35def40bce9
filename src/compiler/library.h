// Operators of the user's own: schema, shape, implementation and decomposition of each, told to every part of the
// compiler and the runtime that asks.
#pragma once
#include <string>
#include <string_view>

#include "coil/coil.h"
#include "ops/registry.h"
#include "passes/graph/decompositions/rewriter.h"
#include "runtime/host/operators.h"

namespace coil {

/// What is known of an operator; each may be left out.
struct Definition {
  ops::ShapeFunction
      shape;  ///< metadata of its results, with symbolic sizes; without it, what an archive recorded is taken
  runtime::OperatorFunction implementation;  ///< on the CPU, in this process; another that runs the package registers
                                             ///< its own (coil_operator_register)
  passes::Decomposition decomposition;       ///< in operators that Coil has; the implementation is not called then
  runtime::ResultsFunction results;  ///< instead of the implementation where a result has a size that only the operator
                                     ///< tells (in `shape`, a new unbacked symbol)
  bool random = false, side_effect = false;  ///< never merged or folded; kept though nothing uses its result
};

class COIL_API Library {
 public:
  /// Operators of `name_space::`. Throws Error on `aten` and `prims`, which are torch's.
  explicit Library(std::string name_space);
  /// Defines `scale(Tensor x, float by=1.0) -> Tensor`, with or without the namespace in front, in torch's notation.
  /// Throws Error on a schema that cannot be read, one that returns views of its arguments, and a name that is taken.
  /// One that writes to its arguments (`Tensor(a!)`) is given copies to write to, of which the program makes what eager
  /// would. Definitions last as long as the process.
  Library& define(std::string_view schema, Definition = {});
  /// Says that these arguments of an operator of this library (`push`, `push.out`), tensors or lists of tensors, must
  /// lie in memory that the ranks of a process group share: programs make them there (docs/distribution.md). The group
  /// is the one that the operator's argument `group_name` or `group` names, else that of all processes. Throws Error as
  /// runtime::register_symm_mem_args does, and on an operator that is not defined.
  Library& register_symm_mem_args(std::string_view op, std::vector<std::string> names);

 private:
  std::string name_space_;
};

/// Throws Error on a schema that cannot be read, and on one that Library refuses.
void check_schema(std::string_view schema);

/// Makes the compiler know every operator that was registered with the runtime alone, by its schema. Throws Error
/// naming one that cannot be read.
void declare_registered_operators();

}  // namespace coil
