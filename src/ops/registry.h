// The operators Coil knows: schema and shape function of each, one table for the process.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/schema.h"
#include "sym/shape_env.h"

namespace coil::ops {

struct Operator;

/// One call, as a shape function sees it: exactly one value per parameter of the schema, defaults filled in,
/// `TensorMeta` for tensors and `Expr` for symbolic ints where the graph has nodes.
struct Call {
  const Operator& op;
  const Values& args;
  sym::ShapeEnv& env;

  const Value& operator[](std::size_t i) const { return args[i]; }
  const Value& operator[](std::string_view name) const;
  const TensorMeta& tensor(std::size_t i) const { return args[i].as_tensor(); }
};

/// Metadata of the result: a TensorMeta, an Expr or Bool, Values of those for several results, None for none.
/// Must give eager's dtype, sizes, strides and offset (torch/_meta_registrations.py and the native meta functions are
/// the reference); throws Error when eager would.
using ShapeFunction = std::function<Value(const Call&)>;

struct Operator {
  Schema schema;
  ShapeFunction shape;
  bool random = false;       ///< draws from a generator: never merged, never folded
  bool side_effect = false;  ///< kept though nothing uses its result (asserts)
};

/// The operator of this target (`aten.add.Tensor`), or null.
const Operator* find(std::string_view target);
/// All targets, sorted.
std::vector<std::string> targets();

/// Defines an operator by schema text. Used by the tables in ops/ and by `Library` at run time; throws Error on a
/// duplicate. This is the one global table; it is locked, and entries are never moved or removed.
const Operator& define(std::string_view schema, ShapeFunction shape, bool random = false, bool side_effect = false);

/// Makes sure that the built-in tables are registered (they are functions that this calls once; `find` calls it too).
void register_builtin();

/// Arguments in schema order from positional and named ones, defaults filled in, single values spread where the schema
/// says `int[2]`. Throws Error naming a missing, unknown or repeated argument.
Values normalize(const Operator&, Values positional, std::vector<std::pair<std::string, Value>> named);

}  // namespace coil::ops
