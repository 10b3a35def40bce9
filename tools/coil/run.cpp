// `coil run`: one call, its results to a file or a summary of them to the terminal.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <thread>

#include "command.h"
#include "inputs.h"
#include "ranks.h"
#include "tensor/safetensors.h"

namespace coil::cli {
namespace {

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::filesystem::path output;
  int ranks = 0;

  void run() {
    if (ranks > 0) return run_ranks(ranks);
    const auto rank = rank_of_environment();
    if (rank) take_place(*rank);
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
    if (!output.empty() && rank && rank->rank != 0 && of_rank(output) == output) return;  // it is rank 0's
    if (!output.empty()) {
      output = of_rank(output);
      write_safetensors(output, named);
      return;
    }
    const std::string who = rank ? fmt::format("rank {}: ", rank->rank) : "";
    for (const auto& [name, tensor] : named) fmt::print("{}{}: {}\n", who, name, type_of(tensor));
  }

  /// Makes this run one of several processes: files of its own, and its share of the processor.
  void take_place(Rank rank) {
    model.model = of_rank(model.model);
    inputs.file = of_rank(inputs.file);
    if (model.compile.threads == 0)
      model.compile.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / rank.size);
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
  sub->add_option("--ranks", command->ranks,
                  "Run in this many processes, which exchange values; {rank} in a path is each one's rank, and results "
                  "go to a path without it from rank 0")
      ->check(CLI::Range(1, 1024));
  sub->footer("Example:\n  coil run bert.coil --inputs in.safetensors --outputs out.safetensors");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
