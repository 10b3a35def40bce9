// Any text given as a graph parses to one that prints and parses back to itself, or ends in one error.
#include <cstring>

#include "fx/text.h"
#include "support/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string printed;
  try {
    printed = coil::fx::to_string(*coil::fx::parse({reinterpret_cast<const char*>(data), size}));
  } catch (const coil::Error& e) {
    if (std::strncmp(e.what(), "internal error", 14) == 0) __builtin_trap();
    return 0;
  }
  if (coil::fx::to_string(*coil::fx::parse(printed)) != printed) __builtin_trap();
  return 0;
}
