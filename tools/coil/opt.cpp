// `coil opt`: one stage on text IR, for tests.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "command.h"
#include "frontend/pt2.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "passes/passes.h"
#include "support/error.h"
#include "support/file.h"

namespace coil::cli {

namespace {

/// Text IR, or an archive of torch.export, whose graph is then printed as text.
std::unique_ptr<fx::GraphModule> read(const std::filesystem::path& path) {
  if (path.extension() == ".pt2") return frontend::read_pt2(path).module;
  if (path != "-") return fx::parse(read_file(path));
  std::ostringstream text;
  text << std::cin.rdbuf();
  return fx::parse(text.str());
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
  auto module = read(options.file);
  fx::infer_missing(*module);
  for (const passes::Pass* pass : passes) {
    pass->run(*module);
    module->graph.lint();
  }
  std::string text = fx::to_string(*module, {.locations = options.locations, .origins = options.origins});
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace coil::cli
