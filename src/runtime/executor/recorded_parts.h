// Parts of runs recorded as the device's own graphs: one whose sizes and memory come again is launched whole.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/executor.h"

namespace coil::runtime {

/// What a context has recorded of its plan's parts (runtime/plan/parts.h). What comes a second time is recorded, so
/// that sizes that are seen once and memory that always moves cost nothing.
class RecordedParts {
 public:
  explicit RecordedParts(Queue& queue) : queue_(queue) {}

  /// Runs part `part`. `key`: all that its work depends on: sizes, and where memory lies that may move. `run` queues
  /// its steps, `record` does while the queue records. `again`: in one run it comes with several keys (in a loop), of
  /// which eight times as many are kept.
  void run(std::uint32_t part, std::span<const std::uint64_t> key, bool again, const std::function<void()>& run,
           const std::function<void()>& record);
  /// Lets go of all recordings.
  void clear() { kept_.clear(); }
  /// How many are kept of each part, the last used; those are let go of that were not used for longest.
  void keep_at_most(std::size_t count);

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::vector<std::uint64_t> key;
    std::unique_ptr<RecordedWork> work;  ///< null: seen once, or not to be recorded
    bool refused = false;
  };
  struct Kept {
    std::list<Entry> entries;  ///< the last used first
    bool again = false;
  };
  void shorten(Kept&) const;

  Queue& queue_;
  std::vector<Kept> kept_;  ///< for each part
  std::size_t most_ = kRecordedRuns;
};

/// Records what `work` queues; null, after telling why, where the device cannot record it. Nothing of it has run then,
/// and the queue is as before.
std::unique_ptr<RecordedWork> try_to_record(Queue&, const std::function<void()>& work);

}  // namespace coil::runtime
