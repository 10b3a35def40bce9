// The subcommands: each adds itself to the command line and runs when it was chosen. What goes wrong is thrown as
// Error.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace coil::cli {

void add_compile(CLI::App&);
void add_run(CLI::App&);
void add_bench(CLI::App&);
void add_explain(CLI::App&);
void add_opt(CLI::App&);

struct OptOptions {
  std::filesystem::path file;       ///< text IR: a graph, or wrapper lines
  std::vector<std::string> passes;  ///< run in this order; none: parse and print
  bool locations = false, origins = false;
  std::string emit;  ///< wrapper text: the language to print instead; `plan` for the runtime's manifest
};
/// Prints the graph (the wrapper lines) to stdout after the passes.
void run_opt(const OptOptions&);
/// The same for text that is the wrapper IR.
void run_wrapper_opt(const std::string& text, const OptOptions&);

}  // namespace coil::cli
