// A program on the level of loops as text: what `coil opt` reads, steps over and prints.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_nest.h"
#include "compiler/machine.h"
#include "compiler/pipelines.h"
#include "scheduler/schedule.h"

namespace coil {

/// Loops, and what was made of them so far. Each later part is made from the one before, and ends what the earlier ones
/// can be asked.
struct LoopProgram {
  std::unique_ptr<ir::Graph> graph;
  std::optional<scheduler::Schedule> schedule;
  std::optional<std::vector<codegen::LoopNest>> nests;
  std::optional<std::string> kernels;  ///< the text of all, each behind a comment that says how it is called
};

/// Throws Error with the place.
LoopProgram parse_loop_program(std::string_view text);
std::string to_string(const LoopProgram&);

/// A step from one part to the next, under the name that `coil opt --pass` has for it.
struct LoopStage {
  std::string_view name, sentence;
  void (*run)(LoopProgram&, const Machine&);
  std::string_view device = {};  ///< of one that only that kind of device has: its name
};
std::span<const LoopStage> loop_stages();

}  // namespace coil
