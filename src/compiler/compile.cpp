#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "compiler/report.h"
#include "runtime/executor.h"
#include "support/file.h"

namespace coil {

namespace {

/// `lower(stage)` gives the program as wrapper lines.
template <class F>
Compiled compile_lowered(const CompileOptions& options, F&& lower) {
  Compiled out;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(out.report, options);
  Lowered lowered = lower(stage);
  wrapper::Program& lines = lowered.lines;

  out.program = std::make_shared<runtime::Program>(assemble(lines, *lowered.backend, options, stage));
  if (lowered.source.sample_inputs) out.program->sample_inputs = std::move(*lowered.source.sample_inputs);

  if (options.provenance) {
    const std::string text = stage("provenance", [&] { return provenance_json(lowered, "package", {}); });
    stage("write provenance", [&] { write_file(*options.provenance, text); });
  }
  describe_program(out.report, lines);
  out.report.text = report_text(out.report, lowered.source_lines, *lowered.graph, lowered.schedule, lines);
  stage.write_timings();
  out.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  return compile_lowered(options, [&](Stages& stage) { return lower_archive(pt2, options, stage, options.provenance.has_value()); });
}

Compiled compile_program(frontend::ExportedProgram source, const CompileOptions& options) {
  return compile_lowered(options, [&](Stages& stage) { return lower_program(std::move(source), options, stage, options.provenance.has_value()); });
}

}  // namespace coil
