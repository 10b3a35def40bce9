// `coil explain`: what became of a program, on the terminal or as a page.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "command.h"
#include "html.h"
#include "options.h"
#include "runtime/shape_program.h"
#include "support/file.h"

namespace coil::cli {
namespace {

/// Bytes of each buffer of the plan for the sizes of the sample inputs; none when sizes are dynamic and there are no samples.
std::vector<std::uint64_t> buffer_bytes(const runtime::Program& program) {
  const runtime::Plan& plan = program.plan;
  std::vector<std::int64_t> slots(plan.shape_program.size());
  if (program.sample_inputs.size() != plan.inputs.size()) return {};
  runtime::run_shape_program(plan.shape_program, program.sample_inputs, slots);
  std::vector<std::uint64_t> bytes;
  for (const runtime::Buffer& buffer : plan.buffers) bytes.push_back(static_cast<std::uint64_t>(slots.at(buffer.bytes)));
  return bytes;
}

struct ExplainCommand {
  ModelOptions model;
  std::filesystem::path html;

  void run() {
    model.finish();
    std::optional<Progress> progress(std::in_place, "compiling " + model.model.string());
    Compiled compiled = coil::compile(model.model, model.compile);
    progress.reset();
    if (html.empty()) {
      fmt::print("{}", compiled.report.text);
      return;
    }
    const runtime::Program& program = *compiled.program;
    write_file(html, html_page(model.model.filename().string(), program, compiled.report, live_bytes(program.plan, buffer_bytes(program))));
  }
};

}  // namespace

void add_explain(CLI::App& app) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* sub = app.add_subcommand("explain", "Show kernels, fusions and refusals, memory over time");
  add_model_options(*sub, command->model, false);
  sub->add_option("--html", command->html, "Write one self-contained page instead")->type_name("FILE");
  sub->footer("Example:\n  coil explain bert.pt2 --html bert.html");
  sub->callback([command] { command->run(); });
}

}  // namespace coil::cli
