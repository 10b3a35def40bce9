// Runs kernels over their extent on OpenMP's threads: the same team that oneDNN uses, so that the two never contend.
#pragma once
#include <cstdint>
#include <optional>

namespace coil::runtime {

/// See KernelCall.
using KernelFunction = void (*)(void* const* buffers, const std::int64_t* scalars, std::int64_t begin,
                                std::int64_t end);

/// Sets the number of threads of kernels and library calls; 0 keeps the default (OpenMP's, which is all cores). Holds
/// from each context's next call.
void set_threads(int);
/// Threads that the next call will use, at least 1.
int thread_count();

/// Chunks worth making of [0, extent): at most one for each thread, each at least `grain` long.
int chunk_count(std::int64_t extent, std::int64_t grain, int threads);

/// Calls `kernel` on `chunks` contiguous parts of [0, extent). One chunk runs on the calling thread.
void parallel_for(KernelFunction kernel, void* const* buffers, const std::int64_t* scalars, std::int64_t extent,
                  int chunks);

/// Calls `body(begin, end)` on contiguous parts of [0, extent), at least `grain` long each, in parallel. `body` must
/// not throw.
template <class Body>
void parallel_ranges(std::int64_t extent, std::int64_t grain, const Body& body) {
  void* const state[] = {const_cast<Body*>(&body)};
  const KernelFunction call = [](void* const* buffers, const std::int64_t*, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(buffers[0]))(begin, end);
  };
  parallel_for(call, state, nullptr, extent, chunk_count(extent, grain, thread_count()));
}

/// Gives OpenMP `threads` threads for its lifetime, in the calling thread. Where that flushes denormals, which
/// torch.set_flush_denormal sets for its caller alone, they do too: results do not depend on who computes them.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
  bool changed_, shares_mode_;
  std::optional<unsigned> teams_mode_before_;  ///< given by a scope around this one
};

}  // namespace coil::runtime
