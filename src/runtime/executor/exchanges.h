// What a program exchanges with other processes, and in which groups.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace coil::runtime {

struct Exchanges {
  std::vector<std::string> groups;  ///< each once, in the order in which the program comes to them
  /// The program's exchanges in order (off the host also which of them start together), and where communication buffers
  /// lie. Ranks whose texts are equal can run their programs with one another. Groups are numbers in it, since their
  /// names differ between ranks.
  std::string text;
};
Exchanges exchanges_of(const Plan&);

}  // namespace coil::runtime
