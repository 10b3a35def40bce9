// `coil run --ranks N`: the same command in N processes, each of which finds the others by the environment.
#pragma once
#include <filesystem>
#include <optional>

namespace coil::cli {

/// This process's rank and their number, where the environment tells (RANK, WORLD_SIZE).
struct Rank {
  int rank = 0, size = 1;
};
std::optional<Rank> rank_of_environment();

/// Starts this process's command line again in `ranks` processes, without the option that says how many, and waits for
/// them. Throws Error naming those that failed.
void run_ranks(int ranks);

/// A path with `{rank}` replaced by this process's rank.
std::filesystem::path of_rank(const std::filesystem::path&);

}  // namespace coil::cli
