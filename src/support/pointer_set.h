// A set of pointers for walks over graphs: what was seen so far. It only grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coil {

/// Open addressing in one piece of memory: walks are many and mostly short, and a node of the standard's sets for each
/// pointer costs more than the walk itself.
template <class T>
class PointerSet {
 public:
  bool contains(const T* pointer) const { return slots_[slot_of(pointer)] == pointer; }
  /// Whether it was not there before. The pointer is not null.
  bool insert(const T* pointer) {
    const std::size_t at = slot_of(pointer);
    if (slots_[at]) return false;
    slots_[at] = pointer;
    if (2 * ++count_ > slots_.size()) grow();
    return true;
  }
  std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t kFirstSlots = 32;

  /// Where the pointer is, or where it belongs.
  std::size_t slot_of(const T* pointer) const {
    const std::size_t mask = slots_.size() - 1;
    // By Fibonacci hashing: low bits of addresses are all alike.
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(pointer) * std::uint64_t{0x9e3779b97f4a7c15};
    std::size_t at = static_cast<std::size_t>(spread >> 32) & mask;
    while (slots_[at] && slots_[at] != pointer) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<const T*> before(2 * slots_.size());
    before.swap(slots_);
    for (const T* pointer : before)
      if (pointer) slots_[slot_of(pointer)] = pointer;
  }

  std::vector<const T*> slots_ = std::vector<const T*>(kFirstSlots);  ///< a power of two of them, at most half in use
  std::size_t count_ = 0;
};

}  // namespace coil
