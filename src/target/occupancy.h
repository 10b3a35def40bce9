// How many blocks of a kernel a multiprocessor holds at once, by the limits of its architecture.
#pragma once
#include <optional>
#include <string_view>

#include "target/target.h"

namespace coil::target {

struct BlockNeeds {
  int threads = 0;
  int registers = 0;              ///< of a thread
  std::int64_t shared_bytes = 0;  ///< static and dynamic
};

struct Occupancy {
  int blocks = 0;          ///< of a multiprocessor, at once
  double share = 0;        ///< of the threads that it could hold
  std::string_view limit;  ///< what there is no more of: `threads`, `blocks`, `registers`, `shared memory`
};

/// Nothing for a target whose architecture has no such limits that are known.
std::optional<Occupancy> occupancy(const Target&, const BlockNeeds&);

}  // namespace coil::target
