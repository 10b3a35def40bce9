#include "codegen/heuristics/group_convolutions.h"

#include <algorithm>
#include <limits>

#include "support/ceil_div.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using Facts = GroupConvolutionFacts;
using Config = GroupConvolutionConfig;

constexpr std::int64_t kEight = 8;          // channels of a piece
constexpr std::int64_t kElementBytes = 2;   // of an element
constexpr std::int64_t kHeldWords = 112;    // registers of a thread for weights, or for sums of their gradient
constexpr std::int64_t kNearChannels = 64;  // that a block reads side by side
constexpr std::int64_t kMostWarps = 12, kFewWarps = 4;

std::int64_t pieces(const Facts& f) { return f.window[0] * f.window[1] * (f.in / kEight); }

/// Eights that a warp may hold: of results, two words for each step of the matrix units; of a window, four sums for
/// each sixteen results.
std::int64_t most_each(const Facts& f) {
  return f.gradient ? kHeldWords / (4 * ceil_div(f.out, 2 * kEight)) : kHeldWords / (2 * ceil_div(pieces(f), 2));
}

/// Pieces of the gradient, or eights of results, that each warp has, in equal shares.
std::int64_t each(const Facts& f) {
  const std::int64_t all = f.gradient ? pieces(f) : f.out / kEight,
                     warps = ceil_div(all, std::max<std::int64_t>(1, most_each(f)));
  return ceil_div(all, warps);
}

std::int64_t warps_of_group(const Facts& f) { return ceil_div(f.gradient ? pieces(f) : f.out / kEight, each(f)); }

/// Groups of a block: as many as there are side by side and warps for, so that few blocks are left with fewer.
std::int64_t groups_of_block(const Facts& f) {
  const std::int64_t most = std::max<std::int64_t>(
                         1, std::min(kMostWarps / warps_of_group(f), ceil_div(kNearChannels, std::max(f.in, f.out)))),
                     blocks = ceil_div(f.groups, std::min(most, f.groups));
  return ceil_div(f.groups, blocks);
}

/// Elements of a place in shared memory: an odd number of vectors.
std::int64_t place(std::int64_t channels) { return channels + (channels / kEight % 2 ? 0 : kEight); }

std::int64_t read_places(const Facts& f, std::int64_t high, std::int64_t wide) {
  const auto along = [&](std::size_t d, std::int64_t n) {
    return (n - 1) * f.step[d] + (f.window[d] - 1) * f.dilation[d] + 1;
  };
  return along(0, high) * along(1, wide);
}

/// Two squares, one of which is on its way, and eight zeros.
std::int64_t shared_bytes(const Facts& f, std::int64_t groups, std::int64_t high, std::int64_t wide) {
  const std::int64_t of_x = read_places(f, high, wide) * place(groups * f.in),
                     of_dy = f.gradient ? high * wide * place(groups * f.out + kEight) : 0;
  return 2 * kElementBytes * (of_x + of_dy) + kEight * kElementBytes;
}

/// The square that moves the least, among those that leave room for a second block.
void choose_square(const Facts& f, const target::Costs& costs, Config& c) {
  constexpr int kMostAlong = 32, kMostPlaces = 256, kRun = 16;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int high = 1; high <= kMostAlong; ++high)
    for (int wide = 1; wide <= kMostAlong; ++wide) {
      const int places = high * wide;
      if (places % (kRun * c.parts) != 0 || places > kMostPlaces) continue;
      const std::int64_t bytes = shared_bytes(f, c.groups, high, wide);
      if (bytes > costs.shared_bytes_of_block) continue;
      const std::int64_t squares = ceil_div(f.sizes[0], high) * ceil_div(f.sizes[1], wide),
                         moved = squares * (read_places(f, high, wide) + places);
      // A square that has the machine's memory to itself leaves nobody to work while it waits.
      const std::int64_t cost = bytes * 2 > costs.shared_bytes_of_block ? moved * 2 : moved;
      if (cost >= least) continue;
      least = cost;
      c.high = high, c.wide = wide, c.shared_bytes = bytes;
    }
}

/// Blocks that a multiprocessor holds at once, by threads with as many registers as weights or sums ask for.
int blocks_of_multiprocessor(const target::Costs& costs, const Config& c) {
  constexpr std::int64_t kMost = 8, kThreadsWithSums = 512;
  return static_cast<int>(std::clamp<std::int64_t>(
      std::min(2 * costs.shared_bytes_of_block / c.shared_bytes, kThreadsWithSums / c.threads), 1, kMost));
}

}  // namespace

GroupConvolutionConfig group_convolution_config(const GroupConvolutionFacts& f, const target::Costs& costs) {
  Config c;
  c.groups = static_cast<int>(groups_of_block(f));
  c.each = static_cast<int>(each(f));
  const std::int64_t warps = warps_of_group(f) * c.groups;
  // What a warp multiplies for the weights' gradient is summed over all places.
  if (!f.gradient && warps < kFewWarps) c.parts = warps == 1 ? 4 : 2;
  c.threads = static_cast<int>(32 * warps * c.parts);
  choose_square(f, costs, c);
  COIL_CHECK(c.shared_bytes > 0);
  c.min_blocks = blocks_of_multiprocessor(costs, c);
  return c;
}

}  // namespace coil::codegen
