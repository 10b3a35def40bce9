// `coil compile`: an exported program in, a package or the wrapper's source out.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "command.h"
#include "compiler/options.h"
#include "options.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/package.h"
#include "support/error.h"
#include "wrapper/emitters.h"

namespace coil::cli {
namespace {

struct CompileCommand {
  ModelOptions model;
  std::filesystem::path output;
  std::string emit = wrapper::kPackage;

  bool is_package() const { return emit == wrapper::kPackage || emit == wrapper::kTorchPackage; }

  void run() {
    model.finish();
    if (const auto names = wrapper::emitter_names();
        !is_package() && std::find(names.begin(), names.end(), emit) == names.end())
      throw CLI::ValidationError("--emit",
                                 fmt::format("{} not in {{package, aoti, {}}}", emit, fmt::join(names, ", ")));
    if (is_package() && output == "-")
      throw CLI::ValidationError("--output",
                                 "a package cannot go to standard output; name a file, or ask for a text with --emit");
    if (std::error_code none; std::filesystem::equivalent(model.model, output, none))
      throw CLI::ValidationError("--output",
                                 output.string() + " is the program, which would be lost; name another file");
    Progress progress("compiling " + model.model.string());
    if (emit != wrapper::kPackage) {
      coil::emit(model.model, emit, output, model.compile);
      return;
    }
    Compiled compiled = coil::compile(model.model, model.compile);
    runtime::save_package(*compiled.program, output);
    const CompileReport& r = compiled.report;
    fmt::print("{}: {} kernels, {} library calls, {:.1f} MiB of weights, compiled in {:.2f} s\n", output.string(),
               r.kernels, r.extern_calls, r.weight_bytes / 1048576.0, r.seconds);
  }
};

}  // namespace

void add_compile(CLI::App& app) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App* sub = app.add_subcommand("compile", "Compile an exported program to a package");
  add_model_options(*sub, command->model, false);
  sub->add_option("-o,--output", command->output, "File to write; - prints what --emit writes as one text")
      ->required()
      ->type_name("OUT");
  sub->add_option(
         "--emit", command->emit,
         "What to write: package; aoti, a .pt2 that torch's loaders of AOTInductor packages load; or the wrapper "
         "as cpp, python or fx source, or as its own text (wrapper); default package")
      ->type_name("WHAT");
  sub->add_option_function<std::string>(
         "--provenance", [command](const std::string& file) { command->model.compile.provenance = file; },
         "Also write where each call comes from, as JSON")
      ->type_name("FILE");
  std::string settings;
  for (const SettingHelp& setting : settings_help())
    settings += fmt::format("  {:16} {} ({})\n", setting.key, setting.text, setting.values);
  sub->footer("Settings:\n" + settings +
              "\nExample:\n  coil compile bert.pt2 -o bert.coil --threads 2 --set cpu.isa=avx2");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
