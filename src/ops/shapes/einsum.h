// einsum as eager performs it, in terms of permute, sum, reshape, mul and bmm: one text for the shape function and the
// decomposition.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/shapes/common.h"

namespace coil::ops::shapes {

/// How the steps are carried out: on metadata, or by building a graph.
struct Steps {
  std::function<Value(std::string_view target, Values args)> call;
  std::function<const TensorMeta&(const Value&)> meta;
};

/// The result of `torch.einsum(equation, operands)`, contracted left to right (ATen/native/Linear.cpp). Throws Error on
/// an equation that does not fit the operands.
Value einsum(std::string_view equation, const Values& operands, const Steps&);

/// An equation of two operands that is one product of matrices for each place in a batch. Orders are those of permute.
struct MatrixProduct {
  std::vector<std::size_t> left;   ///< brings the left operand to [batch.., row, summed]
  std::vector<std::size_t> right;  ///< the right one to [batch.., summed, column]; `turned`: [batch.., column, summed]
  bool turned = false;
  std::vector<std::size_t> result;  ///< [batch.., row, column] to the result's order
};

/// Nothing for other equations, for those without batch, with an ellipsis or a subscript twice in one operand, and
/// where columns come before rows in the result, which eager computes as the product of the operands in turn.
std::optional<MatrixProduct> matrix_product(std::string_view equation);

}  // namespace coil::ops::shapes
