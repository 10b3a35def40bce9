// Times the stages of a compile, and logs what each made: to stderr, or into a folder.
#pragma once
#include <chrono>
#include <filesystem>

#include "coil/coil.h"
#include "support/log.h"

namespace coil {

/// The folder has the graph after each pass that changed it (`00_graph.txt`, `03_functionalize.txt`), and under the
/// names that Inductor's users know: `fx_graph_transformed.txt`, `ir_pre_fusion.txt`, `ir_post_fusion.txt`,
/// `wrapper.txt`, `kernels.cpp`, `timings.txt`.
class Stages {
 public:
  Stages(CompileReport& report, const CompileOptions& options)
      : report_(report),
        log_(LogOptions{.stages = {options.log.begin(), options.log.end()}}),
        folder_(options.debug_dir) {}
  /// Throws Error where the folder cannot be written to.
  void write_timings() const;

  template <class F>
  auto operator()(const char* name, F&& f) {
    const auto start = Clock::now();
    auto record = [&] {
      report_.stages.emplace_back(name, std::chrono::duration<double>(Clock::now() - start).count());
    };
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      record();
    } else {
      auto result = f();
      record();
      return result;
    }
  }

  /// `text` is only called when the stage is logged.
  template <class F>
  void show(const char* stage, F&& text) {
    if (!folder_ && !log_.enabled(stage)) return;
    const std::string now = text();
    if (log_.enabled(stage)) log_.write(stage, now);
    if (folder_) keep(stage, now);
  }

  /// The graph after a stage; only a note where it is as it was last shown.
  template <class F>
  void show_changed(const char* stage, F&& text) {
    if (!folder_ && !log_.enabled(stage)) return;
    std::string now = text();
    if (log_.enabled(stage)) log_.write(stage, now == shown_ ? "changed nothing" : now);
    if (folder_) keep_graph(stage, now);
    if (log_.enabled(stage)) shown_ = std::move(now);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void keep(std::string_view stage, const std::string& text) const;
  void keep_graph(std::string_view stage, const std::string& text);
  CompileReport& report_;
  Log log_;
  std::optional<std::filesystem::path> folder_;
  std::string shown_, kept_;  ///< the graph as it was last logged, last written
  int graphs_ = 0;
};

}  // namespace coil
