#include "library_ops/epilogue.h"

#include "library_ops/post_ops.h"
#include "library_ops/products.h"

namespace coil::library_ops {

std::vector<PostOpKind> all_post_ops() {
  std::vector<PostOpKind> all;
  for (const PostOpInfo& row : post_op_table()) all.push_back(row.kind);
  return all;
}

std::vector<PostOpKind> post_ops_of_kernels() {
  std::vector<PostOpKind> kinds;
  for (const PostOpInfo& row : post_op_table())
    if (!row.reads_result) kinds.push_back(row.kind);
  return kinds;
}

std::vector<Operand> with_epilogue(Operand first, Operand second, std::string bias_sizes) {
  return {
      std::move(first),
      std::move(second),
      {.name = "bias", .sizes = std::move(bias_sizes), .when = When(kHasBias)},
      {.name = "operands",
       .sizes = "broadcast to y",
       .sentence = "those of the post-operations, in order",
       .of_post_ops = true},
      {.name = "flag", .sizes = "[1]", .sentence = "what all_bounded gave", .when = When(kNan, std::string(kFlagNan))}};
}

std::vector<AttributeInfo> with_epilogue_attributes(std::vector<AttributeInfo> own) {
  std::vector<AttributeInfo> all{kHasBias, kPost, kNan, kTf32, kBatchInvariant};
  all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return all;
}

}  // namespace coil::library_ops
