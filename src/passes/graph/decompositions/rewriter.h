// What decompositions are written in: calls with metadata, and the small steps that many of them share.
#pragma once
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fx/graph.h"
#include "support/error.h"
#include "target/target.h"

namespace coil::passes {

using ops::None;
using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;
using sym::TensorMeta;

/// The rewriting of one node. Calls go in front of it and inherit its provenance.
class Rewriter {
 public:
  Rewriter(fx::GraphModule& module, fx::Node* node, const target::Target& target = target::host())
      : module(module), node(node), target(target) {}
  fx::GraphModule& module;
  fx::Node* node;
  const target::Target& target;
  /// Whether the value lies on the target's device already, and the target has the feature.
  bool has_on_device(const Value& x, target::Feature feature) const {
    return meta(x).device == target.device && target.has(feature);
  }

  // The node's own arguments and result.

  const Value& operator[](std::string_view name) const { return node->arg(name); }
  bool has(std::string_view name) const;  ///< the schema has it and it is not None
  Value optional(std::string_view name) const { return has(name) ? (*this)[name] : Value(None{}); }
  bool flag(std::string_view name) const;  ///< a constant bool; false when absent
  std::int64_t number(std::string_view name) const;
  double real(std::string_view name) const;
  /// A dimension argument, wrapped to the rank of the first tensor (or `rank`).
  std::int64_t dim(std::string_view name, std::size_t rank) const;
  const TensorMeta& result() const { return node->tensor(); }
  const TensorMeta& result(std::size_t i) const { return node->meta.value.as_list().at(i).as_tensor(); }

  // Building.

  fx::Node* call(std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named = {});
  /// One result of a call that has several.
  fx::Node* item(fx::Node* call, std::int64_t index);
  /// The device of the first tensor among the arguments.
  Device device() const;
  const TensorMeta& meta(const Value& tensor) const { return tensor.as_node()->tensor(); }
  std::size_t rank(const Value& tensor) const { return meta(tensor).rank(); }
  DType dtype(const Value& tensor) const { return meta(tensor).dtype; }
  /// Integers that may be nodes, as expressions.
  Exprs ints(const Value& list) const;
  Expr integer(const Value&) const;

  /// In another element type; itself when it has it.
  Value to(const Value& tensor, DType);
  /// In f32 when it is narrower floating: what eager's kernels compute in.
  Value widened(const Value& tensor);
  /// A view where strides allow, else a dense copy seen in these sizes; itself when the sizes are its own.
  Value reshape(const Value& tensor, const Exprs& sizes);
  Value expand(const Value& tensor, const Exprs& sizes);
  Value permute(const Value& tensor, const std::vector<std::int64_t>& order);
  Value unsqueeze(const Value& tensor, std::int64_t dim) { return call("aten.unsqueeze.default", {tensor, dim}); }
  Value slice(const Value& tensor, std::int64_t dim, Expr start, Expr end);
  Value contiguous(const Value& tensor);
  /// A zero-dimensional or larger tensor filled with a number.
  Value full(const Exprs& sizes, const Value& number, DType, std::optional<Device> = std::nullopt);
  /// 0, 1, …, n-1.
  Value iota(Expr n, DType = DType::I64);
  Value add(const Value& a, const Value& b) { return call("aten.add.Tensor", {a, b}); }
  Value sub(const Value& a, const Value& b) { return call("aten.sub.Tensor", {a, b}); }
  Value mul(const Value& a, const Value& b) { return call("aten.mul.Tensor", {a, b}); }
  Value div(const Value& a, const Value& b) { return call("aten.div.Tensor", {a, b}); }
  Value where(const Value& condition, const Value& yes, const Value& no);
  Value sum(const Value& tensor, const std::vector<std::int64_t>& dims, bool keepdim = false);

  /// Refuses the node in the user's terms.
  [[noreturn]] void refuse(std::string_view reason) const;
  /// The same where the values of the sizes in an expression would do (sym::NeedsValue).
  [[noreturn]] void refuse_free(std::string_view reason, const Expr&) const;
  Error refusal(std::string_view reason) const;
};

/// Gives what replaces the node: a node, Values of nodes for several results, None to leave it as it is.
using Decomposition = std::function<Value(Rewriter&)>;
using DecompositionTable = std::unordered_map<std::string_view, Decomposition>;

/// Values of dimensions, for arguments.
Value dims_value(const std::vector<std::int64_t>&);

// One for each file of this folder.
void decompose_attention(DecompositionTable&);
void decompose_views(DecompositionTable&);
void decompose_casts(DecompositionTable&);
void decompose_creation(DecompositionTable&);
void decompose_pointwise(DecompositionTable&);
void decompose_random(DecompositionTable&);
void decompose_makers(DecompositionTable&);
void decompose_indexing(DecompositionTable&);
void decompose_reductions(DecompositionTable&);
void decompose_normalization(DecompositionTable&);
void decompose_linalg(DecompositionTable&);
void decompose_convolution(DecompositionTable&);
void decompose_resampling(DecompositionTable&);
void decompose_losses(DecompositionTable&);
void decompose_recurrent(DecompositionTable&);
void decompose_fourier(DecompositionTable&);
void decompose_composites(DecompositionTable&);
void decompose_gradients(DecompositionTable&);

}  // namespace coil::passes
