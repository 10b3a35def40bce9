// What the runtime tells the program that it runs in, when that wants to know: one listener for the process, none by
// default.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>

namespace coil::runtime {

enum class MessageLevel : int { Debug = 0, Info = 1, Warning = 2 };

/// Called for every message from then on, by whichever thread has one to tell; empty for none.
void set_listener(std::function<void(MessageLevel, const std::string&)>);
bool has_listener();
void tell(MessageLevel, const std::string& message);

/// A warning that is not to be missed: where nobody listens it goes to stderr.
void warn(const std::string& message);

/// Formats only when somebody listens.
template <class... Args>
void tell(MessageLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (has_listener()) tell(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace coil::runtime
