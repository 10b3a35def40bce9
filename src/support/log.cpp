#include "support/log.h"

#include <cstdio>

#include "support/error.h"

namespace coil {

std::set<std::string, std::less<>> parse_stages(std::string_view list,
                                                const std::set<std::string, std::less<>>& known) {
  std::set<std::string, std::less<>> stages;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (name.empty()) continue;
    if (name != "all" && !known.contains(name))
      fail("unknown log stage '{}'; the stages are: {}", name, fmt::join(known, ", "));
    stages.emplace(name);
  }
  return stages;
}

void Log::write(std::string_view stage, std::string_view text) const {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += fmt::format("[{}] {}\n", stage, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const std::lock_guard lock(mutex_);
  if (options_.sink)
    options_.sink(lines);
  else
    std::fwrite(lines.data(), 1, lines.size(), stderr);
}

void Log::after(std::string_view stage, std::string_view pass, const std::function<std::string()>& print) {
  if (!enabled(stage)) return;
  std::string text = print();
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    std::string& last = last_[std::string(stage)];
    changed = last != text;
    if (changed) last = text;
  }
  write(stage, changed ? fmt::format("after {}:\n{}", pass, text) : fmt::format("{} changed nothing", pass));
}

}  // namespace coil
