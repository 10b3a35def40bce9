// How ranks find one another after a call in which one of them has failed: by the number of their next call, in the
// group's store. A rank that is behind is told so at once, and with its next calls comes to where the others are.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/groups/transport.h"

namespace coil::runtime::groups {

/// What a rank waits for the others with.
struct NextCall {
  Store& store;
  int rank = 0, size = 1;
  std::uint64_t call = 0;
  Milliseconds timeout{};
  std::function<std::string(int rank)> name_of;  ///< for people
  /// Whether a rank is known to be gone; may be empty.
  std::function<bool(int rank)> is_gone = {};
};

/// Returns when all ranks have come to `word` in this call. Throws Error naming one that is in a later call already, is
/// gone, or does not come within the time.
void come_to(const std::string& word, const NextCall&);
/// This rank will not come to `word` in this call: those that wait for it end at once.
void pass_by(const std::string& word, Store&, int rank, std::uint64_t call) noexcept;

}  // namespace coil::runtime::groups
