#include "passes/passes.h"
#include "passes/split_complex.h"

namespace coil::passes {

const std::vector<Pass>& all() {
  static const std::vector<Pass> passes = {
      {"outline-vmap", outline_vmap},
      {"remove-noops", remove_noops},
      {"correct-records", correct_records},
      {"expand-loops", expand_loops},
      {"expand-lists", expand_lists},
      {"expand-auto-functionalized", expand_auto_functionalized},
      {"functionalize", functionalize},
      {"split-complex", split_complex},
      {"fold-batch-norm", fold_batch_norm},
      {"fold-batch-norm-of-inputs", fold_batch_norm_of_inputs},
      {"fuse-attention", fuse_attention},
      {"fuse-linear", fuse_linear},
      {"propagate", propagate},
      {"decompose", decompose},
      {"decompose-for-device", decompose_for_device},
      {"loop-recurrences", loop_recurrences},
      {"eliminate-common-subexpressions", eliminate_common_subexpressions},
      {"eliminate-dead-code", eliminate_dead_code},
  };
  return passes;
}

}  // namespace coil::passes
