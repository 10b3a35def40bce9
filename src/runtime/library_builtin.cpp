#include "runtime/library_builtin.h"

#include "runtime/assertions.h"
#include "runtime/complex_parts.h"
#include "runtime/convolution.h"
#include "runtime/convolution_weights.h"
#include "runtime/gemm.h"
#include "runtime/grouped_matmul.h"
#include "runtime/matrices.h"
#include "runtime/nan_guard.h"
#include "runtime/recurrent.h"
#include "runtime/selection.h"
#include "runtime/sort.h"
#include "runtime/winograd.h"

namespace coil::runtime {
namespace {

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

}  // namespace

std::span<const BuiltinOp> builtin_ops() { return kOps; }

}  // namespace coil::runtime
