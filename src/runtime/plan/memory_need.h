// How much memory a program needs, for limits and for messages when memory is out.
#pragma once
#include <span>
#include <string>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// Bytes that a program has at once.
struct MemoryNeed {
  std::uint64_t temporaries = 0, scratch = 0, outputs = 0, weights = 0;
  std::uint64_t total() const;  ///< at most the largest 64-bit number
};

/// `1.5 GiB`.
std::string in_binary_units(std::uint64_t bytes);

/// The ten largest buffers of those that are live where most is, with what makes each and the line of the program:
/// `buf3, 32.0 MiB: sin_2 (model.py:12); …`. `bytes` of each buffer, 0 of those in the memory of another.
std::string largest_buffers(const Plan&, std::span<const std::uint64_t> bytes);

/// `needs 1.5 GiB (1.4 GiB of temporaries, …); the largest that are live at once: …`, with the buffers as above.
std::string needs_and_buffers(const Plan&, const MemoryNeed&, std::span<const std::uint64_t> bytes);

/// Throws OutOfMemory where a plan that has a limit (Plan::memory_limit) needs more.
void check_memory_limit(const Plan&, const MemoryNeed&, std::span<const std::uint64_t> bytes);
/// Throws OutOfMemory likewise before there are sizes; does nothing where they are free.
void check_memory_limit(const Plan&);

}  // namespace coil::runtime
