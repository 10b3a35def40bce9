// Symmetric memory: an allocation that every rank of a group has one of, equally large, and that all ranks reach by
// plain loads and stores. What lies at an offset on one rank lies at the same offset on the others.
//
// Where ranks cannot map each other's memory (they are on several machines, or the system does not let them) all ranks
// get memory of their own instead, which `is_shared` tells: whoever uses it then exchanges by the group.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor/device.h"

namespace coil::runtime::groups {

/// What a rank is about to do, for the others to compare with what they do.
struct Doing {
  std::string what;  ///< for people; ranks whose texts differ do different things
};

class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;
  virtual const std::string& group() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Whether this process reaches the memory of the other ranks; the same on all of them.
  virtual bool is_shared() const = 0;
  /// The allocation of a rank, as this process sees it; null for other ranks where it is not shared.
  virtual std::byte* at(int rank) const = 0;
  std::byte* data() const { return at(rank()); }
  /// Returns when all ranks have come to it: what they wrote before can be read then. Throws Error naming the rank that
  /// is gone, late, or about to do something else; the memory is of no more use then, on any rank, for the rest of the
  /// call, and for good where calls are not counted (groups.h).
  virtual void barrier(const Doing&) = 0;
  /// The word to which kernels write which rank does not come; null where there are no such kernels.
  virtual const std::int64_t* failure() const { return nullptr; }
  /// This rank's run has failed between two exchanges, so that its next one would meet the others' at another place:
  /// the memory is of no more use in this call, on any rank, as after a barrier that failed.
  virtual void abandon() noexcept = 0;
};

struct SymmetricRequest {
  std::string group;
  Device device;
  std::size_t bytes = 0;
  std::string plan;  ///< what lies in it, in words that all ranks must have alike
};

/// Returns when all ranks have asked for the same. They must do so in the same order; of a group from outside
/// (groups.h) who asks for a plan again gets the same memory again, for as long as the group is there. Throws Error
/// naming the ranks whose plans differ, or that did not come within the group's time. One warning, for each group,
/// where the memory is not shared.
std::shared_ptr<SymmetricMemory> allocate_symmetric(const SymmetricRequest&);

/// Lets go of what is kept for a group from outside. (Who uses it keeps it.)
void forget_symmetric(std::string_view group);

struct SymmetricPlace {
  std::shared_ptr<SymmetricMemory> memory;
  std::size_t offset = 0;
};
/// The symmetric memory of this process that an address lies in.
std::optional<SymmetricPlace> find_symmetric(const void* address);

/// Memory of one process that another can map, by a handle that it is told.
class Segment {
 public:
  virtual ~Segment() = default;
  virtual std::byte* data() const = 0;
  /// What the others map it by: one line of text.
  virtual std::string handle() const { return {}; }
  /// Tells where the memory of all ranks is, by rank, as this process sees it, and how long to wait for one of them.
  virtual void connect(std::span<std::byte* const> ranks, int rank, std::chrono::nanoseconds timeout) {
    (void)ranks, (void)rank, (void)timeout;
  }
  virtual const std::int64_t* failure() const { return nullptr; }
  /// All others have mapped it.
  virtual void mapped_by_all() {}
};

/// What makes and maps segments of one kind of device. Functions throw std::exception where it cannot be done.
struct SegmentBackend {
  std::function<std::unique_ptr<Segment>(std::size_t bytes, Device)> allocate, allocate_alone;
  std::function<std::unique_ptr<Segment>(const std::string& handle, std::size_t bytes, Device)> map;
};
void define_segments(DeviceType, SegmentBackend);

struct DefineSegments {
  DefineSegments(DeviceType device, SegmentBackend backend) { define_segments(device, std::move(backend)); }
};

}  // namespace coil::runtime::groups
