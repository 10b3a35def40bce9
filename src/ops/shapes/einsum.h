// einsum as eager performs it, in terms of permute, sum, reshape, mul and bmm: one text for the shape function and the
// decomposition.
#pragma once
#include <functional>
#include <string>

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

}  // namespace coil::ops::shapes
