// How a kernel divides its work over the threads of a GPU, as a value. Heuristics make it from facts of a loop nest and
// a target, tuning tries the other candidates, and emitters of any language print what it says and decide nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coil::codegen {

/// What a kernel's form has no use for keeps its default.
struct LaunchConfig {
  int threads = 128;  ///< of a block

  // What a thread takes.
  int vector = 1;  ///< elements side by side, which move as one access where they lie side by side
  /// The last vector of a row, or of all points, may end before its width.
  bool partial_vectors = false;
  /// Vectors run through all points as they lie in memory, across the ends of the last dimension.
  bool flat = false;
  /// Vectors lie as memory's do, wherever rows begin; elements in front of a row's first and behind its last are taken
  /// by themselves.
  bool ragged = false;
  int unroll = 1;         ///< vectors that it has under way at once
  bool looped = false;    ///< it takes as many vectors as there are, `unroll` at a time; else `unroll` and no more
  int near = 1, far = 1;  ///< neighbouring results, along the two dimensions in which they read much of the same

  // What threads share.
  int team = 1;     ///< threads that share a row, a column or a sum, in all of its blocks
  int rows = 1;     ///< rows, or outer points that do not lie side by side, that a block works on
  int cluster = 1;  ///< neighbouring blocks that share a row
  int tile = 0;     ///< elements that a block has in shared memory at once: a square's side, or a piece of a row

  // What the machine keeps for it.
  int min_blocks = 0;             ///< blocks that a multiprocessor's registers have room for; 0: as the compiler likes
  std::int64_t shared_bytes = 0;  ///< shared memory of a block that is asked for with the launch

  bool operator==(const LaunchConfig&) const = default;
};

/// The fields that say something, such as `256 threads, vector 4, unroll 2`.
std::string to_string(const LaunchConfig&);

/// What settings and measurements ask of heuristics.
struct LaunchRequest {
  int candidate = 0;  ///< of the candidates, by number; past the end the last
  int cluster = 0;    ///< blocks that share a long row; 0: as many as its length asks for
  /// The elements of a row, at most: whoever launches the kernel sees to it. None where nothing is known.
  std::optional<std::int64_t> longest_row = std::nullopt;
};

/// A choice and what else is worth a measurement. The first candidate is what heuristics take by themselves.
struct LaunchChoice {
  LaunchConfig config;
  std::vector<LaunchConfig> candidates;
};
LaunchChoice choose(std::vector<LaunchConfig> candidates, const LaunchRequest&);

/// Puts a candidate behind the others, unless it is among them.
void add_candidate(std::vector<LaunchConfig>&, const LaunchConfig&);

/// The least power of two that is `n` or more, `most` at most.
int power_of_two_at_least(std::int64_t n, int most);

}  // namespace coil::codegen
