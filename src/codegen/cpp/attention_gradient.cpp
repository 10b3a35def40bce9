#include "codegen/cpp/attention_gradient.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "codegen/cpp/attention_text.h"

namespace coil::codegen {
namespace {

constexpr int kCacheLine = 16;  ///< floats of a cache line

/// Tiles of rows in a block, of queries and of keys: what is packed of a block, and added up, stays in the second cache
/// and takes less than 1 MiB of the stack for dims up to 1,024.
int tiles_of_block(const AttentionSpec& spec) {
  constexpr int kMost = 8, kDims = 256;
  return std::clamp(kMost * kDims / std::max(spec.head_dim, spec.value_dim), 1, kMost);
}

/// The least odd number of cache lines that has room for so many floats, in floats.
int odd_lines(int floats) { return ((floats + kCacheLine - 1) / kCacheLine | 1) * kCacheLine; }

/// What the template calls its buffers, in order.
std::vector<std::string_view> operand_names(bool masked) {
  std::vector<std::string_view> names{"Slope", "Query", "Key", "Value", "Out", "Logs"};
  if (masked) names.push_back("Mask");
  names.insert(names.end(), {"QueryGradient", "KeyGradient", "ValueGradient"});
  return names;
}

/// What the template calls its buffers and scalars, as two enumerations.
std::string names_text(bool masked) {
  const std::vector<std::string_view> operands = operand_names(masked);
  std::string scalars = "Heads, KeyHeads, Queries, Keys";
  for (std::string_view operand : operands)
    for (std::string_view stride : {"BatchStride", "HeadStride", "Stride", "DimStride"})
      scalars += fmt::format(", {}{}", operand, stride);
  return fmt::format("  enum {{ {} }};\n  enum {{ {} }};\n", scalars, fmt::join(operands, ", "));
}

}  // namespace

std::string attention_gradient_kernel(const Toolchain& toolchain, const AttentionSpec& spec, std::string_view symbol) {
  const int tile = toolchain.lanes == 16 ? 8 : 6, block = tiles_of_block(spec) * tile;
  device::Values values = attention_values(toolchain, spec, symbol, false);
  values.merge(device::Values{
      {"$DS", std::to_string(odd_lines(spec.head_dim))},
      {"$VS", std::to_string(odd_lines(spec.value_dim))},
      {"$BQ", std::to_string(block)},
      {"$BK", std::to_string(block)},
      {"$BS", std::to_string(odd_lines(block + kCacheLine))},
      {"$R", std::to_string(tile)},
      {"$names;", names_text(spec.mask.has_value())},
      {"$mask_pointer", spec.mask ? "(const $s_me*)buffers[Mask] + batch * z[MaskBatchStride] + head * "
                                    "z[MaskHeadStride] + i * z[MaskStride]"
                                  : "0"},
  });
  return attention_text("cpp/attention_gradient.h", values);
}

}  // namespace coil::codegen
