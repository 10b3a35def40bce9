#include "compiler/stages.h"

#include "support/error.h"
#include "support/file.h"

namespace coil {
namespace {

void write(const std::filesystem::path& folder, const std::string& name, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
  write_file(folder / name, text);
}

struct Name {
  std::string_view stage, file;
};
constexpr Name kNames[] = {{"lower", "ir_pre_fusion.txt"},
                           {"ir", "ir_pre_fusion.txt"},
                           {"schedule", "ir_post_fusion.txt"},
                           {"kernels", "kernels.cpp"}};

}  // namespace

void Stages::keep(std::string_view stage, const std::string& text) const {
  std::string name = std::string(stage) + ".txt";
  for (const Name& n : kNames)
    if (n.stage == stage) name = n.file;
  write(*folder_, name, text + (text.ends_with('\n') ? "" : "\n"));
}

void Stages::keep_graph(std::string_view stage, const std::string& text) {
  const int place = graphs_++;
  if (text == kept_) return;
  write(*folder_, fmt::format("{:02}_{}.txt", place, stage), text);
  write(*folder_, "fx_graph_transformed.txt", text);
  kept_ = text;
}

void Stages::write_timings() const {
  if (!folder_) return;
  std::string text;
  double total = 0;
  for (const auto& [stage, seconds] : report_.stages) {
    text += fmt::format("{:10.3f} ms  {}\n", seconds * 1e3, stage);
    total += seconds;
  }
  write(*folder_, "timings.txt", text + fmt::format("{:10.3f} ms  in all\n", total * 1e3));
}

}  // namespace coil
