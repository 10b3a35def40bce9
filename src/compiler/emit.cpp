#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "support/error.h"
#include "support/file.h"
#include "wrapper/emit_cpp.h"
#include "wrapper/weights_file.h"

namespace coil {

void emit(const std::filesystem::path& pt2, const std::string& language, const std::filesystem::path& output, const CompileOptions& options) {
  if (language != "cpp") fail("there is no emitter for '{}'", language);
  CompileReport report;
  Stages stage(report, options);
  const Lowered lowered = lower_archive(pt2, options, stage);
  const std::filesystem::path weights = std::filesystem::path(output).replace_extension(".weights.safetensors");
  const std::string source = wrapper::emit_cpp(lowered.lines, {.lanes = lowered.toolchain.lanes, .isa = lowered.toolchain.isa, .flags = lowered.toolchain.flags,
                                                               .source_name = output.filename().string(), .weights_name = weights.filename().string()});
  wrapper::write_weights(lowered.lines, weights);
  write_file(output, source);
}

}  // namespace coil
