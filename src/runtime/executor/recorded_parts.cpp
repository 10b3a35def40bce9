#include "runtime/executor/recorded_parts.h"

#include <algorithm>

#include "runtime/device/messages.h"

namespace coil::runtime {
namespace {

std::uint64_t hash_of(std::span<const std::uint64_t> key) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::uint64_t k : key) h = (h ^ k) * 0x9e3779b97f4a7c15, h ^= h >> 29;
  return h;
}

}  // namespace

std::unique_ptr<RecordedWork> try_to_record(Queue& queue, const std::function<void()>& work) {
  if (!queue.begin_recording()) return nullptr;
  std::string why;
  try {
    work();
  } catch (const std::exception& e) {
    why = e.what();
  }
  std::unique_ptr<RecordedWork> made;
  try {
    made = queue.end_recording();  // in any case: the queue must not stay in a recording
  } catch (const std::exception& e) {
    if (why.empty()) why = e.what();
  }
  if (why.empty()) return made;
  tell(MessageLevel::Warning, "work on {} could not be recorded and is queued step by step: {}",
       to_string(queue.device()), why);
  return nullptr;
}

void RecordedParts::run(std::uint32_t part, std::span<const std::uint64_t> key, bool again,
                        const std::function<void()>& run, const std::function<void()>& record) {
  if (kept_.size() <= part) kept_.resize(part + 1);
  Kept& kept = kept_[part];
  kept.again = again;
  const std::uint64_t hash = hash_of(key);
  const auto found = std::ranges::find_if(
      kept.entries, [&](const Entry& e) { return e.hash == hash && std::ranges::equal(e.key, key); });
  if (found == kept.entries.end()) {
    run();
    kept.entries.push_front({hash, {key.begin(), key.end()}, nullptr});
    return shorten(kept);
  }
  kept.entries.splice(kept.entries.begin(), kept.entries, found);
  if (!found->work && !found->refused) {
    found->work = try_to_record(queue_, record);
    found->refused = !found->work;
  }
  if (found->work)
    queue_.run_recorded(*found->work);
  else
    run();
}

void RecordedParts::shorten(Kept& kept) const {
  while (kept.entries.size() > (kept.again ? 8 : 1) * most_) kept.entries.pop_back();
}

void RecordedParts::keep_at_most(std::size_t count) {
  most_ = std::max<std::size_t>(count, 1);
  for (Kept& kept : kept_) shorten(kept);
}

}  // namespace coil::runtime
