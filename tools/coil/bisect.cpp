// `coil bisect`: eager is the judge, so that the search is in Python (python/coil/bisect.py) and this hands over to it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "support/error.h"

namespace coil::cli {
namespace {

constexpr const char* kNeeds = "coil bisect needs Python with the packages torch and coil, which --python names";

/// Runs the search, or says which package is not there. The argument behind it is what to say then.
constexpr const char* kSearch = R"(
import sys
needs = sys.argv.pop(1)
try:
    import coil.bisect
except ImportError as error:
    sys.exit(f"coil: error: {sys.executable}: {error}; {needs}")
sys.exit(coil.bisect.main())
)";

/// Becomes Python. Returns only by throwing Error.
void hand_over(const std::string& python, std::vector<std::string> given) {
  std::vector<std::string> words{python, "-c", kSearch, kNeeds};
  words.insert(words.end(), given.begin(), given.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(python.c_str(), pointers.data());
  fail("{} does not start: {}; {}", python, std::strerror(errno), kNeeds);
}

}  // namespace

void add_bisect(CLI::App& app) {
  struct Options {
    std::string python = "python3";
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "bisect", "Find the operator whose result first differs from eager's, and a small program that shows it");
  sub->add_option("--python", options->python, "Python that has torch and coil")->capture_default_str();
  sub->allow_extras();
  sub->footer(
      "Options: --inputs IN.safetensors, --set KEY=VALUE, --device DEVICE, --tolerance X, --out FOLDER (default: "
      "bisect)\n"
      "Exit code 0 when every result is as in eager, 3 when one was found that is not.\n\n"
      "Example:\n  coil bisect model.pt2 --out shown");
  sub->callback([options, sub] { hand_over(options->python, sub->remaining()); });
}

}  // namespace coil::cli
