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
#include "wrapper/text.h"

namespace coil::cli {

namespace {

std::string read_text(const std::filesystem::path& path) {
  if (path != "-") return read_file(path);
  std::ostringstream text;
  text << std::cin.rdbuf();
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
  // Text IR, or an archive of torch.export, whose graph is then printed as text.
  const bool archive = options.file.extension() == ".pt2";
  const std::string source = archive ? "" : read_text(options.file);
#ifndef COIL_ONLY_OPT
  if (wrapper::is_wrapper_text(source)) return run_wrapper_opt(source, options);
#endif
  if (!options.emit.empty()) fail("--emit takes wrapper text, which `coil compile --emit wrapper` writes");
  std::vector<const passes::Pass*> passes;
  for (const std::string& name : options.passes) passes.push_back(&find_pass(name));
  auto module = archive ? frontend::read_pt2(options.file).module : fx::parse(source);
  fx::infer_missing(*module);
  for (const passes::Pass* pass : passes) {
    pass->run(*module);
    module->graph.lint();
  }
  std::string text = fx::to_string(*module, {.locations = options.locations, .origins = options.origins});
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace coil::cli
