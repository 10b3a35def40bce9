// A group of fused operations as the text of one C++ kernel.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "scheduler/schedule.h"

namespace coil::codegen {

using sym::Expr;
using sym::Exprs;

struct KernelOptions {
  int lanes = 16;  ///< f32 lanes of a vector: 16 for AVX-512, 8 for AVX2, 4 for the baseline
};

/// A kernel: `extern "C" void SYMBOL(void* const* buffers, const i64* scalars, i64 begin, i64 end)`. The text is a function of the fused node alone: buffers and symbols are named by position, so equal kernels are equal
/// texts. Prelude functions it calls are found by codegen::prelude_names.
struct Kernel {
  std::string symbol;                 ///< `coil_` and a hash of the text
  std::string text;
  std::vector<ir::BufferId> buffers;  ///< in the order of the pointers the kernel takes; the status word follows
  std::vector<bool> written;          ///< for each buffer, whether the kernel writes it
  Exprs scalars;                      ///< size symbols, in the order of `scalars`
  Expr extent;                        ///< of the parallel range
  std::int64_t grain = 1;             ///< parallel points worth a thread
  bool may_fail = false;              ///< sets the status word
  /// Pairs {input, output} of buffers that may share memory: each element of the input is read only where, and before, the same element of the output is written.
  std::vector<std::pair<ir::BufferId, ir::BufferId>> in_place;
};

/// Text that stands between the prelude and the kernels: index arithmetic, checked indices.
std::string kernel_support();

Kernel print_kernel(ir::Graph&, const scheduler::Group&, const KernelOptions&);
/// A scatter: sequential loops.
Kernel print_scatter(ir::Graph&, const ir::Operation&, const KernelOptions&);

}  // namespace coil::codegen
