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
/// Whether elements of a type are bytes in Triton, which has such types on some GPUs only.
inline bool is_float8(DType d) { return d == DType::F8E4M3 || d == DType::F8E5M2; }
/// An element of that type, as it came from memory, as the value that kernels compute with.
std::string triton_loaded(const std::string& element, DType);
/// A value as it is stored to memory of that type.
std::string triton_stored(const std::string& value, DType);
/// What a signature calls it: `fp32`, `i1`; empty for types that Triton lacks.
std::string_view triton_signature(DType);

std::string triton_literal(ir::Scalar constant);

}  // namespace coil::codegen
