#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "compiler/report.h"
#include "compiler/resources_text.h"
#include "compiler/signature.h"
#include "compiler/torch_package.h"
#include "runtime/executor/executor.h"
#include "support/error.h"
#include "support/file.h"
#include "wrapper/emitter.h"

namespace coil {

namespace {

bool wants_provenance(const CompileOptions& options) {
  return options.provenance || parse_settings(options.settings).provenance;
}

std::string resources_of(const Machine& machine, const wrapper::Program& lines, const runtime::StoredProgram& program) {
  std::string text = resources_text(lines, *machine.backend, program.libraries);
  for (std::size_t k = 0; k < program.other_libraries.size(); ++k)
    text += resources_text(lines, machine.backend_of(program.plan.others[k].device), program.other_libraries[k]);
  return text;
}

/// `lower(stage)` gives the program as wrapper lines; `look(lowered, program)` sees what was made of them.
template <class F, class Look>
Compiled compile_lowered(const CompileOptions& options, F&& lower, Look&& look) {
  Compiled out;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(out.report, options);
  LoweredProgram lowered = lower(stage);
  wrapper::Program& lines = lowered.lines;

  out.program = std::make_shared<runtime::StoredProgram>(assemble(lines, lowered.machine, options, stage));
  out.program->plan.signature = signature_of(lowered.source, out.program->plan);
  look(lowered, *out.program);
  if (lowered.source.sample_inputs) out.program->sample_inputs = std::move(*lowered.source.sample_inputs);

  if (wants_provenance(options)) {
    out.program->provenance = stage("provenance", [&] { return provenance_json(lowered, "package", {}); });
    if (options.provenance)
      stage("write provenance", [&] { write_file(*options.provenance, out.program->provenance); });
    if (!parse_settings(options.settings).provenance) out.program->provenance.clear();
  }
  describe_program(out.report, lines);
  out.report.resources = resources_of(lowered.machine, lines, *out.program);
  out.report.text = report_text(out.report, lowered.source_lines, *lowered.graph, lowered.schedule, lines,
                                lowered.machine.target().costs);
  stage.write_timings();
  out.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace

constexpr auto kNobodyLooks = [](const LoweredProgram&, const runtime::StoredProgram&) {};

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  return compile_lowered(
      options, [&](Stages& stage) { return lower_archive(pt2, options, stage, wants_provenance(options)); },
      kNobodyLooks);
}

void emit_torch_package(const std::filesystem::path& pt2, const std::filesystem::path& output,
                        const CompileOptions& given) {
  if (output == "-") fail("a package for torch cannot go to standard output; name a file");
  CompileOptions options = given;
  options.settings.try_emplace("keep_weights", "true");
  const Settings settings = parse_settings(options.settings);
  runtime::TorchInterface interface;
  Compiled compiled = compile_lowered(
      options,
      [&](Stages& stage) {
        LoweredProgram lowered = lower_archive(pt2, options, stage, wants_provenance(options));
        wrapper::require_ends_on_one_device(lowered.lines, "aoti");
        return lowered;
      },
      [&](const LoweredProgram& lowered, const runtime::StoredProgram& program) {
        interface = torch_interface(lowered, program.plan, settings);
      });
  compiled.program->sample_inputs.clear();
  write_torch_package(*compiled.program, interface, output);
}

Compiled compile_program(frontend::ExportedProgram source, const CompileOptions& options) {
  return compile_lowered(
      options,
      [&](Stages& stage) { return lower_program(std::move(source), options, stage, wants_provenance(options)); },
      kNobodyLooks);
}

}  // namespace coil
