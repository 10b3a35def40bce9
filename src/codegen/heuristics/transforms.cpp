#include "codegen/heuristics/transforms.h"

#include <algorithm>

#include "library_ops/fourier.h"

namespace coil::codegen {

namespace {

/// Twos go together to factors of 16 at most, as equal as they come, for as few passes as there may be.
std::vector<int> factors_of(std::int64_t points) {
  std::vector<int> out;
  int twos = 0;
  for (; points % 2 == 0; points /= 2) ++twos;
  for (int passes = (twos + 3) / 4; passes > 0; --passes) {
    const int taken = twos / passes;
    out.push_back(1 << taken);
    twos -= taken;
  }
  for (int factor : library_ops::fourier::kFactors)
    for (; factor > 2 && points % factor == 0; points /= factor) out.push_back(factor);
  return out;
}

}  // namespace

TransformPlan plan_transform(const TransformFacts& facts) {
  constexpr std::int64_t kPoints = 1024, kSideBySide = 16, kPointsOfThread = 16, kWarp = 32, kMostThreads = 512;
  const std::int64_t most = library_ops::fourier::longest_of_kernel(facts.bytes) / facts.points,
                     wanted = std::max(kPoints / facts.points, facts.side_by_side ? kSideBySide : 1),
                     sequences = std::clamp<std::int64_t>(wanted, 1, most),
                     threads = (sequences * facts.points / kPointsOfThread + kWarp - 1) / kWarp * kWarp;
  return {.config = {.threads = static_cast<int>(std::clamp(threads, kWarp, kMostThreads)),
                     .rows = static_cast<int>(sequences)},
          .factors = factors_of(facts.points)};
}

}  // namespace coil::codegen
