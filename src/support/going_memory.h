// Memory of a program's inputs that its caller lets go of while a run lasts: what a forward graph saved for a backward
// graph is such.
#pragma once
#include <cstdint>

namespace coil {

/// It goes with the last of its inputs that is used.
struct GoingMemory {
  std::uint32_t number = 0;  ///< inputs of one number are views of one memory
  std::uint64_t bytes = 0;   ///< of all of it; 0: what the input spans
};

}  // namespace coil
