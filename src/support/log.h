// Per-stage logs: what a stage did, printed when its name was asked for.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace coil {

struct LogOptions {
  std::set<std::string, std::less<>> stages;   ///< names of stages; `all` is every one
  std::function<void(std::string_view)> sink;  ///< takes whole lines; stderr when empty
};

/// `fusion,memory` as the command line gives it. Throws Error on a name that is not in `known`.
std::set<std::string, std::less<>> parse_stages(std::string_view list, const std::set<std::string, std::less<>>& known);

/// One per compile; safe to use from several threads. Each message is one call of the sink.
class Log {
 public:
  Log() = default;
  explicit Log(LogOptions options) : options_(std::move(options)) {}

  bool enabled(std::string_view stage) const {
    return !options_.stages.empty() && (options_.stages.contains(stage) || options_.stages.contains("all"));
  }
  /// Lines of `text`, each after the stage's name.
  void write(std::string_view stage, std::string_view text) const;
  template <class... Args>
  void operator()(std::string_view stage, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(stage)) write(stage, fmt::format(format, std::forward<Args>(args)...));
  }
  /// The IR after a pass, or that the pass changed nothing. `print` is called only when the stage is enabled.
  void after(std::string_view stage, std::string_view pass, const std::function<std::string()>& print);

 private:
  LogOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> last_;  ///< the text last printed for each stage
};

}  // namespace coil
