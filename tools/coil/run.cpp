// `coil run`: one call, its results to a file or a summary of them to the terminal.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "inputs.h"
#include "tensor/safetensors.h"

namespace coil::cli {
namespace {

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::filesystem::path output;

  void run() {
    model.finish();
    ReadyProgram program = make_ready(model);
    std::vector<Tensor> given = make_inputs(program, inputs);
    if (inputs.seed_given) program.model->seed(inputs.seed);
    runtime::Context context(program.model);
    context.set_recording(model.record);
    runtime::RunResult result = context.run(given);
    context.wait();
    for (Tensor& t : result.outputs)
      if (t.storage.data) t = context.to_host(t);
    std::map<std::string, Tensor> named = named_results(program.model->plan(), result, given);
    if (!output.empty()) {
      write_safetensors(output, named);
      return;
    }
    for (const auto& [name, tensor] : named) fmt::print("{}: {}\n", name, type_of(tensor));
  }
};

}  // namespace

void add_run(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = app.add_subcommand("run", "Run a package or an exported program once");
  add_model_options(*sub, command->model, true);
  add_input_options(*sub, command->inputs);
  sub->add_option("--outputs", command->output, "Where results go (default: their names and shapes to the terminal)")
      ->type_name("OUT.safetensors");
  sub->footer("Example:\n  coil run bert.coil --inputs in.safetensors --outputs out.safetensors");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
