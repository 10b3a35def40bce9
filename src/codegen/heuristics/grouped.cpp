#include "codegen/heuristics/grouped.h"

#include <algorithm>

namespace coil::codegen {
namespace {

constexpr int kThreads = 256;       // eight warps, in two rows of four
constexpr int kMostStages = 4;      // pieces under way
constexpr int kBetween = 8;         // elements between two rows in shared memory
constexpr std::int64_t kBytes = 2;  // of an element
// Of shared memory, where warpgroups multiply: three pieces of 64 elements of 128 rows and 128 columns, and what it
// takes to begin at a multiple of 1,024.
constexpr std::int64_t kOfWarpgroups = 3 * kBytes * 64 * 256 + 1024;

}  // namespace

LaunchConfig grouped_config(const GroupedFacts& f, const target::Costs& costs) {
  // Runs that are short leave most of a tall block idle.
  const int rows = f.rows / std::max<std::int64_t>(1, f.groups) <= 64 ? 64 : 128;
  const std::int64_t of_rows = std::int64_t{rows} * (kGroupedPiece + kBetween),
                     of_matrix = f.along ? std::int64_t{kGroupedColumns} * (kGroupedPiece + kBetween)
                                         : std::int64_t{kGroupedPiece} * (kGroupedColumns + kBetween);
  const std::int64_t stage = kBytes * (of_rows + of_matrix);
  const std::int64_t stages = std::clamp<std::int64_t>(costs.shared_bytes_of_block / stage, 2, kMostStages);
  const std::int64_t bytes = f.warpgroups && rows == 128 ? kOfWarpgroups : stages * stage;
  return {.threads = kThreads,
          .unroll = static_cast<int>(stages),
          .rows = rows,
          .min_blocks = f.warpgroups ? 2 : 0,
          .shared_bytes = bytes};
}

}  // namespace coil::codegen
