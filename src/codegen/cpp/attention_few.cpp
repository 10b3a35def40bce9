#include "codegen/cpp/attention_few.h"

#include <algorithm>

#include "codegen/cpp/attention_text.h"

namespace coil::codegen {
namespace {

constexpr int kBlockKeys = 64;

}  // namespace

int attention_few_rows(const Toolchain& toolchain, const AttentionSpec& spec, long rows) {
  // The sums of a block are in registers, of which half or more are for them.
  const int registers = toolchain.lanes == 16 ? 16 : 8,
            of_row = whole_vectors(spec.value_dim, toolchain) / toolchain.lanes;
  const long most = std::clamp(registers / of_row, 1, 4), turns = (rows + most - 1) / most;
  return static_cast<int>(std::max(1L, (rows + turns - 1) / std::max(1L, turns)));
}

std::string attention_few_kernel(const Toolchain& toolchain, const AttentionSpec& spec, long rows,
                                 std::string_view symbol) {
  device::Values values = attention_values(toolchain, spec, symbol, false);
  values.merge(device::Values{
      {"$DP", std::to_string(whole_vectors(spec.head_dim, toolchain))},
      {"$VP", std::to_string(whole_vectors(spec.value_dim, toolchain))},
      {"$BK", std::to_string(kBlockKeys)},
      {"$R", std::to_string(attention_few_rows(toolchain, spec, rows))},
      {"$names;", attention_scalar_names()},
      {"$mask_pointer", spec.mask
                            ? "(const $s_me*)buffers[3] + batch * z[MaskBatchStride] + h * z[MaskHeadStride] + i * "
                              "z[MaskQueryStride]"
                            : "0"},
      {"$OUT", spec.mask ? "4" : "3"},
  });
  return attention_text("cpp/attention_few.h", values);
}

}  // namespace coil::codegen
