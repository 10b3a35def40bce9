// Runs recorded as the device's own graphs: one whose sizes and memory come again is launched whole.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/executor.h"

namespace coil::runtime {

class RecordedRuns {
 public:
  /// Runs the binding's steps: as recorded, when all that they depend on is as it was; else one by one. What comes a
  /// second time is recorded, so that sizes seen once and inputs that always move cost nothing.
  void run(Binding&, Queue&);
  void clear() { kept_.clear(); }
  /// How many are kept, the last used; those are let go of that were not used for longest.
  void keep_at_most(std::size_t count);

 private:
  std::size_t most_ = kRecordedRuns;
  struct Entry {
    std::vector<std::uint64_t> state;
    std::unique_ptr<RecordedWork> work;  ///< null: seen once, or not to be recorded
    bool refused = false;
  };
  std::list<Entry> kept_;  ///< the last used first
};

}  // namespace coil::runtime
