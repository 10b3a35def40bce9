// Any text given as a schema parses to one that prints and parses back to itself, or ends in one error.
#include <cstring>

#include "ops/schema.h"
#include "support/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string printed;
  try {
    printed = coil::ops::to_string(coil::ops::parse_schema({reinterpret_cast<const char*>(data), size}));
  } catch (const coil::Error& e) {
    if (std::strncmp(e.what(), "internal error", 14) == 0) __builtin_trap();
    return 0;
  }
  if (coil::ops::to_string(coil::ops::parse_schema(printed)) != printed) __builtin_trap();
  return 0;
}
