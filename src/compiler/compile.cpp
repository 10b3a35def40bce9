#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/report.h"
#include "runtime/executor.h"

namespace coil {

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  Compiled out;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(out.report, options);
  Lowered lowered = lower_archive(pt2, options, stage);
  wrapper::Program& lines = lowered.lines;

  out.program = std::make_shared<runtime::Program>(assemble(lines, lowered.toolchain, options, stage));
  if (lowered.source.sample_inputs) out.program->sample_inputs = std::move(*lowered.source.sample_inputs);

  out.report.kernels = static_cast<int>(lines.kernels.size());
  for (const runtime::Step& s : out.program->plan.steps) out.report.extern_calls += std::holds_alternative<runtime::ExternCall>(s);
  for (const runtime::Constant& c : out.program->plan.constants) out.report.weight_bytes += c.bytes;
  out.report.text = report_text(lowered.source_lines, *lowered.graph, lowered.schedule, lines, *out.program);
  out.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace coil
