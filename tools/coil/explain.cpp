// `coil explain`: what became of a program, on the terminal or as a page.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "command.h"
#include "options.h"
#include "support/file.h"

namespace coil::cli {
namespace {

struct ExplainCommand {
  ModelOptions model;
  std::filesystem::path html;
  bool measure = false;

  void run() {
    model.finish();
    std::optional<Progress> progress(std::in_place, "compiling " + model.model.string());
    const std::string text = html.empty() ? coil::compile(model.model, model.compile).report.text
                                          : explain_page(model.model, model.compile, measure);
    progress.reset();
    if (html.empty())
      fmt::print("{}", text);
    else
      write_file(html, text);
  }
};

}  // namespace

void add_explain(CLI::App& app) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* sub = app.add_subcommand("explain", "Show kernels, fusions and refusals, memory over time");
  add_model_options(*sub, command->model, false);
  sub->add_option("--html", command->html, "Write one self-contained page instead")->type_name("FILE");
  sub->add_flag("--measure", command->measure,
                "With --html: run the program on the archive's sample inputs and show the time of each call");
  sub->footer("Example:\n  coil explain bert.pt2 --html bert.html");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
