// The one exception that reaches users, and the check that guards invariants.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "support/extension_api.h"

namespace coil {

/// What went wrong, in the user's terms. `what()` is one line: the message, then the place if one is known.
class COIL_EXTENSION_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  /// `op` is an operator such as `aten.add.Tensor`; `where` the user's source line such as `model.py:12`. Either may be
  /// empty.
  Error(const std::string& message, std::string op, std::string where)
      : std::runtime_error(where.empty() ? message : message + " (at " + where + ")"),
        op_(std::move(op)),
        where_(std::move(where)) {}

  const std::string& op() const { return op_; }
  const std::string& where() const { return where_; }

 private:
  std::string op_, where_;
};

/// Throws `Error` with a formatted message: for what a user, an archive or a machine did wrong.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] COIL_EXTENSION_API void check_failed(const char* condition, const char* file, int line,
                                                  const std::string& message);
}

}  // namespace coil

/// An invariant of Coil's own. On in release builds; a failure is a bug in Coil and is reported as one (it throws
/// `Error`).
#define COIL_CHECK(condition, ...)                                                                 \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::coil::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
