// A value of operands at one point (ir/point_function.h) as lines of device code.
#pragma once
#include <span>
#include <string>

#include "codegen/cuda/dialect.h"
#include "ir/scalar.h"

namespace coil::codegen {

struct PointValue {
  std::string lines;  ///< each a definition, behind this much white space
  std::string value;  ///< the name or the literal of the result
};

/// `operands`: expressions for the loads of buffers 0, 1, …, in register types.
PointValue point_value(const Dialect&, ir::Scalar, std::span<const std::string> operands, std::string_view indent);

}  // namespace coil::codegen
