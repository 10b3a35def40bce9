// Copies from a device to the CPU that the host does not wait for at once: whose memory they write to.
#pragma once
#include <set>
#include <vector>

#include "wrapper/program.h"

namespace coil::wrapper {

struct LandingMemory {
  std::vector<BufferId> memory;  ///< for each buffer the first that had its memory
  std::set<BufferId> ever;       ///< of those the ones that such a copy writes to somewhere in the program
};
LandingMemory landing_memory(const Program&);

}  // namespace coil::wrapper
