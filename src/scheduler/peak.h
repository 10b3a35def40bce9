// What a program's memory peaks at, as a function of the order of its steps.
//
// A storage is the memory of one buffer: views of it are the same storage, a write in place makes none, and a storage
// dies with the last step that touches it, whatever view that step looks through. The estimate is what the arena's
// planner is given (passes/wrapper/lifetimes.h), before offsets are packed.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace coil::scheduler {

using StorageId = std::uint32_t;
using StepId = std::uint32_t;

/// Whose memory it is: the caller's (inputs, constants), the arena's, the caller's from the step that makes it on, or
/// the caller's until the last step that touches it.
enum class StorageClass : std::uint8_t { Caller, Temporary, Output, Given };

struct Storage {
  std::uint64_t bytes = 0;
  StorageClass of = StorageClass::Temporary;
};

struct MemoryStep {
  std::vector<StorageId> touches;  ///< what must be there while it runs, ascending, each once
  /// A result of the step may take over the memory of an operand that nothing needs later. Both have equal sizes, the
  /// result is a temporary, and so is the operand, or it is given.
  std::vector<std::pair<StorageId, StorageId>> in_place;
  std::vector<StepId> after;  ///< steps that must run before it
};

struct MemoryProgram {
  std::vector<Storage> storages;
  std::vector<MemoryStep> steps;  ///< as written: each after those that it must follow
  /// The caller's memory comes and goes as steps need it, from the same allocator: Output and Given count like
  /// temporaries that end with the last step, and that are there before the first.
  bool counts_callers = false;

  bool counts(StorageId s) const {
    return storages[s].of == StorageClass::Temporary || (counts_callers && storages[s].of != StorageClass::Caller);
  }
  bool is_made(StorageId s) const { return counts(s) && storages[s].of != StorageClass::Given; }
  bool is_freed(StorageId s) const { return counts(s) && storages[s].of != StorageClass::Output; }
  /// Bytes of what counts and is there before the first step.
  std::uint64_t given_bytes() const;
};

/// Adds steps that read and write storages, each after those whose order with it means something: a read follows the
/// last write, a write follows the last write and what was read since.
class StepOrder {
 public:
  explicit StepOrder(MemoryProgram&);
  StepId add(std::span<const StorageId> reads, std::span<const StorageId> writes);

 private:
  struct Use {
    std::vector<StepId> readers;  ///< since the last write
    StepId writer = 0;
    bool written = false;
  };
  MemoryProgram& program_;
  std::vector<Use> uses_;
};

/// The steps that must run after each.
std::vector<std::vector<StepId>> followers_of(const MemoryProgram&);

/// Where in an order a storage is touched first and last; one that is not has none of both.
struct Life {
  std::size_t first = SIZE_MAX, last = 0;
};
std::vector<Life> lives_in(const MemoryProgram&, std::span<const StepId> order);

/// The storages whose memory others take over in this order, with these, in order.
std::vector<std::pair<StorageId, StorageId>> hand_overs(const MemoryProgram&, std::span<const StepId> order);

struct Peak {
  std::uint64_t temporaries = 0;  ///< bytes of all that counts at its fullest, before packing
  std::uint64_t with_outputs = 0;
  std::size_t at = 0;  ///< the first place in the order where temporaries are at their fullest
};

/// The steps in this order. Outputs count from the first step that touches them to the end.
Peak peak_of(const MemoryProgram&, std::span<const StepId> order);
/// Bytes of temporaries that are live at each place of the order.
std::vector<std::uint64_t> live_bytes(const MemoryProgram&, std::span<const StepId> order);
/// What no order goes below: the most that one step touches.
std::uint64_t least_peak(const MemoryProgram&);
/// Whether each step is there once and after those that it must follow.
bool respects(const MemoryProgram&, std::span<const StepId> order);

}  // namespace coil::scheduler
