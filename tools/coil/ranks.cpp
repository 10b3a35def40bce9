#include "ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/temporary_folder.h"

namespace coil::cli {
namespace {

/// This process's command line, without `--ranks N` or `--ranks=N`.
std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string a; std::getline(in, a, '\0');) arguments.push_back(a);
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--ranks")
      ++i;
    else if (!arguments[i].starts_with("--ranks="))
      kept.push_back(arguments[i]);
  }
  return kept;
}

pid_t start(std::vector<std::string> arguments, int rank, int ranks, const std::filesystem::path& store) {
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  const std::string rank_text = std::to_string(rank), ranks_text = std::to_string(ranks),
                    store_text = "file:" + store.string();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::setenv("RANK", rank_text.c_str(), 1);
  ::setenv("LOCAL_RANK", rank_text.c_str(), 1);
  ::setenv("WORLD_SIZE", ranks_text.c_str(), 1);
  ::setenv("COIL_GROUP_STORE", store_text.c_str(), 1);
  ::execv("/proc/self/exe", pointers.data());
  ::_exit(1);
}

}  // namespace

std::optional<Rank> rank_of_environment() {
  const auto number = [](const char* name) -> std::optional<int> {
    const char* text = std::getenv(name);
    if (!text) return std::nullopt;
    int value = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc() || *end != '\0' || value < 0) fail("the environment's {} is no number: '{}'", name, text);
    return value;
  };
  const auto rank = number("RANK"), size = number("WORLD_SIZE");
  if (!rank || !size) return std::nullopt;
  return Rank{*rank, std::max(1, *size)};
}

void run_ranks(int ranks) {
  const TemporaryFolder store;
  const std::vector<std::string> arguments = own_arguments();
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) children.push_back(start(arguments, r, ranks, store.path() / "store"));
  std::vector<std::string> failed;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = children[static_cast<std::size_t>(r)];
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child)
      failed.push_back(fmt::format("rank {} could not be started", r));
    else if (WIFSIGNALED(status))
      failed.push_back(fmt::format("rank {} was ended by signal {}", r, WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
      failed.push_back(fmt::format("rank {} failed", r));
  }
  if (!failed.empty()) fail("{}", fmt::join(failed, "; "));
}

std::filesystem::path of_rank(const std::filesystem::path& path) {
  constexpr std::string_view kPlace = "{rank}";
  std::string text = path.string();
  const auto rank = rank_of_environment();
  for (std::size_t at = 0; rank && (at = text.find(kPlace, at)) != text.npos;)
    text.replace(at, kPlace.size(), std::to_string(rank->rank));
  return text;
}

}  // namespace coil::cli
