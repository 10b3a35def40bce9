#include "compiler/stages.h"

#include "support/error.h"
#include "support/file.h"

namespace coil {
namespace {

void write_text(const std::filesystem::path& folder, std::string_view name, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
  write_file(folder / name, text);
}

}  // namespace

void Stages::write(const Stage& stage, const std::string& text) {
  if (log_.enabled(stage.name)) log_.write(stage.name, text);
  if (folder_) write_text(*folder_, stage.file, text + (text.ends_with('\n') ? "" : "\n"));
}

void Stages::show_pass(std::string_view name, const std::string& text, bool changed) {
  if (log_.enabled(name)) log_.write(name, changed ? text : "changed nothing");
  if (folder_ && changed) write_text(*folder_, fmt::format("{:02}_{}.txt", shown_, name), text);
  ++shown_;
}

void Stages::write_timings() const {
  if (!folder_) return;
  std::string text;
  double total = 0;
  for (const auto& [stage, seconds] : report_.stages) {
    text += fmt::format("{:10.3f} ms  {}\n", seconds * 1e3, stage);
    total += seconds;
  }
  write_text(*folder_, "timings.txt", text + fmt::format("{:10.3f} ms  in all\n", total * 1e3));
}

}  // namespace coil
