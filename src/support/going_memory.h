// Memory of a program's inputs that its caller lets go of while a run lasts: what a forward graph saved for a backward
// graph is such.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace coil {

/// Memory that goes with the last of its inputs that is used.
struct GoingMemory {
  std::uint32_t number = 0;  ///< inputs of one number are views of one memory
  std::uint64_t bytes = 0;   ///< of all of it; 0: what the input spans
  bool writable = false;     ///< a program may write there behind the last use, if all of it is the input's
};

/// What programs' texts have behind such an input.
inline std::string text_of(const GoingMemory& m) {
  return fmt::format(" goes {} {}{}", m.number, m.bytes, m.writable ? " writable" : "");
}

}  // namespace coil
