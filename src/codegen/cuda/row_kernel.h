// Kernels over rows of several views along one dimension, each row by one block or by several.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda/plain_kernel.h"

namespace coil::codegen {

/// The dimension that the call's rows lie along, and what it holds of a view; 1 where the view has none.
std::size_t row_dimension(const ir::Extern& call);
Expr row_length(const ir::Extern& call, const ir::BufferView&);

/// Parameters `p0, p1, …`; in the text: where the block's row begins in each view (`o0, …`), which row that is (`row`),
/// which of the row's blocks (`part`).
class RowKernel : public PlainKernel {
 public:
  /// `views` have the rows, those from `inputs` on are written. `words` is written too and has no rows: the last
  /// pointer. `block` is the number of the block, should it not be the machine's own.
  RowKernel(const Dialect&, ir::Graph&, const ir::Extern& call, const std::vector<const ir::BufferView*>& views,
            std::size_t inputs, Expr per_row, const ir::BufferView* words = nullptr, const std::string& block = "");

  std::vector<std::string> steps;  ///< how far each view's elements are apart
  std::string element;             ///< of the first view, as stored

  Expr blocks() const { return blocks_; }
  /// `pointers`: the type of each pointer's elements; `shared`: the text in front of the row's.
  Kernel finish(const std::vector<std::string>& pointers, const std::string& shared, const std::string& body,
                int threads);

 private:
  ir::Graph& graph_;
  Expr blocks_;
  std::vector<ir::BufferId> buffers_;
  std::vector<bool> written_;
  std::string head_, getter_;
};

}  // namespace coil::codegen
