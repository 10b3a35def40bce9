#include "codegen/heuristics/products.h"

#include <algorithm>

#include "support/ceil_div.h"

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

// Where the copy engine fetches: one warpgroup that asks it and two that multiply, on blocks of 128 rows.
constexpr int kStreamThreads = 384, kStreamRows = 128, kStreamPiece = 64;
constexpr std::int64_t kMostShared = 227 << 10;  // of a block on GPUs with such an engine
constexpr std::int64_t kBarriers = 16;           // bytes, of a piece
constexpr std::int64_t kAround = 1024 + 16;      // to begin at a multiple of 1,024, and a word for all
constexpr double kWrites = 2.5;  // times what reading as many bytes takes: results are written while nothing multiplies

struct StreamShape {
  int columns, cluster;
};
constexpr StreamShape kStreamShapes[] = {{256, 2}, {192, 2}, {128, 2}, {256, 1}, {128, 1}};

/// What all tiles take, by what a multiprocessor multiplies, reads from the cache and writes.
double seconds_of(const StreamShape& s, const ProductFacts& f, const target::Costs& costs) {
  const auto each = static_cast<double>(costs.multiprocessors);
  const std::int64_t rows_each = ceil_div(f.rows, std::max<std::int64_t>(1, f.matrices)),
                     tiles = ceil_div(rows_each, std::int64_t{kStreamRows} * s.cluster) * f.matrices *
                             ceil_div(f.columns, s.columns);
  const std::int64_t rounds = ceil_div(tiles, std::max<std::int64_t>(1, costs.multiprocessors / s.cluster));
  const double read = costs.cache_bytes_per_second / each, multiplied = costs.half_operations_per_second / each;
  const double piece = std::max(2.0 * kStreamRows * s.columns * kStreamPiece / multiplied,
                                kBytes * kStreamPiece * (kStreamRows + s.columns / s.cluster) / read);
  const double written = kWrites * kBytes * kStreamRows * s.columns / read;
  return static_cast<double>(rounds) * (static_cast<double>(ceil_div(f.depth, kStreamPiece)) * piece + written);
}

LaunchConfig streamed_config(const ProductFacts& f, const target::Costs& costs) {
  const StreamShape* best =
      std::ranges::min_element(kStreamShapes, {}, [&](const StreamShape& s) { return seconds_of(s, f, costs); });
  const std::int64_t stage = kBytes * kStreamPiece * (kStreamRows + best->columns),
                     stages = (kMostShared - kAround) / (stage + kBarriers);
  return {.threads = kStreamThreads,
          .unroll = static_cast<int>(stages),
          .rows = kStreamRows,
          .cluster = best->cluster,
          .tile = best->columns,
          .min_blocks = 1,
          .shared_bytes = kAround + stages * (stage + kBarriers)};
}

constexpr ThinPiece kThinAlong{32, 16}, kThinAcross{16, 64};
constexpr int kThinRows = 8;

/// How many warps share a sum, of how many blocks, is a matter of how many pieces it has; that all multiprocessors have
/// something to read, of how many columns there are. The numbers are those that were fastest on an H200, of sums of 768
/// to 14,336 by 768 to 32,000 columns.
LaunchConfig thin_config(const ProductFacts& f, const target::Costs& costs) {
  const ThinPiece piece = thin_piece(f.along);
  const std::int64_t matrices = f.runs ? std::min(f.rows, f.matrices) : f.matrices;
  const std::int64_t blocks = ceil_div(f.columns, piece.columns) * matrices, pieces = ceil_div(f.depth, piece.depth);
  int rows = kThinRows;
  while (rows < f.most_rows) rows *= 2;
  const bool wide = f.along && blocks >= 4 * costs.multiprocessors;
  int warps = wide || pieces < 64 ? 8 : 16, cluster = 1;
  while (warps / 2 >= pieces && warps > 1) warps /= 2;
  while (!f.runs && cluster < std::min(4, costs.blocks_of_cluster) && blocks * cluster < costs.multiprocessors &&
         pieces >= std::int64_t{6} * cluster * 8) {
    cluster *= 2;
    warps = 8;
  }
  const std::int64_t each = ceil_div(pieces, std::int64_t{warps} * cluster);
  const int most = wide || warps == 16 ? 2 : 4, columns = wide ? 2 * piece.columns : piece.columns;
  return {.threads = 32 * warps,
          .unroll = static_cast<int>(std::clamp<std::int64_t>(each, 1, most)),
          .rows = rows,
          .cluster = cluster,
          .tile = columns,
          .min_blocks = 1,
          .shared_bytes = std::int64_t{4} * warps * cluster * rows * (columns + 4)};
}

}  // namespace

bool is_streamed(const LaunchConfig& config) { return config.threads == kStreamThreads; }
ThinPiece thin_piece(bool along) { return along ? kThinAlong : kThinAcross; }
bool is_thin(const LaunchConfig& config) { return config.rows <= kMostThinRows; }

LaunchConfig product_config(const ProductFacts& f, const target::Costs& costs) {
  if (f.most_rows > 0 && f.most_rows <= kMostThinRows && (f.along || !f.made)) return thin_config(f, costs);
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
  if (f.mapped) return streamed_config(f, costs);
  // Wide blocks read less for each product, where there are enough of them to fill the machine.
  const bool wide = (f.rows / rows) * (f.columns / kWide) >= costs.multiprocessors;
  config.tile = wide ? kWide : kNarrow;
  config.min_blocks = wide ? 1 : 2;
  config.shared_bytes = bytes_of_warpgroups(rows, config.tile, wide ? kWideStages : kNarrowStages);
  return config;
}

}  // namespace coil::codegen
