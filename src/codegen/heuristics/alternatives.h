// Kernels for some of the sizes: where a program's sizes are free, heuristics write a kernel for the sizes of the
// example, and this finds the ranges of sizes for which they would write another one that is worth compiling.
#pragma once
#include <span>
#include <vector>

#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

/// Which kernels for some of the sizes are written where sizes are free: for rows that are whole vectors
/// (whole_vectors.h), for ranges of sizes as well, or none.
enum class Alternatives : std::uint8_t { Off, Vectors, Sizes };

/// Sizes up to `last`, from behind the bucket before, and the launch config that heuristics take for them.
struct SizeBucket {
  std::int64_t last = 0;
  LaunchConfig config;
  double weight = 1;  ///< 0: the config makes no difference
};

/// Sizes from `first` to `last`, for which a kernel in the config of one bucket, the last of them, is worth compiling.
struct SizeRange {
  std::int64_t first = 0, last = 0;
  std::size_t bucket = 0;
  bool operator==(const SizeRange&) const = default;
};

/// How far two configs are apart: powers of two between their numbers, and more where one has a loop and one has not.
double distance(const LaunchConfig&, const LaunchConfig&);

/// At most `most` ranges, apart from each other, in order. Sizes in none of them are left to the `usual` config. Each
/// bucket costs the distance between its own config and the one that it is given; each range costs a compile.
std::vector<SizeRange> ranges_worth_a_kernel(std::span<const SizeBucket>, const LaunchConfig& usual, int most);

/// For as long as it lives, heuristics find this size in place of the one that the program was made with.
class AssumedSize {
 public:
  /// `symbol` has a hint.
  AssumedSize(sym::ShapeEnv& env, Expr symbol, std::int64_t value);
  ~AssumedSize();
  AssumedSize(const AssumedSize&) = delete;
  AssumedSize& operator=(const AssumedSize&) = delete;

 private:
  sym::ShapeEnv& env_;
  Expr symbol_;
  std::int64_t before_;
};

/// A kernel for the sizes at which `when` holds: what heuristics find where `symbol` is `value`, by `request`.
struct SizedKernel {
  Expr when, symbol;
  std::int64_t value = 0;
  LaunchRequest request;
};
/// For a nest of points, rows or columns: ranges of the length of its rows where that is free, else of how many points
/// its outer loops have. None where no size with a hint is free, or one config suits all. `usual` is how the kernel is
/// written that the others are alternatives to.
std::vector<SizedKernel> sized_kernels(ir::Graph&, const LoopNest&, const target::Target&, const LaunchRequest& usual);

}  // namespace coil::codegen
