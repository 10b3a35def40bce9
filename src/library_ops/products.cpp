#include "library_ops/products.h"

#include "library_ops/epilogue.h"
#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> product_ops() {
  const std::vector<Operand> grouped{
      {"x", "[S, K]"},
      {"matrices", "[G, K, N]"},
      {"offsets", "[G]", "ascending, int32 or int64; a call fails where they do not ascend or exceed S"}};
  std::vector<Operand> looked_at = grouped;
  looked_at.back().read_by_host = true;
  return {
      {.name = std::string(linear::kName),
       .sentence = "y = x weight + bias over the last dimension of x, where the weight is one matrix.",
       .operands = with_epilogue({"x", "[.., K]"},
                                 {.name = "weight",
                                  .sizes = "[N, K]",
                                  .sentence = "[K, N] with `weight_transposed`; bytes where packed",
                                  .packable = true},
                                 "[N]"),
       .results = {{"y", "[.., N]"}},
       .attributes = with_epilogue_attributes({linear::kN, linear::kK, linear::kWeightTransposed, kPackedDesc,
                                               product::kAlgorithm, product::kAlgorithmFor}),
       .post_ops = all_post_ops(),
       .traits = {Trait::Product, Trait::TakesPostOps}},
      {.name = std::string(matmul::kName),
       .sentence = "y = a b + bias, matrix by matrix: floats, and integers by plain loops.",
       .operands = with_epilogue({"a", "[B.., M, K]"}, {"b", "[B.., K, N]"}, "[N], or broadcast to y"),
       .results = {{"y", "[B.., M, N]"}},
       .attributes = with_epilogue_attributes({product::kAlgorithm, product::kAlgorithmFor}),
       .post_ops = all_post_ops(),
       .traits = {Trait::Product, Trait::TakesPostOps}},
      {.name = std::string(matmul::kBlocked),
       .sentence =
           "matmul by a kernel of Coil's own, which does all that follows to the sums that it holds: in 16 bits, where "
           "rows of a and y, and rows or columns of b, begin on 16 bytes. Matrices of b may be the same for all of a. "
           "With `pre`, a is made where it is read, of operands of any layout.",
       .operands = {{"a", "[B.., M, K]"},
                    {"b", "[B.., K, N]"},
                    {.name = "operands",
                     .sizes = "broadcast to y",
                     .sentence = "those of the post-operations, in order",
                     .of_post_ops = true},
                    {.name = "pre_operands", .sizes = "broadcast to a", .sentence = "those of `pre`", .of_pre = true}},
       .results = {{"y", "[B.., M, N]", "in 16 bits as a and b, or f32"}},
       .attributes = {kPost, kPre, kPreOperands},
       .post_ops = post_ops_of_kernels(),
       .traits = {Trait::Kernel, Trait::TakesPostOps}},
      {.name = std::string(grouped_matmul::kName),
       .sentence =
           "Runs of rows, each times a matrix of its own: the rows up to the first offset meet the first matrix, "
           "from there up to the second offset the second, and so on. Rows behind the last offset become 0.",
       .operands = std::move(looked_at),
       .results = {{"y", "[S, N]"}},
       .attributes = {}},
      {.name = std::string(grouped_matmul::kBlocked),
       .sentence =
           "grouped_matmul by a kernel that reads the offsets itself: on CUDA in 16 bits, where rows begin on 16 "
           "bytes, and so do the matrices' rows or columns.",
       .operands = grouped,
       .results = {{"y", "[S, N]"}},
       .attributes = {},
       .traits = {Trait::Kernel}},
      {.name = std::string(winograd_products::kName),
       .sentence =
           "The products of Winograd's minimal filtering between its transforms, n = m + 2 for tiles of m by m: while "
           "the flag is 1, m[i] = v[i] u[i]. Where it is 0, a NaN or an infinity of x would spread over its tile: the "
           "convolution itself is computed, and y [N, H', W', O] put where m begins, which has room for it.",
       .operands = {{"v", "[n * n, T, C]", "tiles of the input, transformed"},
                    {"u", "[n * n, C, O]", "the weight, transformed"},
                    {"x", "[N, C, H, W]", "the input itself"},
                    {"flag", "[1]", "what all_bounded gave for x"}},
       .results = {{"m", "[n * n, T, O]", "dense"}},
       .attributes = {winograd_products::kPadding, winograd_products::kPaddingEnd, winograd_products::kRecover}},
  };
}

}  // namespace coil::library_ops
