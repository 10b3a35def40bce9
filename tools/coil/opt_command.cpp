// `coil opt`: its command line.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"
#include "compiler/pipelines.h"
#include "opt.h"
#include "options.h"

namespace coil::cli {

void add_opt(CLI::App& app) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* sub =
      app.add_subcommand("opt", "Run passes on a program as text (a graph, loops, or wrapper lines) and print it");
  sub->add_option("file", options->file, "The program as text, an archive for its graph, or - for standard input")
      ->type_name("FILE");
  sub->add_option("--pass", options->passes, "A pass to run; may be repeated, in order")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub->add_option("--emit", options->emit,
                  "For wrapper text: print it in this language (cpp, python, fx, wrapper; plan)")
      ->type_name("LANGUAGE");
  const auto* device = sub->add_option("--device", options->compile.device,
                                       "Device that passes are for: cpu, cuda or cuda:N (default cpu)")
                           ->type_name("DEVICE");
  sub->add_option("--set", options->settings, "A setting of the compiler; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_flag("--list-passes", options->list, "Print all passes, and what each does, in the order they run");
  sub->add_flag("--locations", options->locations, "Print each node's source line");
  sub->add_flag("--origins", options->origins, "Print the nodes each node came from");
  sub->footer(
      "Example:\n  coil opt --pass functionalize --pass decompose model.fx\n  coil opt --pass fuse-post-ops --pass "
      "schedule model.loop\n  coil opt --pass emit-cuda model.loop\n  coil opt --pass plan-lifetimes --pass "
      "verify --emit python model.wrap");
  sub->callback([options, device] {
    if (options->list) {
      fmt::print("{}", passes_page());
      return;
    }
    if (options->file.empty()) throw CLI::RequiredError("file");
    options->device_given = device->count() > 0;
    options->compile.settings = parse_pairs(options->settings);
    run_opt(*options);
  });
}

}  // namespace coil::cli
