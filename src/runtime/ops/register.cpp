// The library operations that the runtime brings on the CPU.
#include <memory>

#include "runtime/device/library.h"
#include "runtime/ops/assertions.h"
#include "runtime/ops/complex_parts.h"
#include "runtime/ops/convolution.h"
#include "runtime/ops/convolution_weights.h"
#include "runtime/ops/gemm.h"
#include "runtime/ops/grouped_matmul.h"
#include "runtime/ops/lapack/matrices.h"
#include "runtime/ops/nan_guard.h"
#include "runtime/ops/recurrent.h"
#include "runtime/ops/selection.h"
#include "runtime/ops/sort.h"
#include "runtime/ops/winograd.h"

namespace coil::runtime {
namespace {

struct BuiltinOp {
  std::string_view name;
  std::unique_ptr<LibraryOp> (*make)(const Attributes&);
};

constexpr BuiltinOp kOps[] = {
    {"linear", make_linear},
    {"matmul", make_matmul},
    {"convolution", make_convolution},
    {"convolution_weights", make_convolution_weights},
    {"winograd_products", make_winograd_products},
    {"sort", make_sort},
    {"topk", make_topk},
    {"recurrent", make_recurrent},
    {"all_bounded", make_all_bounded},
    {"complex_parts", make_complex_parts},
    {"grouped_matmul", make_grouped_matmul},
    {"assert_finite", make_assert_finite},
    {"assert_aligned", make_assert_aligned},
    {"nonzero", make_nonzero},
    {"repeat_positions", make_repeat_positions},
    {"unique", make_unique_rows},
    {"lu_factor", make_lu_factor},
    {"lu_solve", make_lu_solve},
    {"lu_permutation", make_lu_permutation},
    {"cholesky", make_cholesky},
    {"solve_triangular", make_solve_triangular},
    {"ldl_factor", make_ldl_factor},
    {"ldl_solve", make_ldl_solve},
    {"qr", make_qr},
    {"geqrf", make_geqrf},
    {"householder_product", make_householder_product},
    {"ormqr", make_ormqr},
    {"svd", make_svd},
    {"eigh", make_eigh},
    {"eig", make_eig},
    {"matrix_exp", make_matrix_exp},
};

[[maybe_unused]] const bool kRegistered = [] {
  for (const BuiltinOp& op : kOps) define_library_op(op.name, op.make);
  return true;
}();

}  // namespace
}  // namespace coil::runtime
