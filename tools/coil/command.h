// The subcommands: each adds itself to the command line and runs when it was chosen. What goes wrong is thrown as
// Error.
#pragma once

namespace CLI {
class App;
}

namespace coil::cli {

void add_compile(CLI::App&);
void add_run(CLI::App&);
void add_bench(CLI::App&);
void add_explain(CLI::App&);
void add_opt(CLI::App&);
void add_bisect(CLI::App&);

}  // namespace coil::cli
