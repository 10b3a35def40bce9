// What the kernels of one product share, however they fetch its operands: where its tensors lie, and what becomes of
// its sums.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/plain_kernel.h"
#include "library_ops/post_ops.h"
#include "target/target.h"

namespace coil::codegen {

/// A block computes a tile of one matrix of the result. Dimensions of the batch that all tensors lie along like rows,
/// and for which there is one matrix b, count as rows.
class ProductKernel : public PlainKernel {
 public:
  ProductKernel(ir::Graph&, const ir::Extern& call, const target::Target&);
  LaunchConfig config() const;

 protected:
  /// A dimension that is not multiplied over: its size, and the stride of each tensor in it.
  struct Dim {
    Expr size;
    Exprs strides;
  };

  bool is_bf16() const { return tensors_[1].dtype == DType::BF16; }
  /// Whether what is summed over lies side by side in b.
  bool along() const { return !tensors_[1].strides.back().is_constant(1); }
  /// Columns of the result, and elements of a sum.
  Expr columns() const { return tensors_[1].sizes.back(); }
  Expr depth() const { return tensors_[1].sizes[tensors_[1].sizes.size() - 2]; }
  /// Whether each row of a tensor begins at a multiple of so many elements.
  bool begins_on(std::size_t tensor, int elements) const;
  /// The place in a dimension of the batch that the matrix of this number has, as an expression.
  std::string place_in_batch(std::size_t dimension, std::string_view matrix);
  /// Lines for where the matrix of this number begins in the tensors [first, end): `at2` in the third.
  std::string beginnings(std::size_t first, std::size_t end, std::string_view matrix);
  /// What becomes of two neighbouring sums, p and q. `eights`: operands of which eight elements were read.
  std::string post_text(const std::vector<std::size_t>& eights = {});
  std::string result_at();
  std::string store();

  ir::Graph& graph_;
  const target::Target& target_;
  const std::vector<library_ops::PostOp> post_;
  const std::string pre_;                ///< what an element of a is; empty: it is read as it is
  const std::size_t first_pre_;          ///< the place of the first operand that `pre` reads beside a
  std::vector<ir::BufferView> tensors_;  ///< a, b, operands of post-operations, those of `pre`, y
  std::vector<Dim> batch_;
  Dim rows_;

 private:
  void read_dimensions();
  Expr stride(std::size_t tensor, std::size_t dimension, bool is_row) const;
  bool merges(const Dim& outer, const Dim& inner) const;
  bool has_maps() const;
  std::string two_of(std::size_t tensor);
};

/// What a warp of a kernel of few rows has of a matrix at one time, by its name in device/cuda/thin_products.cuh.
std::string thin_piece_type(const LaunchConfig&, bool along);

}  // namespace coil::codegen
