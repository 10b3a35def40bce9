// Options that several subcommands take.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "coil/coil.h"

namespace CLI {
class App;
}

namespace coil::cli {

/// `--set KEY=VALUE`, as given, as a map; the last of equal keys counts. Throws Error on one without `=`.
std::map<std::string, std::string> parse_pairs(const std::vector<std::string>& settings);

struct ModelOptions {
  std::filesystem::path model;
  CompileOptions compile;
  std::vector<std::string> settings, log;  ///< as given: KEY=VALUE, STAGE,STAGE
  std::vector<std::string> libraries;      ///< that register operators and forms of output
  std::string cache;
  bool device_given = false;
  bool record = false;  ///< `cuda.graphs`: a setting of runs, not of compiles

  /// Loads the libraries, and moves what was given as text into `compile`; call first in a callback. Throws Error on a
  /// setting without `=`.
  void finish();
};

/// The archive (or, with `packages`, the package) and the options of its compile.
void add_model_options(CLI::App&, ModelOptions&, bool packages);

/// Where a run's inputs come from.
struct InputOptions {
  std::filesystem::path file;  ///< empty: the archive's samples, else random ones
  std::uint64_t seed = 0;
  bool seed_given = false;         ///< random operators follow from it too
  std::int64_t integer_bound = 2;  ///< random integers are below it
  std::int64_t dynamic_size = 4;   ///< random inputs get it where a size is dynamic
};

void add_input_options(CLI::App&, InputOptions&);

/// A line on stderr that says what is being done, on a terminal only; gone when the object is.
class Progress {
 public:
  explicit Progress(const std::string& what);
  ~Progress();

 private:
  bool shown_;
};

}  // namespace coil::cli
