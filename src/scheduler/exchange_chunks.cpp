#include "scheduler/exchange_chunks.h"

#include <algorithm>

namespace coil::scheduler {
namespace {

constexpr double kLeastChunkGain = 0.05;  // of the time in one piece: the model is no better than that
constexpr double kWorthAChunk = 0.01;

}  // namespace

double pipelined_seconds(std::span<const ChunkTime> chunks) {
  double first = 0, second = 0;
  for (const ChunkTime& c : chunks) {
    first += c.first;
    second = std::max(first, second) + c.second;
  }
  return second;
}

std::size_t choose_chunks(const ChunkTimes& times, std::size_t most) {
  const double whole = pipelined_seconds(times(1));
  double least = whole * (1 - kLeastChunkGain);
  std::size_t found = 1;
  for (std::size_t count = 2; count <= most; ++count) {
    const double seconds = pipelined_seconds(times(count));
    if (seconds > least) continue;
    least = seconds * (1 - kWorthAChunk);
    found = count;
  }
  return found;
}

}  // namespace coil::scheduler
