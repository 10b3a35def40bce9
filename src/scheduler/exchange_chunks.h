// In how many chunks an exchange with other processes, and the work that makes or takes what it exchanges, go beside
// one another: the exchange of one chunk beside the work on the next.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace coil::scheduler {

/// Seconds that a chunk takes in the first of two stages, and then in the second.
struct ChunkTime {
  double first = 0, second = 0;
};

/// Seconds until the last chunk is through both stages, each of which takes one chunk after the other.
double pipelined_seconds(std::span<const ChunkTime>);

/// The times of the chunks of so many (there may be fewer, where not as many can be made).
using ChunkTimes = std::function<std::vector<ChunkTime>(std::size_t count)>;

/// The least number of chunks, of up to `most`, that is nearly the fastest; 1 where none gains a twentieth.
std::size_t choose_chunks(const ChunkTimes&, std::size_t most);

}  // namespace coil::scheduler
