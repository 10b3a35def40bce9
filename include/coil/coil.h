// Coil's C++ interface: load an exported program, compile it, run it on borrowed memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define COIL_API __attribute__((visibility("default")))

namespace coil {

/// Options of a compile. `settings` are the `--set KEY=VALUE` pairs; unknown keys throw Error with the list of those
/// that exist.
struct CompileOptions {
  std::string device = "cpu";
  std::map<std::string, std::string> settings;
  int threads = 0;                                  ///< 0: all cores
  std::optional<std::filesystem::path> cache;       ///< folder of the kernel cache; none: no cache
  std::vector<std::string> log;                     ///< stages to log to stderr
  std::optional<std::filesystem::path> provenance;  ///< file for where each call comes from, as JSON
  std::optional<std::filesystem::path> debug_dir;   ///< folder for what each stage made, and how long it took
};

/// What `coil explain` and `coil bench` print.
struct CompileReport {
  double seconds = 0;
  std::vector<std::pair<std::string, double>> stages;  ///< name, seconds
  int kernels = 0, extern_calls = 0;
  std::uint64_t weight_bytes = 0;
  std::vector<std::uint64_t>
      live_bytes;  ///< temporaries and outputs that are live at each step, for the sizes the program was exported with
  std::uint64_t peak_bytes = 0;  ///< weights and the most that is live
  std::string resources;         ///< what a GPU's kernels take of a multiprocessor, a line each; empty elsewhere
  std::string text;              ///< kernels, fusions and refusals, memory over time
};

namespace runtime {
class Model;
struct StoredProgram;
}  // namespace runtime

struct Compiled {
  std::shared_ptr<runtime::StoredProgram> program;
  CompileReport report;
};

/// Compiles a `.pt2`. Throws coil::Error.
COIL_API Compiled compile(const std::filesystem::path& pt2, const CompileOptions& = {});
/// Writes the wrapper as source: `cpp`, `python` or `fx`; its weights go into a file beside it (OUT.cpp:
/// OUT.weights.safetensors). `aoti`: a package that torch's loaders of AOTInductor packages load (docs/aoti.md).
/// `-` is standard output, for programs without weights, and for `wrapper`, which leaves them out.
COIL_API void emit(const std::filesystem::path& pt2, const std::string& language, const std::filesystem::path& output,
                   const CompileOptions& = {});

/// Loads a library from outside, which brings devices, operators or languages (docs/extending.md); one that is loaded
/// already is left as it is. Throws coil::Error, and has then changed nothing.
COIL_API void load_library(const std::filesystem::path& library);

/// A self-contained HTML page: the graph before and after the passes, kernels, fusions, memory over time. Throws
/// coil::Error. `measure`: the program is run on the archive's sample inputs, and the page has the time of each call.
COIL_API std::string explain_page(const std::filesystem::path& pt2, const CompileOptions& = {}, bool measure = false);

/// A tensor at the border: memory of the caller's, borrowed while a call lasts, or memory that `data` keeps alive.
struct Array {
  std::shared_ptr<void> data;
  std::string dtype;                         ///< torch's name: `float32`, `bfloat16`, `int64`, `bool`, …
  std::vector<std::int64_t> sizes, strides;  ///< in elements; no strides: dense row-major

  static Array borrow(void* data, std::string dtype, std::vector<std::int64_t> sizes,
                      std::vector<std::int64_t> strides = {}) {
    return {std::shared_ptr<void>(data, [](void*) {}), std::move(dtype), std::move(sizes), std::move(strides)};
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data.get());
  }
};

/// What a model takes or gives, by the name it has in files of inputs and outputs.
struct Port {
  std::string name, dtype;
  std::vector<std::int64_t> sizes;  ///< -1: any size the program's own checks accept
  bool mutated = false;             ///< an input that calls write to
};

/// A model ready to run. One call at a time; copies share the program and its weights, and may run at once.
class COIL_API Model {
 public:
  /// A package (`.coil`), or a `.pt2`, which is compiled. Throws a std::exception whose `what()` is one line.
  static Model load(const std::filesystem::path&, const CompileOptions& = {});
  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  const CompileReport& report() const;  ///< of a package: kernels, library calls and weights only
  /// One array for each input, in order; one for each output comes back. Throws when an input has the wrong dtype, rank
  /// or size.
  std::vector<Array> run(const std::vector<Array>& inputs);
  /// Random numbers of runs from now on follow from this number and the order of runs (copies of the model count as
  /// well); at first they follow from the system's entropy.
  void seed(std::uint64_t);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// The tensors of a safetensors file, by name. Throws on a malformed file.
COIL_API std::map<std::string, Array> read_arrays(const std::filesystem::path&);

}  // namespace coil
