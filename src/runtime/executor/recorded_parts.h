// Runs with steps that no recording can hold (the host's, numbers that the host reads, branches that it takes): what
// lies between two of those is recorded as a graph of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace coil::runtime {

/// Takes a run's work instead of the queue, in order, and queues it at each flush. A part is known by all that its work
/// depends on: kernels with their launch configs, pointers and scalars, library calls with their operands. What comes a
/// second time is recorded, and then launched whole, so that sizes that are seen once and memory that always moves cost
/// nothing, and branches and turns of loops are as the run takes them.
class RecordedParts {
 public:
  explicit RecordedParts(Queue& queue) : queue_(queue) {}

  /// A run begins. `state`: what parts depend on besides their own operands.
  void begin(std::span<const std::uint64_t> state);
  /// `step`: who asks for it, for TouchesOf.
  void launch(const Launch&, void* const* words, std::int64_t step);
  /// A call that stays prepared as it is until the next flush. `views`: what it is prepared for, where that does not
  /// follow from the state.
  void call(LibraryOp&, std::span<void* const> operands, std::size_t inputs, void* workspace,
            std::initializer_list<std::span<const BoundView>> views, std::int64_t step);
  /// Memory that the run lets go of: work that was not queued yet may use it.
  void keep(Storage);
  /// What a step touches; asked for while a part is recorded.
  using TouchesOf = std::function<std::vector<Touch>(std::int64_t step)>;
  /// Queues what has come since the last flush.
  void flush(const TouchesOf&);
  bool pending() const { return !items_.empty(); }
  /// Whether so much has come that it is to be flushed.
  bool full() const { return overfull_; }
  /// Forgets what was not queued: the run failed.
  void drop() noexcept;
  /// Lets go of all recordings.
  void clear() { kept_.clear(); }
  /// How many are kept, the last used.
  void keep_at_most(std::size_t count);

 private:
  static constexpr std::size_t kFewest = 2, kMost = 1 << 13;
  static constexpr std::size_t kHeldBytes = std::size_t{64} << 20;  ///< of memory let go; more is not kept back
  struct Item {
    Launch launch;                                    ///< its words begin in key_
    LibraryOp* op = nullptr;                          ///< of a library call
    std::size_t operands = 0, inputs = 0, count = 0;  ///< where its operands begin in key_, and how many there are
    void* workspace = nullptr;
    std::int64_t step = 0;
  };
  struct Entry {
    std::uint64_t hash = 0;
    std::vector<std::uint64_t> key;
    std::unique_ptr<RecordedWork> work;  ///< null: seen once, or not to be recorded
    bool refused = false;
  };
  void* const* words() const { return reinterpret_cast<void* const*>(key_.data()); }
  void run(const Item&);
  void run_all();
  std::unique_ptr<RecordedWork> record(const TouchesOf&);

  Queue& queue_;
  std::vector<std::uint64_t> key_;  ///< all that the part depends on so far
  std::size_t state_size_ = 0;
  std::vector<Item> items_;
  std::vector<Storage> held_;
  std::size_t held_bytes_ = 0;
  bool overfull_ = false;
  std::list<Entry> kept_;  ///< the last used first
  std::size_t most_ = 64;
};

/// Records what `work` queues; null, after telling why, where the device cannot record it. Nothing of it has run then,
/// and the queue is as before.
std::unique_ptr<RecordedWork> try_to_record(Queue&, const std::function<void()>& work);

}  // namespace coil::runtime
