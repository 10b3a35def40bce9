// The blocks of points that a kernel's programs work on, in languages that leave threads to their compiler: as many as
// the threads of a launch config take.
#pragma once
#include "codegen/heuristics/kernel_plan.h"

namespace coil::codegen {

/// Powers of two.
struct BlockShape {
  int x = 1;            ///< outer points
  int r = 1;            ///< inner points
  bool looped = false;  ///< a program walks the inner points `r` at a time; else it has all of them at once
  int warps = 4;
};

BlockShape point_block(const LaunchConfig&);
/// A square: `x` along the dimension that results mostly lie along, `r` along the other.
BlockShape tile_block(const LaunchConfig&);
/// `length`: inner points, where their number is known.
BlockShape row_block(const LaunchConfig&, std::optional<std::int64_t> length);
BlockShape column_block(const LaunchConfig&, std::optional<std::int64_t> length);
/// Few inner points, which lie apart.
BlockShape window_block(const LaunchConfig&, std::optional<std::int64_t> length);
BlockShape scan_block(const LaunchConfig&, std::optional<std::int64_t> length);
BlockShape scan_column_block(const LaunchConfig&, std::optional<std::int64_t> length);
/// Attention in f32: `x` rows that a program has of one operand, `r` of the other at a time. `widest`: elements of a
/// row. None where rows are too wide for the shared memory of a block.
std::optional<BlockShape> attention_block(std::int64_t widest, const target::Costs&);
/// A product of matrices in 16 bits: `x` rows by `r` columns of the result.
BlockShape product_block();
constexpr int kProductDepth = 64;  ///< numbers of a row that are multiplied at once

}  // namespace coil::codegen
