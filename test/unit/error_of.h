// The message of the error that a call throws.
#pragma once
#include <functional>
#include <string>

#include "support/error.h"

namespace coil {

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// The test's own predicate, for messages that show both texts.
inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

}  // namespace coil
