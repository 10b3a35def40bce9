// The error of memory that cannot be had.
#pragma once
#include <cstdint>

#include "support/error.h"

namespace coil {

/// An allocator throws it with what was asked for; what runs a program adds what that needs.
class COIL_EXTENSION_API OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message, std::uint64_t needed = 0) : Error(message), needed_(needed) {}

  /// Bytes that the program needs at once, where the message says what they are; else 0.
  std::uint64_t needed() const { return needed_; }

 private:
  std::uint64_t needed_;
};

template <class... Args>
[[noreturn]] void fail_out_of_memory(fmt::format_string<Args...> format, Args&&... args) {
  throw OutOfMemory(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace coil
