#include <memory>
#include <vector>

#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "support/file.h"
#include "wrapper/emit_cpp.h"
#include "wrapper/emitters.h"
#include "wrapper/weights_file.h"

namespace coil {

void emit(const std::filesystem::path& pt2, const std::string& language, const std::filesystem::path& output, const CompileOptions& given) {
  const std::unique_ptr<wrapper::Emitter> emitter = wrapper::make_emitter(language);
  CompileOptions options = given;
  if (!emitter->reads_packed_weights()) options.settings["pack_weights"] = "false";
  CompileReport report;
  Stages stage(report, options);
  const Lowered lowered = lower_archive(pt2, options, stage, true);
  const std::filesystem::path weights = std::filesystem::path(output).replace_extension(".weights.safetensors");
  const std::string source = emitter->emit(lowered.lines, {.lanes = lowered.toolchain.lanes, .isa = lowered.toolchain.isa, .flags = lowered.toolchain.flags, .launches_early = lowered.backend->launches_early(),
                                                           .source_name = output.filename().string(), .weights_name = weights.filename().string()});
  // All files or none: each is on the disk before the first gets its name.
  std::vector<std::unique_ptr<AtomicFile>> files;
  const auto add = [&](const std::filesystem::path& path, std::string_view content) {
    files.push_back(std::make_unique<AtomicFile>(path));
    files.back()->write(content);
    files.back()->complete();
  };
  if (auto file = wrapper::write_weights(lowered.lines, weights)) files.push_back(std::move(file));
  if (language == "cpp") add(std::filesystem::path(output).replace_extension(".cmake"), wrapper::cpp_cmake(output.filename().string()));
  if (options.provenance) add(*options.provenance, provenance_json(lowered, language, emitter->lines()));
  add(output, source);
  stage.write_timings();
  for (const auto& file : files) file->commit();
}

}  // namespace coil
