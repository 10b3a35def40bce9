#include "runtime/groups/next_call.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "support/error.h"

namespace coil::runtime::groups {
namespace {

constexpr Milliseconds kLongestLook{20};

std::string call_key(const std::string& word, int rank) { return fmt::format("{}/{}", word, rank); }

// What the store has of a rank: an even number where it has come to a call, the odd one behind it where it has passed
// it.
std::uint64_t come(std::uint64_t call) { return 2 * call; }
std::uint64_t passed(std::uint64_t call) { return 2 * call + 1; }

/// Where a rank is; 0 where it has not said anything.
std::uint64_t place_of(const std::string& word, Store& store, int rank) {
  const std::string at = call_key(word, rank);
  return store.has(at) ? std::stoull(store.get(at, kLongestLook)) : 0;
}

void await_call(int rank, const std::string& word, const NextCall& next) {
  const auto deadline = std::chrono::steady_clock::now() + next.timeout;
  for (Milliseconds nap{1};; nap = std::min(2 * nap, kLongestLook)) {
    const std::uint64_t theirs = place_of(word, next.store, rank);
    if (theirs == come(next.call)) return;
    if (theirs > come(next.call))
      fail("{} is past call {} of the group, in which rank {} is", next.name_of(rank), next.call, next.rank);
    if (next.is_gone && next.is_gone(rank)) fail("{} is gone", next.name_of(rank));
    if (std::chrono::steady_clock::now() >= deadline)
      fail("{} did not come to call {} of the group, after one that failed, within {} s", next.name_of(rank), next.call,
           std::chrono::duration<double>(next.timeout).count());
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace

void come_to(const std::string& word, const NextCall& next) {
  next.store.set(call_key(word, next.rank), std::to_string(come(next.call)));
  for (int r = 0; r < next.size; ++r)
    if (r != next.rank) await_call(r, word, next);
}

void pass_by(const std::string& word, Store& store, int rank, std::uint64_t call) noexcept try {
  store.set(call_key(word, rank), std::to_string(passed(call)));
} catch (const std::exception&) {
  // Whoever waits finds that the store is gone.
}

}  // namespace coil::runtime::groups
