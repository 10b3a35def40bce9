// Coil's C++ interface: load an exported program, compile it, run it on borrowed memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace coil {

/// Options of a compile. `settings` are the `--set KEY=VALUE` pairs; unknown keys throw Error with the list of those that exist.
struct CompileOptions {
  std::string device = "cpu";
  std::map<std::string, std::string> settings;
  int threads = 0;                              ///< 0: all cores
  std::optional<std::filesystem::path> cache;   ///< folder of the kernel cache; none: no cache
  std::vector<std::string> log;                 ///< stages to log to stderr
};

/// What `coil explain` and `coil bench` print.
struct CompileReport {
  double seconds = 0;
  std::vector<std::pair<std::string, double>> stages;  ///< name, seconds
  int kernels = 0, extern_calls = 0;
  std::uint64_t weight_bytes = 0, peak_bytes = 0;
  std::string text;                                     ///< kernels, fusions and refusals, memory over time
};

namespace runtime {
class Model;
struct Program;
}  // namespace runtime

struct Compiled {
  std::shared_ptr<runtime::Program> program;
  CompileReport report;
};

/// Compiles a `.pt2`. Throws coil::Error.
Compiled compile(const std::filesystem::path& pt2, const CompileOptions& = {});
/// The wrapper as source text: `cpp`, `python` or `fx`.
std::string emit(const std::filesystem::path& pt2, const std::string& language, const CompileOptions& = {});

}  // namespace coil
