#include "codegen/heuristics/blocks.h"

#include <algorithm>
#include <bit>

namespace coil::codegen {
namespace {

constexpr int kMostElements = 1 << 14;           // of a block, which its warps hold in registers
constexpr int kWindowPoints = 256;               // results of a block of windows
constexpr int kColumnRows = 32;                  // points of a column that a block takes at once
constexpr std::int64_t kAttentionFloats = 4096;  // of a program's rows of an operand
constexpr std::int64_t kAttentionBlocks = 7;     // so large that lie in shared memory: its own, and those on their way
constexpr int kAttentionRows = 64, kPassingRows = 32, kFewestRows = 16;
constexpr int kProductRows = 64, kProductColumns = 128;

/// Blocks hold an element for each thread at least, so that none is held twice.
BlockShape with_warps(BlockShape b, int threads) {
  b.warps = std::clamp(std::min(threads, b.x * b.r) / 32, 1, 32);
  return b;
}

/// All inner points at once where they are no more than `most`; else `step` at a time.
BlockShape inner_block(int x, std::optional<std::int64_t> length, int most, int step) {
  most = std::min(most, kMostElements / x);
  if (length && *length > 0 && *length <= most)
    return {.x = x, .r = power_of_two_at_least(*length, most), .looped = false};
  return {.x = x, .r = power_of_two_at_least(step, kMostElements / x), .looped = true};
}

}  // namespace

BlockShape point_block(const LaunchConfig& c) {
  return with_warps({.x = power_of_two_at_least(c.threads * c.vector * c.unroll, kMostElements)}, c.threads);
}

BlockShape tile_block(const LaunchConfig& c) { return with_warps({.x = c.tile, .r = c.tile}, c.threads); }

BlockShape row_block(const LaunchConfig& c, std::optional<std::int64_t> length) {
  const int step = c.threads / std::max(1, c.rows) * c.vector * c.unroll;
  return with_warps(inner_block(power_of_two_at_least(c.rows, 1 << 10), length, c.looped ? 0 : kMostElements, step),
                    c.threads);
}

BlockShape column_block(const LaunchConfig& c, std::optional<std::int64_t> length) {
  const int across = power_of_two_at_least(std::int64_t{c.threads} / c.team * c.vector, 1 << 10);
  return with_warps(inner_block(across, length, kColumnRows, c.team * c.unroll), c.threads);
}

BlockShape window_block(const LaunchConfig& c, std::optional<std::int64_t> length) {
  return with_warps(inner_block(kWindowPoints, length, kColumnRows, 1), c.threads);
}

BlockShape scan_block(const LaunchConfig& c, std::optional<std::int64_t> length) {
  return with_warps(inner_block(1, length, c.threads * c.vector * c.unroll, c.threads * c.vector * c.unroll),
                    c.threads);
}

BlockShape scan_column_block(const LaunchConfig& c, std::optional<std::int64_t> length) {
  const int down = std::max(kColumnRows, c.team > 1 ? c.team * c.unroll : 0);
  return with_warps(inner_block(c.threads / c.team, length, down, down), c.threads);
}

std::optional<BlockShape> attention_block(std::int64_t widest, const target::Costs& costs) {
  const std::int64_t floats =
      std::min<std::int64_t>(kAttentionFloats, costs.shared_bytes_of_block / 4 / kAttentionBlocks);
  const std::int64_t width = power_of_two_at_least(widest, 2 * kAttentionFloats);
  if (floats < kFewestRows * width) return std::nullopt;
  const int rows =
      std::min(kAttentionRows, static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(floats / width))));
  return BlockShape{.x = rows, .r = std::min(rows, kPassingRows), .looped = true, .warps = 4};
}

BlockShape product_block() { return {.x = kProductRows, .r = kProductColumns, .looped = true, .warps = 4}; }

}  // namespace coil::codegen
