#include "runtime/device/threads.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace coil::runtime {
namespace {

std::atomic<int> g_threads{0};

#ifdef __SSE__
constexpr unsigned kDenormalModes = 0x8040;  // of MXCSR: results flushed to zero, operands taken for zero

unsigned denormal_mode() { return __builtin_ia32_stmxcsr() & kDenormalModes; }
void set_denormal_mode(unsigned mode) { __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~kDenormalModes) | mode); }
#else
unsigned denormal_mode() { return 0; }
void set_denormal_mode(unsigned) {}
#endif

/// The mode of a thread of the team before it took over another's.
thread_local unsigned t_own_denormal_mode = 0;
/// The mode that the innermost scope of this thread gave its team; nothing: there is none that gave one.
thread_local std::optional<unsigned> t_teams_mode;

}  // namespace

void set_threads(int threads) { g_threads.store(std::max(threads, 0), std::memory_order_relaxed); }

int thread_count() {
  const int chosen = g_threads.load(std::memory_order_relaxed);
  return chosen > 0 ? chosen : std::max(1, omp_get_max_threads());
}

int chunk_count(std::int64_t extent, std::int64_t grain, int threads) {
  return static_cast<int>(std::clamp<std::int64_t>(extent / std::max<std::int64_t>(grain, 1), 1, threads));
}

void parallel_for(KernelFunction kernel, void* const* buffers, const std::int64_t* scalars, std::int64_t extent,
                  int chunks) {
  // (Inside a team that may have none within it, opening one costs and gives nothing.)
  if (chunks <= 1 || omp_get_active_level() >= omp_get_max_active_levels()) {
    kernel(buffers, scalars, 0, extent);
    return;
  }
  // The whole team every time: libgomp ends and remakes threads when a team's size changes.
#pragma omp parallel
  {
    const std::int64_t team = omp_get_num_threads(), share = extent / chunks, rest = extent % chunks;
    for (std::int64_t chunk = omp_get_thread_num(); chunk < chunks; chunk += team) {
      const std::int64_t begin = chunk * share + std::min(chunk, rest);
      kernel(buffers, scalars, begin, begin + share + (chunk < rest));
    }
  }
}

ThreadScope::ThreadScope(int threads)
    : before_(omp_get_max_threads()), changed_(threads != before_), shares_mode_(denormal_mode() != 0) {
  if (changed_) omp_set_num_threads(threads);
  if (!shares_mode_) return;
  const unsigned mode = denormal_mode();
  teams_mode_before_ = std::exchange(t_teams_mode, mode);
  const bool outermost = !teams_mode_before_;
#pragma omp parallel
  {
    if (outermost) t_own_denormal_mode = denormal_mode();
    set_denormal_mode(mode);
  }
}

ThreadScope::~ThreadScope() {
  if (shares_mode_) {
    t_teams_mode = teams_mode_before_;
#pragma omp parallel
    set_denormal_mode(teams_mode_before_.value_or(t_own_denormal_mode));
  }
  if (changed_) omp_set_num_threads(before_);
}

}  // namespace coil::runtime
