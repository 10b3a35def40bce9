// How the operations of loop bodies are spelled in Triton.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "ir/scalar.h"

namespace coil::codegen {

/// A value of the operation, with {0}, {1}, {2} for its operands. A plain one is made of Triton's operators, which take
/// literals as they are; functions take constants with a type.
struct TritonSpelling {
  std::string_view text;
  bool plain = false;
  bool blocks = false;  ///< of blocks alone, not of single numbers
};
/// Nothing where Triton has no such function that is right. `coarse`: to some 2^-16 of the value (codegen/coarse.h).
std::optional<TritonSpelling> triton_spelling(ir::ScalarOp, DType operand, bool coarse = false);

/// `tl.float32`; what a value is in registers, or in memory.
std::string triton_type(DType);
/// What a signature calls it: `fp32`, `i1`; empty for types that Triton lacks or has on some GPUs only.
std::string_view triton_signature(DType);

std::string triton_literal(ir::Scalar constant);

}  // namespace coil::codegen
