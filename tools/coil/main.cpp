// Entry of the `coil` command: parses, runs one subcommand, turns whatever goes wrong into one line and an exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <new>

#include "command.h"
#include "support/error.h"

namespace {

constexpr int kFailed = 1, kBadUsage = 2;

int report(const std::string& message, int code) {
  fmt::print(stderr, "coil: error: {}\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app{"Coil compiles PyTorch programs (torch.export .pt2) to native code."};
  app.name("coil");
  app.set_version_flag("--version", "coil " COIL_VERSION);
  app.require_subcommand(1);
  app.footer("Each subcommand has its own --help, with an example.");
  coil::cli::add_compile(app);
  coil::cli::add_run(app);
  coil::cli::add_bench(app);
  coil::cli::add_explain(app);
  coil::cli::add_opt(app);
  coil::cli::add_bisect(app);
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](CLI::App* sub) { return sub->check_name(argv[1]); }).empty())
    return report(fmt::format("no subcommand {} (see coil --help)", argv[1]), kBadUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report(fmt::format("{} (see coil --help)", e.what()), kBadUsage);
  }
  if (std::fflush(stdout) != 0) coil::fail("cannot write to standard output");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const coil::Error& e) {
    return report(e.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailed);
  } catch (const std::exception& e) {
    return report(e.what(), kFailed);
  } catch (...) {
    return report("unknown failure", kFailed);
  }
}
