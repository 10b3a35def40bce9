// `coil opt`: the command line of run_opt.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"

namespace coil::cli {

void add_opt(CLI::App& app) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* sub = app.add_subcommand("opt", "Run passes on a graph, or on wrapper lines, in text form and print it");
  sub->add_option("file", options->file, "The graph, or - for standard input")->required()->type_name("FILE.fx");
  sub->add_option("--pass", options->passes, "A pass to run; may be repeated, in order")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub->add_option("--emit", options->emit,
                  "For wrapper text: print it in this language (cpp, python, fx, wrapper; plan)")
      ->type_name("LANGUAGE");
  sub->add_flag("--locations", options->locations, "Print each node's source line");
  sub->add_flag("--origins", options->origins, "Print the nodes each node came from");
  sub->footer(
      "Example:\n  coil opt --pass functionalize --pass decompose model.fx\n  coil opt --pass plan-lifetimes --pass "
      "verify --emit python model.wrap");
  sub->callback([options] { run_opt(*options); });
}

}  // namespace coil::cli
