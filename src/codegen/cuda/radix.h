// Rows in order, digit by digit: short ones in a block's memory, long ones by many blocks. One rank of a row.
#pragma once
#include "codegen/cuda/dialect.h"
#include "library_ops/sorting.h"

namespace coil::codegen {

/// `radix_count` counts the values of all digits of a row, `radix_pass` puts the row in order of one digit (attribute
/// `digit`, from the lowest). `select_rank` finds the one element of each row that would stand at rank `first` (or
/// `middle`), and its place, as a stable sort has it.
inline bool is_radix(std::string_view op) {
  using namespace library_ops::sorting;
  return op == kSelect || op == kCount || op == kPass;
}
/// The kernel of such a call. Counts and passes have one in CUDA C++ alone.
Kernel radix_kernel(const Dialect&, ir::Graph&, const ir::Extern& call);

}  // namespace coil::codegen
