// Products by a constant weight that is packed in panels of neighbouring columns: in f32, with loops of our own for
// AVX-512 and AVX2 (kernels.h).
//
// A product that reads its weight once from memory, as those of a transformer's inference do, is held by that:
// oneDNN 2.6 reaches 370 to 430 GFLOP/s on two cores of an AVX-512 Xeon with a weight that the cache holds, and 310 to
// 330 with one that comes from memory (128 rows, 768 and 3,072 columns). These loops fetch the next stretch of the
// panel while they multiply by this one, which gives 370 to 390 for both. With AVX2 such loops are no faster than
// oneDNN's products, and serve the convolutions that it is slow at (docs/performance_cpu.md).
#pragma once
#include "runtime/ops/gemm.h"
#include "runtime/ops/panel/kernels.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_gemm(const GemmProblem&);

/// The weight in panels for machines with `isa` (support/cpu.h); nothing for types that are not multiplied in f32, and
/// for products too small to gain.
std::optional<Packed> pack_gemm(const GemmProblem&, const Tensor& weight, std::string_view isa);

/// For a matrix that is packed in each call: whether this machine multiplies operands of these types so, what the form
/// is called, how many bytes it takes, and a matrix `b` of [K, N] brought into it.
bool multiplies(const GemmProblem&);
/// `width`: the columns of a panel, 16 to 64.
constexpr std::int64_t kWidestPanel = 64;
std::string packed_form(DType, std::int64_t width = kWidestPanel);
std::size_t packed_bytes(DType, std::int64_t n, std::int64_t k, std::int64_t width = kWidestPanel);
void pack(std::byte* to, const std::byte* from, const BoundView& b, std::int64_t width = kWidestPanel);

/// The columns of the widest panel that machines with `isa` (support/cpu.h) multiply by; 0 where they have no such
/// loops.
std::int64_t widest_panel(std::string_view isa);
/// The columns of a panel for so many results, on machines whose widest panel has `widest`.
std::int64_t panel_width(std::int64_t results, std::int64_t widest);
/// The columns of a panel in a packed weight's form. Throws Error where there is no such form, or this machine has no
/// vectors for it.
std::int64_t width_of_form(std::string_view packed_form);

bool machine_has_kernels();
/// Throws Error where this machine has none.
const Kernels& kernels_of_this_machine();

/// Whether oneDNN takes longer for a post-operation than these loops.
bool is_costly(const PostOp&);

/// Threads that a product of so many multiplications is divided among, at most thread_count().
int threads_worth(std::int64_t multiplications);

/// How the work is divided: units of some rows by one panel, which threads take in contiguous parts.
struct Division {
  std::int64_t row_blocks = 1, panels = 1;
  int threads = 1;
  std::int64_t units() const { return row_blocks * panels; }
};
/// `most_rows`: whose sums and elements of a stretch the second-level cache holds.
Division divide(std::int64_t m, std::int64_t panels, std::int64_t multiplications, std::int64_t most_rows = 240);

}  // namespace coil::runtime::panels
