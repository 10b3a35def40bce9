// One matrix product, y = post(a @ b + bias), as both the plain loops and oneDNN take it.
#pragma once
#include "runtime/device/cached_op.h"
#include "runtime/ops/post_ops.h"
#include "runtime/ops/staging.h"

namespace coil::runtime {

/// A view of operand `index` of the call, in the product's own dimensions.
struct GemmOperand {
  std::size_t index = 0;
  BoundView given;  ///< as the call has it, broadcast to the product's sizes where it broadcasts
  Sizes sizes;      ///< what `given` is reshaped to
};

/// All operands have the same rank: [batch.., rows, columns]. `operands` broadcast against y and are those of the
/// post-operations, in order.
struct GemmProblem {
  GemmOperand a, b, y;
  std::optional<GemmOperand> bias;  ///< [N]
  std::vector<GemmOperand> operands;
  std::vector<PostOp> post;
  std::string packed_desc;  ///< of b; empty: b is a plain view
  std::size_t packed_bytes = 0;
  bool tf32 = false;             ///< on CUDA: may round f32 operands to TF32
  bool batch_invariant = false;  ///< the bits of a row do not depend on m and batch
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

std::unique_ptr<PreparedCall> make_plain_gemm(const GemmProblem&);

/// The product of a call of `linear` or `matmul`. Throws Error where sizes do not fit each other.
GemmProblem linear_problem(const Attributes&, std::span<const BoundView> inputs, std::span<const BoundView> outputs);
GemmProblem matmul_problem(const Attributes&, std::span<const BoundView> inputs, std::span<const BoundView> outputs);

std::unique_ptr<LibraryOp> make_matmul(const Attributes&);

}  // namespace coil::runtime
