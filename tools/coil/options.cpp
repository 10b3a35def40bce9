#include "options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "support/error.h"

namespace coil::cli {

void add_model_options(CLI::App& app, ModelOptions& o, bool packages) {
  app.add_option("model", o.model,
                 packages ? "A package (.coil) or an exported program (.pt2)" : "An exported program (.pt2)")
      ->required()
      ->type_name(packages ? "MODEL.coil|MODEL.pt2" : "MODEL.pt2");
  app.add_option_function<std::string>(
         "--device",
         [&o](const std::string& device) {
           o.compile.device = device;
           o.device_given = true;
         },
         "Device to compile for: cpu, cuda or cuda:N, or one that a library brings (default cpu)")
      ->type_name("DEVICE");
  app.add_option("--threads", o.compile.threads, "CPU threads (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(0, 4096));
  app.add_option("--set", o.settings, "A setting of the compiler; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--log", o.log, "Stages to log to stderr, or all")
      ->type_name("STAGE,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--debug-dir", [&o](const std::string& folder) { o.compile.debug_dir = folder; },
         "Write what each stage made into this folder: graphs, IR before and after fusion, wrapper lines, kernels, "
         "timings")
      ->type_name("DIR");
  app.add_option("--load", o.libraries,
                 "A library that brings devices, operators, or further forms for --emit; may be repeated")
      ->type_name("LIBRARY.so")
      ->allow_extra_args(false);
  app.add_option("--cache", o.cache, "Keep compiled kernels in this folder (default: no cache)")->type_name("DIR");
}

std::map<std::string, std::string> parse_pairs(const std::vector<std::string>& settings) {
  std::map<std::string, std::string> pairs;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) fail("--set {}: expected KEY=VALUE", setting);
    pairs[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return pairs;
}

void ModelOptions::finish() {
  for (const std::string& library : libraries) load_library(library);
  for (const auto& [key, value] : parse_pairs(settings)) {
    if (key == "cuda.graphs") {
      if (value != "true" && value != "false") fail("setting cuda.graphs takes true or false, not '{}'", value);
      record = value == "true";
      continue;
    }
    compile.settings[key] = value;
  }
  compile.log = log;
  if (!cache.empty()) compile.cache = cache;
}

void add_input_options(CLI::App& app, InputOptions& o) {
  app.add_option("--inputs", o.file, "Inputs by name (default: the archive's sample inputs, else random ones)")
      ->type_name("IN.safetensors");
  app.add_option(
         "--seed", o.seed,
         "Seed of random inputs (default 0) and of the program's own random numbers (default: the system's entropy)")
      ->type_name("N")
      ->each([&o](const std::string&) { o.seed_given = true; });
  app.add_option("--random-below", o.integer_bound, "Random integers are drawn from 0 up to N-1 (default 2)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--random-size", o.dynamic_size, "Size of random inputs where the program takes any (default 4)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
}

Progress::Progress(const std::string& what) : shown_(isatty(STDERR_FILENO) != 0) {
  if (shown_) fmt::print(stderr, "\r\033[K{} …", what);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace coil::cli
