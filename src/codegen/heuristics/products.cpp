#include "codegen/heuristics/products.h"

#include <algorithm>

namespace coil::codegen {
namespace {

constexpr int kThreads = 256;       // eight warps, in two rows of four
constexpr int kPiece = 32;          // elements of a piece along the dimension that is summed over
constexpr int kMostStages = 4;      // pieces under way
constexpr int kBetween = 8;         // elements between two rows in shared memory
constexpr std::int64_t kBytes = 2;  // of an element
// Where warpgroups multiply, of two widths of blocks: pieces in shared memory, of 64 elements of each row and column.
constexpr int kNarrow = 128, kWide = 256, kNarrowStages = 3, kWideStages = 4;

/// With what it takes to begin at a multiple of 1,024.
constexpr std::int64_t bytes_of_warpgroups(int rows, int columns, int stages) {
  return stages * kBytes * 64 * (rows + columns) + 1024;
}

}  // namespace

LaunchConfig product_config(const ProductFacts& f, const target::Costs& costs) {
  // Few rows for a matrix leave most of a tall block idle.
  const int rows = f.rows / std::max<std::int64_t>(1, f.matrices) <= 64 ? 64 : 128;
  const std::int64_t of_rows = std::int64_t{rows} * (kPiece + kBetween),
                     of_matrix = f.along ? std::int64_t{kNarrow} * (kPiece + kBetween)
                                         : std::int64_t{kPiece} * (kNarrow + kBetween);
  const std::int64_t stage = kBytes * (of_rows + of_matrix);
  const std::int64_t stages = std::clamp<std::int64_t>(costs.shared_bytes_of_block / stage, 2, kMostStages);
  LaunchConfig config{.threads = kThreads,
                      .unroll = static_cast<int>(stages),
                      .rows = rows,
                      .tile = kNarrow,
                      .shared_bytes = stages * stage};
  if (!f.warpgroups || rows < 128) return config;
  // Wide blocks read less for each product, where there are enough of them to fill the machine.
  const bool wide = (f.rows / rows) * (f.columns / kWide) >= costs.multiprocessors;
  config.tile = wide ? kWide : kNarrow;
  config.min_blocks = wide ? 1 : 2;
  config.shared_bytes = bytes_of_warpgroups(rows, config.tile, wide ? kWideStages : kNarrowStages);
  return config;
}

}  // namespace coil::codegen
