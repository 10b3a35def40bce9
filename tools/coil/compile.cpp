// `coil compile`: an exported program in, a package or the wrapper's source out.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "compiler/options.h"
#include "options.h"
#include "runtime/executor.h"
#include "support/error.h"

namespace coil::cli {
namespace {

struct CompileCommand {
  ModelOptions model;
  std::filesystem::path output;
  std::string emit = "package";

  void run() {
    model.finish();
    Progress progress("compiling " + model.model.string());
    if (emit != "package") {
      coil::emit(model.model, emit, output, model.compile);
      return;
    }
    Compiled compiled = coil::compile(model.model, model.compile);
    runtime::save_package(*compiled.program, output);
    const CompileReport& r = compiled.report;
    fmt::print("{}: {} kernels, {} library calls, {:.1f} MiB of weights, compiled in {:.2f} s\n", output.string(), r.kernels, r.extern_calls, r.weight_bytes / 1048576.0, r.seconds);
  }
};

}  // namespace

void add_compile(CLI::App& app) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App* sub = app.add_subcommand("compile", "Compile an exported program to a package");
  add_model_options(*sub, command->model, false);
  sub->add_option("-o,--output", command->output, "File to write")->required()->type_name("OUT");
  sub->add_option("--emit", command->emit, "What to write: package, or the wrapper as cpp, python or fx source (default package)")
      ->check(CLI::IsMember({"package", "cpp", "python", "fx"}))
      ->type_name("WHAT");
  std::string settings;
  for (const SettingHelp& setting : settings_help()) settings += fmt::format("  {:16} {} ({})\n", setting.key, setting.text, setting.values);
  sub->footer("Settings:\n" + settings + "\nExample:\n  coil compile bert.pt2 -o bert.coil --threads 2 --set cpu.isa=avx2");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
