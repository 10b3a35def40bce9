// The loop over a pipeline's passes: each is timed, shown where somebody looks, and what it made is verified.
#pragma once
#include <exception>

#include "compiler/pipelines.h"
#include "compiler/stages.h"
#include "support/error.h"

namespace coil {

/// Runs those steps that are for this target and these settings, in order.
template <class Program, class Given>
void run_passes(std::span<const passes::Step<Program, Given>> steps, Program& program, const Given& given,
                Stages& stages) {
  std::optional<std::string> before;  // the program's text, where it is known
  for (const passes::Step<Program, Given>& step : steps) {
    const passes::Pass<Program, Given>& pass = *step.pass;
    if (!step.when(given.target, given.settings) || !pass.enabled(given.target, given.settings)) continue;
    const bool shown = stages.shows(pass.name);
    if (shown && !before) before = print(program);
    stages(pass.name, [&] { pass.run(program, given); });
    if (given.settings.verify) try {
        verify_between(program);
      } catch (const std::exception& e) {
        fail("{} left a program that does not hold: {}", pass.name, e.what());
      }
    if (!shown) {
      before.reset();
      continue;
    }
    std::string now = print(program);
    stages.show_pass(pass.name, now, now != *before);
    before = std::move(now);
  }
}

}  // namespace coil
