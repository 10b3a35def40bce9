// What the export schema says about values: element types, devices, symbolic sizes, metadata of tensors and numbers.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontend/json.h"
#include "ops/value.h"
#include "sym/shape_env.h"

namespace coil::frontend {

DType read_dtype(const Json&);
Device read_device(const Json&);
ops::MemoryFormat read_memory_format(const Json&);
ops::TensorLayout read_layout(const Json&);

/// The size symbols of one archive. Each is added to the environment when first met, with the range and the hint that
/// the archive records.
class Symbols {
 public:
  explicit Symbols(sym::ShapeEnv& env) : env_(env) {}
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  /// Takes note of ranges (`range_constraints`) and of the hints of a graph's values; called before anything of the
  /// graph is read.
  void note_ranges(const Json& range_constraints);
  void note_hints(const Json& graph);
  /// Ranges of expressions (`2*s0`) become facts, once the symbols in them are there.
  void learn_ranges_of_expressions();

  sym::Expr read_int(const Json& sym_int);
  ops::Value read_bool(const Json& sym_bool);
  /// A constant, or the node's own name.
  ops::Value read_float(const Json& sym_float, std::string_view node);
  sym::TensorMeta read_tensor(const Json& tensor_meta);

 private:
  sym::Expr parse(const Json& expression);
  sym::Expr define(std::string_view name);
  void solve_hints();
  sym::ShapeEnv& env_;
  std::map<std::string, sym::Range, std::less<>> ranges_;
  std::map<std::string, std::int64_t, std::less<>> hints_;             ///< of symbols
  std::map<std::string, std::int64_t, std::less<>> expression_hints_;  ///< of expressions, as written
  std::unordered_map<std::string, sym::Expr> parsed_;
};

}  // namespace coil::frontend
