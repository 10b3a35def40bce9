#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "compiler/torch_package.h"
#include "runtime/plan/memory_need.h"
#include "support/error.h"
#include "support/file.h"
#include "wrapper/emit_cpp.h"
#include "wrapper/emitters.h"
#include "wrapper/fill_constants.h"
#include "wrapper/plan.h"
#include "wrapper/weights_file.h"

namespace coil {
namespace {

bool has_weights(const wrapper::Program& lines) {
  const auto places = wrapper::place_weights(lines);
  return std::any_of(places.begin(), places.end(), [](const auto& p) { return p.has_value(); });
}

/// A program written as source allocates as it runs, and counts nothing before.
void keep_memory_limit(const wrapper::Program& lines, std::int64_t limit, const std::string& language) {
  if (limit == 0 || language == "wrapper") return;
  const auto is_free = [](const wrapper::Buffer& b) {
    const bool counts = b.kind == wrapper::BufferKind::Temporary || b.kind == wrapper::BufferKind::Output;
    return counts && !b.bytes.constant();
  };
  if (std::ranges::any_of(lines.buffers, is_free))
    fail(
        "memory.limit with free sizes is for packages and torch.compile, which count what a call needs before it runs; "
        "programs in {} do not: leave it out, or fix the sizes",
        language);
  runtime::Plan plan = wrapper::make_plan(lines);
  plan.memory_limit = static_cast<std::uint64_t>(limit);
  runtime::check_memory_limit(plan);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail("cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace

void emit(const std::filesystem::path& pt2, const std::string& language, const std::filesystem::path& output,
          const CompileOptions& given) {
  if (language == wrapper::kTorchPackage) return emit_torch_package(pt2, output, given);
  const std::unique_ptr<wrapper::Emitter> emitter = wrapper::make_emitter(language);
  CompileOptions options = given;
  if (!emitter->reads_packed_weights()) options.settings["pack_weights"] = "false";
  if (!emitter->reads_packed_weights() && parse_settings(options.settings).batch_invariant)
    fail(
        "programs in {} may call torch's products, whose bits depend on the batch: deterministic=batch is for packages "
        "and C++",
        language);
  CompileReport report;
  Stages stage(report, options);
  LoweredProgram lowered = lower_archive(pt2, options, stage, true);
  keep_memory_limit(lowered.lines, parse_settings(options.settings).memory_limit, language);
  if (!emitter->writes_several_devices()) wrapper::require_one_device(lowered.lines, language.c_str());
  const bool printed = output == "-";
  if (printed && language != "wrapper" && has_weights(lowered.lines))
    fail(
        "{} has weights, which its program in {} reads from a file beside it: it cannot go to standard output; name a "
        "file",
        pt2.string(), language);
  const std::filesystem::path place = printed ? "program" : output,
                              weights = std::filesystem::path(place).replace_extension(".weights.safetensors");
  codegen::Binaries binaries;
  if (emitter->needs_binaries(lowered.lines)) {
    compile_triton_kernels(lowered.lines, *lowered.machine.backend, options, stage);
    binaries = compile_kernels(lowered.lines, *lowered.machine.backend, options, stage);
  }
  const std::string source =
      emitter->emit(lowered.lines, {.lanes = lowered.machine.toolchain.lanes,
                                    .isa = lowered.machine.backend->isa(),
                                    .host_isa = lowered.machine.toolchain.isa,
                                    .flags = lowered.machine.toolchain.flags,
                                    .dependent_launches = launches_early(lowered.machine, lowered.lines),
                                    .binaries = std::move(binaries.libraries),
                                    .source_name = place.filename().string(),
                                    .weights_name = weights.filename().string()});
  // All files or none: each is on the disk before the first gets its name.
  std::vector<std::unique_ptr<AtomicFile>> files;
  const auto add = [&](const std::filesystem::path& path, std::string_view content) {
    files.push_back(std::make_unique<AtomicFile>(path));
    files.back()->write(content);
    files.back()->complete();
  };
  if (!printed) {
    wrapper::fill_constants(lowered.lines.constants, jobs_of(options));
    if (auto file = wrapper::write_weights(lowered.lines, weights)) files.push_back(std::move(file));
    if (language == "cpp")
      add(std::filesystem::path(output).replace_extension(".cmake"), wrapper::cpp_cmake(output.filename().string()));
  }
  if (options.provenance) add(*options.provenance, provenance_json(lowered, language, emitter->lines()));
  if (!printed) add(output, source);
  stage.write_timings();
  for (const auto& file : files) file->commit();
  if (printed) print(source);
}

}  // namespace coil
