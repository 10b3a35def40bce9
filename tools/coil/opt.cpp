#include "opt.h"

#include <cstdio>
#include <iostream>
#include <sstream>

#include "ir/text.h"
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

std::string after_passes(const OptOptions& options) {
  const std::string text = options.file.extension() == ".pt2" ? "" : read_text(options.file);
  if (wrapper::is_wrapper_text(text)) return opt_wrapper(text, options);
  if (ir::is_loop_text(text)) return opt_loop(text, options);
  if (!options.emit.empty()) fail("--emit takes wrapper text, which `coil compile --emit wrapper` writes");
  return opt_graph(text, options);
}

}  // namespace

void run_opt(const OptOptions& options) {
  const std::string out = after_passes(options);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace coil::cli
