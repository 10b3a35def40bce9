// Runs another program: no shell, both streams captured, a time limit.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace coil {

struct ProcessOptions {
  std::optional<std::chrono::milliseconds> timeout;  ///< then the program and what it started are killed
};

struct ProcessResult {
  int exit_code = 0;  ///< 128 + the signal's number when a signal ended it
  bool timed_out = false;
  std::string out, err;
  bool ok() const { return exit_code == 0 && !timed_out; }
};

/// `argv[0]` is a path or looked up in PATH; standard input is empty. Throws Error when the program cannot be started;
/// how it ended is in the result.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& = {});

/// Where PATH has an executable of this name (a name with a slash is itself); nothing when nowhere.
std::optional<std::filesystem::path> find_program(const std::string& name);

}  // namespace coil
