// `coil opt`: passes on a program as text, of whichever level the text is.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "coil/coil.h"

namespace coil::cli {

struct OptOptions {
  std::filesystem::path file;       ///< text IR, or an archive, whose graph is taken
  std::vector<std::string> passes;  ///< run in this order; none: parse and print
  bool locations = false, origins = false;
  std::string emit;  ///< of wrapper text: the language to print instead; `plan` for the runtime's manifest
  std::vector<std::string> settings;  ///< KEY=VALUE
  bool list = false;                  ///< print all passes instead
  bool device_given = false;          ///< `compile.device` is none that was left out
  CompileOptions compile;             ///< the device that passes are for, and the settings as a map
};

/// Prints the program to stdout after the passes.
void run_opt(const OptOptions&);

/// A program after the passes, as text. `text` is that of a graph; empty for an archive.
std::string opt_graph(const std::string& text, const OptOptions&);
/// `text` is that of loops, perhaps with their schedule.
std::string opt_loop(const std::string& text, const OptOptions&);
/// `text` is that of the wrapper's lines.
std::string opt_wrapper(const std::string& text, const OptOptions&);

}  // namespace coil::cli
