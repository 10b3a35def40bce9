#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "compiler/report.h"
#include "compiler/signature.h"
#include "runtime/executor/executor.h"
#include "support/file.h"

namespace coil {

namespace {

bool wants_provenance(const CompileOptions& options) {
  return options.provenance || parse_settings(options.settings).provenance;
}

/// `lower(stage)` gives the program as wrapper lines.
template <class F>
Compiled compile_lowered(const CompileOptions& options, F&& lower) {
  Compiled out;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(out.report, options);
  Lowered lowered = lower(stage);
  wrapper::Program& lines = lowered.lines;

  out.program = std::make_shared<runtime::Program>(assemble(lines, *lowered.machine.backend, options, stage));
  out.program->plan.signature = signature_of(lowered.source, out.program->plan);
  if (lowered.source.sample_inputs) out.program->sample_inputs = std::move(*lowered.source.sample_inputs);

  if (wants_provenance(options)) {
    out.program->provenance = stage("provenance", [&] { return provenance_json(lowered, "package", {}); });
    if (options.provenance)
      stage("write provenance", [&] { write_file(*options.provenance, out.program->provenance); });
    if (!parse_settings(options.settings).provenance) out.program->provenance.clear();
  }
  describe_program(out.report, lines);
  out.report.text = report_text(out.report, lowered.source_lines, *lowered.graph, lowered.schedule, lines);
  stage.write_timings();
  out.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  return compile_lowered(options,
                         [&](Stages& stage) { return lower_archive(pt2, options, stage, wants_provenance(options)); });
}

Compiled compile_program(frontend::ExportedProgram source, const CompileOptions& options) {
  return compile_lowered(options, [&](Stages& stage) {
    return lower_program(std::move(source), options, stage, wants_provenance(options));
  });
}

}  // namespace coil
