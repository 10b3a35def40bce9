// Operator schemas in torch's own notation: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/value.h"

namespace coil::ops {

enum class TypeKind : std::uint8_t {
  Tensor,
  Int,
  Float,
  Bool,
  Scalar,
  String,
  DType,
  Layout,
  Device,
  MemoryFormat,
  Generator,
  Other
};

struct Type {
  TypeKind kind = TypeKind::Tensor;
  bool optional = false;        ///< `Tensor?`, `int[]?`
  bool list = false;            ///< `int[]`, `Tensor[]`
  bool optional_items = false;  ///< `Tensor?[]`
  int list_size = 0;            ///< `int[2]` is 2: a single value is taken for the whole list; 0 when any length
};

/// `Tensor(a!)`: the alias set, and whether it is written to.
struct Alias {
  std::string set;
  bool write = false;
};

struct Parameter {
  std::string name;
  Type type;
  std::optional<Value> fallback;  ///< the default
  std::optional<Alias> alias;
  bool keyword_only = false;
};

struct Schema {
  std::string target;  ///< `aten.add.Tensor`, `aten.relu.default`
  std::vector<Parameter> parameters, returns;
  /// Index of a parameter; throws Error if there is none of that name.
  std::size_t index(std::string_view name) const;
  bool is_mutating() const;  ///< some parameter is `(a!)`
  bool is_view() const;      ///< some return is `(a)`, none written
};

/// Throws Error with the position of the fault.
Schema parse_schema(std::string_view text);
std::string to_string(const Schema&);

}  // namespace coil::ops
