// `coil opt` on loops: passes over them, their schedule, and the text of their kernels.
#include <algorithm>

#include <fmt/ranges.h>

#include "compiler/loop_program.h"
#include "compiler/options.h"
#include "opt.h"
#include "support/error.h"

namespace coil::cli {
namespace {

/// One of a loop program's steps: a pass over the loops, or a stage behind them.
struct LoopTask {
  const passes::LoopPass* pass = nullptr;
  const LoopStage* stage = nullptr;
};

std::vector<LoopTask> tasks_of(const std::vector<std::string>& names) {
  std::vector<LoopTask> out;
  std::vector<std::string_view> stage_names;
  for (const LoopStage& s : loop_stages()) stage_names.push_back(s.name);
  for (const std::string& name : names) {
    const auto stages = loop_stages();
    const auto stage = std::find_if(stages.begin(), stages.end(), [&](const LoopStage& s) { return s.name == name; });
    if (stage != stages.end())
      out.push_back({.stage = &*stage});
    else
      out.push_back({.pass = &find_pass(loop_pipeline(), name, stage_names)});
  }
  return out;
}

/// The device that the command names, or else the one whose kernels it wants.
Device device_of(const std::vector<LoopTask>& tasks, const OptOptions& options) {
  Device device = parse_device(options.compile.device);
  for (const LoopTask& task : tasks) {
    if (!task.stage || task.stage->device.empty()) continue;
    if (!options.device_given) device = {DeviceType::named(task.stage->device)};
    if (device.type.name() != task.stage->device) fail("{} is not for {}", task.stage->name, to_string(device));
  }
  return device;
}

}  // namespace

std::string opt_loop(const std::string& text, const OptOptions& options) {
  const std::vector<LoopTask> tasks = tasks_of(options.passes);
  LoopProgram program = parse_loop_program(text);
  if (!tasks.empty()) {
    const Settings settings = parse_settings(options.compile.settings);
    const Machine machine = make_machine(device_of(tasks, options), settings);
    program.graph->set_target(machine.target());
    const passes::LoopContext context{{machine.target(), settings}, [&](const ir::Extern& call) {
                                        return machine.carries_out(call, machine.target().device);
                                      }};
    for (const LoopTask& task : tasks) {
      if (program.kernels) fail("nothing comes after the text of kernels");
      if (task.stage) {
        task.stage->run(program, machine);
        continue;
      }
      if (program.schedule || program.nests) fail("{} comes before the schedule", task.pass->name);
      task.pass->run(*program.graph, context);
    }
  }
  return to_string(program);
}

}  // namespace coil::cli
