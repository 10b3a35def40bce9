#include "target/occupancy.h"

#include <algorithm>
#include <array>

namespace coil::target {
namespace {

/// The table of compute capabilities in CUDA's programming guide. All have 64 Ki registers.
struct Limits {
  int generation;  ///< 90 of sm_90; a later one of the same major number, without an entry, is as this
  int threads, blocks;
  std::int64_t shared_bytes;
};
constexpr std::int64_t kKiB = 1 << 10;
constexpr std::array kLimits{
    Limits{70, 2048, 32, 96 * kKiB},  Limits{75, 1024, 16, 64 * kKiB},   Limits{80, 2048, 32, 164 * kKiB},
    Limits{86, 1536, 16, 100 * kKiB}, Limits{87, 1536, 16, 164 * kKiB},  Limits{89, 1536, 24, 100 * kKiB},
    Limits{90, 2048, 32, 228 * kKiB}, Limits{100, 2048, 32, 228 * kKiB}, Limits{120, 1536, 24, 100 * kKiB}};
constexpr int kRegisters = 64 << 10, kQuarters = 4;   // of a multiprocessor, in as many parts, of which warps have one
constexpr int kRegistersAtOnce = 256;                 // that a warp gets a multiple of
constexpr int kSharedAtOnce = 128, kReserved = 1024;  // from 8.0 on the machine keeps some of each block's
constexpr int kFirstWithReserved = 80;

const Limits* limits_of(const Target& target) {
  const Limits* found = nullptr;
  for (const Limits& l : kLimits)
    if (l.generation <= target.generation && l.generation / 10 == target.generation / 10) found = &l;
  return found;
}

std::int64_t up_to(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

std::optional<Occupancy> occupancy(const Target& target, const BlockNeeds& needs) {
  const Limits* limits = limits_of(target);
  const int warp = target.costs.threads_of_warp;
  if (!limits || warp == 0 || needs.threads <= 0) return std::nullopt;
  const std::int64_t warps = (needs.threads + warp - 1) / warp, reserved = target.generation >= kFirstWithReserved;
  Occupancy out{limits->blocks, 0, "blocks"};
  const auto at_most = [&](std::int64_t blocks, std::string_view limit) {
    if (blocks <= out.blocks) out = {static_cast<int>(blocks), 0, limit};
  };
  const std::int64_t shared = up_to(needs.shared_bytes + reserved * kReserved, kSharedAtOnce);
  if (shared > 0) at_most(limits->shared_bytes / shared, "shared memory");
  if (needs.registers > 0) {
    const std::int64_t of_warp = up_to(std::int64_t{needs.registers} * warp, kRegistersAtOnce);
    at_most(kRegisters / kQuarters / of_warp * kQuarters / warps, "registers");
  }
  at_most(limits->threads / warp / warps, "threads");
  out.share = static_cast<double>(out.blocks * warps * warp) / limits->threads;
  return out;
}

}  // namespace coil::target
