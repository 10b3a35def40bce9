#include "codegen/heuristics/attentions.h"

namespace coil::codegen {
namespace {

constexpr int kWarpRows = 16;
constexpr std::int64_t kPieceFloats = 64 * 72;  // of the largest piece of an operand that passes
constexpr std::int64_t kLittle = 64;            // elements of a row that a thread adds up in few registers

/// Shared memory for so many warps: the operands' rows, a float more for each eight so that they begin in different
/// banks; two pieces of what passes, and two numbers for each of its rows.
std::int64_t shared_bytes_of(const AttentionFacts& f, std::int64_t warps) {
  std::int64_t floats = 2 * kPieceFloats + 128;
  for (std::int64_t width : f.staying) floats += kWarpRows * warps * (8 * ((width + 7) / 8 | 1));
  return 4 * floats;
}

/// Whether blocks of so many warps are certain to be too few for the machine.
bool too_few(const AttentionFacts& f, int warps, const target::Costs& costs) {
  const std::int64_t of_block = kWarpRows * warps, parts = f.rows / of_block + (f.rows % of_block != 0);
  // Bounds may be the largest numbers there are.
  return static_cast<double>(f.heads) * static_cast<double>(parts) < static_cast<double>(2 * costs.multiprocessors);
}

}  // namespace

LaunchConfig attention_config(const AttentionFacts& f, const target::Costs& costs) {
  // As many warps as shared memory has room for; fewer where blocks would be too few.
  int warps = 1;
  for (int more : {4, 2})
    if (shared_bytes_of(f, more) <= costs.shared_bytes_of_block && !too_few(f, more, costs)) {
      warps = more;
      break;
    }
  // Where a thread adds up little, as many blocks as there is room for are worth more than registers.
  return {.threads = warps * costs.threads_of_warp,
          .rows = warps * kWarpRows,
          .min_blocks = f.widest > kLittle ? 0
                        : f.gradient       ? 3
                                           : 4,
          .shared_bytes = shared_bytes_of(f, warps)};
}

}  // namespace coil::codegen
