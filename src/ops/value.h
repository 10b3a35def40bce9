// The values that operators take and give: one type for arguments in a graph, for metadata, and for defaults in
// schemas.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sym/tensor_meta.h"

namespace coil::fx {
class Node;
const std::string& name_of(const Node&);  // defined with Node, in fx/graph.cpp: all that values know of nodes
}  // namespace coil::fx

namespace coil::ops {

using sym::Expr;
using sym::Exprs;
using sym::TensorMeta;

enum class MemoryFormat : std::uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
enum class TensorLayout : std::uint8_t { Strided, Sparse };

/// Absence: Python's None.
struct None {
  bool operator==(const None&) const = default;
};
/// A boolean that may be symbolic; plain `True` is the constant 1.
struct Bool {
  Expr condition;
  bool operator==(const Bool&) const = default;
};
/// A float computed at run time from sizes or read out of a tensor, known by the name of the node that makes it; of one
/// that sizes tell, `value` says how (sym/floats.h).
struct SymFloat {
  std::string name;
  std::optional<Expr> value = {};
  bool operator==(const SymFloat&) const = default;
};
/// A nested graph of the same module, by name (operands of cond, while_loop, …).
struct GraphRef {
  std::string name;
  bool operator==(const GraphRef&) const = default;
};

struct Value;
class Values : public CheckedVector<Value> {
 public:
  using CheckedVector::CheckedVector;
};

/// Integers, symbolic or not, are `Expr`. `fx::Node*` occurs in a graph's arguments; `TensorMeta` in metadata and in
/// calls of shape functions, where it stands for the node.
struct Value : std::variant<None, Bool, Expr, double, std::string, DType, Device, MemoryFormat, TensorLayout, SymFloat,
                            GraphRef, fx::Node*, TensorMeta, Values> {
  using variant::variant;
  Value(const char* s) : variant(std::string(s)) {}
  Value(bool b) : variant(Bool{b ? 1 : 0}) {}
  Value(int i) : variant(Expr(i)) {}
  Value(std::int64_t i) : variant(Expr(i)) {}
  Value(const Exprs& list) : variant(Values(list.begin(), list.end())) {}

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(static_cast<const variant*>(this));
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(static_cast<variant*>(this));
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(*static_cast<const variant*>(this));
  }
  bool is_none() const { return is<None>(); }

  // Each throws Error naming what was found instead.
  Expr as_int() const;       ///< an integer, or a bool as 0 or 1
  bool as_bool() const;      ///< a constant bool
  double as_double() const;  ///< a float, or a constant integer
  const std::string& as_string() const;
  DType as_dtype() const;
  const TensorMeta& as_tensor() const;
  fx::Node* as_node() const;
  const Values& as_list() const;
  Exprs as_ints() const;  ///< a list of integers; a single integer counts as a list of one
};

/// A number as an operand of functions of floats (sym/floats.h), where it is known without running the program.
std::optional<Expr> float_of(const Value&);

/// Calls `f` on every node in a value, nested lists included.
template <class V, class F>
void for_each_node(V& value, F&& f) {
  if (auto* n = value.template get_if<fx::Node*>())
    f(*n);
  else if (auto* list = value.template get_if<Values>())
    for (auto& v : *list) for_each_node(v, f);
}

/// Visits the symbols of unbacked sizes in a value: in a number, in a tensor's sizes and strides, in lists of these.
void for_each_unbacked(const Value&, const std::function<void(Expr)>& f);

/// `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`: torch's names.
std::string_view name_of(MemoryFormat);
/// `strided`, `sparse_coo`.
std::string_view name_of(TensorLayout);

/// A value as text IR prints it, nodes by `%name`: `%x`, `[1, s0]`, `1.0`, `True`, `f32`, `None`, `"gelu"`, `cpu`,
/// `channels_last`, `Bool(s0 < 4)`, `SymFloat(mul)`, `@subgraph`, metadata as `f32[2, s0]`.
std::string to_string(const Value&);
/// A float that reads back as the same float: `1.0`, `1e-05`, `-inf`, `nan`.
std::string to_string(double);
/// In double quotes, with `\\`, `\"`, `\n`, `\t` and `\xHH` where needed.
std::string quote(std::string_view);

}  // namespace coil::ops
