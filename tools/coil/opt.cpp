// `coil opt`: one stage on text IR, for tests.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "command.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "passes/passes.h"
#include "support/error.h"

namespace coil::cli {

namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot open {}", path.string());
  text << in.rdbuf();
  return text.str();
}

const passes::Pass& find_pass(std::string_view name) {
  std::string known;
  for (const passes::Pass& pass : passes::all()) {
    if (pass.name == name) return pass;
    known += known.empty() ? "" : ", ";
    known += pass.name;
  }
  fail("there is no pass {}; there are {}", name, known);
}

}  // namespace

void run_opt(const OptOptions& options) {
  std::vector<const passes::Pass*> passes;
  for (const std::string& name : options.passes) passes.push_back(&find_pass(name));
  auto module = fx::parse(read(options.file));
  fx::infer_missing(*module);
  for (const passes::Pass* pass : passes) {
    pass->run(*module);
    module->graph.lint();
  }
  std::string text = fx::to_string(*module, {.locations = options.locations, .origins = options.origins});
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace coil::cli
