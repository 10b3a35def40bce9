// Times the stages of a compile, and shows what each made: on stderr, or in a folder.
#pragma once
#include <chrono>
#include <filesystem>

#include "coil/coil.h"
#include "support/log.h"

namespace coil {

/// A stage between passes whose result can be shown.
struct Stage {
  std::string_view name;      ///< as it is called in logs
  std::string_view file;      ///< in the folder of --debug-dir
  std::string_view sentence;  ///< what it shows
};
inline constexpr Stage kStageGraph{"graph", "00_graph.txt", "the graph as it came"};
inline constexpr Stage kStageTransformed{"transformed", "fx_graph_transformed.txt",
                                         "the graph after the passes over it"};
inline constexpr Stage kStageLower{"lower", "ir_pre_fusion.txt", "loops and library calls, one for each operator"};
inline constexpr Stage kStageIr{"ir", "ir_pre_fusion.txt", "the same after the passes over it"};
inline constexpr Stage kStageSchedule{"schedule", "ir_post_fusion.txt", "which operations share a kernel, in order"};
inline constexpr Stage kStageSplit{"split-for-memory", "split_for_memory.txt",
                                   "the same with kernels taken apart that would hold too much memory at once"};
inline constexpr Stage kStageProducts{"products", "products.txt",
                                      "which products a kernel of Coil's own was faster for"};
inline constexpr Stage kStageAutotune{"autotune", "autotune.txt", "what was timed on the device"};
inline constexpr Stage kStageWrapper{"wrapper", "wrapper.txt",
                                     "the lines around the kernels, after the passes over them"};
inline constexpr Stage kStageKernels{"kernels", "kernels.cpp", "the kernels' text"};
inline constexpr Stage kStagePtx{"ptx", "kernels.ptx", "the same as PTX, on a GPU of NVIDIA's"};
inline constexpr Stage kStageSass{"sass", "kernels.sass",
                                  "and as the instructions of the GPU, by the nvdisasm of CUDA's toolkit"};
inline constexpr Stage kStageResources{"resources", "resources.txt",
                                       "what each takes of a GPU's multiprocessor: registers, shared memory, memory "
                                       "for what registers do not hold, and how "
                                       "many blocks fit at once"};
inline constexpr const Stage* kStages[] = {
    &kStageGraph,    &kStageTransformed, &kStageLower,   &kStageIr,  &kStageSchedule, &kStageSplit,    &kStageProducts,
    &kStageAutotune, &kStageWrapper,     &kStageKernels, &kStagePtx, &kStageSass,     &kStageResources};

/// The folder has what each pass made that changed something (`00_graph.txt`, `03_functionalize.txt`), and under the
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
  auto operator()(std::string_view name, F&& f) {
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

  /// Whether anybody looks at what a stage or pass of this name makes.
  bool shows(std::string_view name) const { return folder_ || log_.enabled(name); }
  /// `text` is only called when somebody looks.
  template <class F>
  void show(const Stage& stage, F&& text) {
    if (shows(stage.name)) write(stage, text());
  }
  /// Shows a text that may be empty: then nothing is written.
  template <class F>
  void show_any(const Stage& stage, F&& text) {
    if (!shows(stage.name)) return;
    if (const std::string made = text(); !made.empty()) write(stage, made);
  }
  /// What a pass made; of one that changed nothing only that.
  void show_pass(std::string_view name, const std::string& text, bool changed);

 private:
  using Clock = std::chrono::steady_clock;
  void write(const Stage& stage, const std::string& text);
  CompileReport& report_;
  Log log_;
  std::optional<std::filesystem::path> folder_;
  int shown_ = 1;  ///< number of the next pass's file
};

}  // namespace coil
