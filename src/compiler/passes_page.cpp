// docs/passes.md, made of the pipelines' tables.
#include "compiler/loop_program.h"
#include "compiler/pipelines.h"
#include "compiler/stages.h"

namespace coil {
namespace {

/// Whether a step runs for a target with the settings that nobody changed.
template <class Step>
bool runs(const Step& step, const target::Target& target) {
  const Settings settings;
  return step.when(target, settings) && step.pass->enabled(target, settings);
}

template <class Step>
std::string rows(std::span<const Step> steps) {
  const target::Target cpu = target::cpu("avx512"), gpu = target::cuda(0, "sm_90");
  std::string text = "| pass | what it does | cpu | cuda |\n| --- | --- | --- | --- |\n";
  for (const Step& step : steps)
    text += fmt::format("| `{}` | {} | {} | {} |\n", step.pass->name, step.pass->sentence, runs(step, cpu) ? "yes" : "",
                        runs(step, gpu) ? "yes" : "");
  return text + "\n";
}

}  // namespace

std::string passes_page() {
  std::string text =
      "# Passes\n\n"
      "`coil opt --list-passes` prints this page, from the tables that the compiler runs "
      "(`src/compiler/pipelines.cpp`); `test/python/test_passes.py --write` writes it.\n\n"
      "Passes run in this order; the last columns say for which device, when no setting was changed. "
      "`coil opt --pass NAME FILE` runs one alone on a program as text. Of a compile, `--log NAME` prints what a pass "
      "made, `--debug-dir DIR` keeps what each made that changed something, and `coil explain` says how long each "
      "took. "
      "With `--set verify=true` (which is on in debug builds) the program is verified after each.\n\n";
  text += "## On the graph\n\n" + rows(graph_pipeline());
  text += "## On loops\n\n" + rows(loop_pipeline());
  text += "## On the wrapper's lines\n\n" + rows(wrapper_pipeline());
  text +=
      "## From loops to kernels\n\nFor `coil opt --pass` on a file of loops: what the compiler does between passes."
      "\n\n| stage | what it makes |\n| --- | --- |\n";
  for (const LoopStage& stage : loop_stages()) text += fmt::format("| `{}` | {} |\n", stage.name, stage.sentence);
  text += "\n## What else `--log` shows\n\n| stage | what |\n| --- | --- |\n";
  for (const Stage* stage : kStages) text += fmt::format("| `{}` | {} |\n", stage->name, stage->sentence);
  return text;
}

}  // namespace coil
