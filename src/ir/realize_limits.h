// How much a value may take in before it gets memory of its own.
#pragma once
#include <cstdint>

namespace coil::ir {

/// Limits after which a value gets a buffer rather than being absorbed again: reads by number, operations by number,
/// and bytes read through it.
struct RealizeLimits {
  int reads = 8;
  int operations = 64;
  std::int64_t read_bytes = std::int64_t{1} << 30;
};

}  // namespace coil::ir
