// The memory through which the kernels that sort long rows digit by digit count digits, and through which a digit's
// blocks tell each other what they hold: all zeros before.
#pragma once
#include "sym/expr.h"
#include "tensor/dtype.h"

namespace coil::ir {

/// Whether elements are sorted as unsigned numbers of the same order.
inline bool has_digits(DType d) {
  switch (d) {
    case DType::F32:
    case DType::F64:
    case DType::F16:
    case DType::BF16:
    case DType::Bool:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64: return true;
    default: return false;
  }
}

/// In words: one for each digit that counts the blocks begun, and for each row and digit the number of elements that
/// have each of its values, in the row and then in each tile of it.
struct RadixState {
  static constexpr std::int64_t kTile = 4096, kValues = 256, kHead = 16;
  /// Words have 32 bits where two of them are left over by every count of a row, else 64.
  static constexpr std::int64_t kMostNarrow = (std::int64_t{1} << 30) - 1;
  sym::Expr tiles;
  explicit RadixState(sym::Expr length) : tiles(sym::ceil_div(length, kTile)) {}
  sym::Expr digit_words() const { return (tiles + 1) * kValues; }
  sym::Expr words(sym::Expr rows, std::int64_t digits) const { return rows * digit_words() * digits + kHead; }
};

}  // namespace coil::ir
