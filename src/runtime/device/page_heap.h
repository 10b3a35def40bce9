// Large blocks of the CPU's memory, cut from regions that the process keeps: programs that take turns use the same
// pages again, whatever the sizes of their blocks, and find them mapped.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace coil::runtime {

/// A heap of whole pages in one range of addresses, as far as there is such a range: a block is cut from the first gap
/// that holds it, and becomes one gap with those beside it when it is given back. Any thread may call.
class PageHeap {
 public:
  /// Gaps keep about so many bytes of pages that were used; the pages of further ones go back to the system.
  explicit PageHeap(std::size_t keep_bytes);
  ~PageHeap();
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  /// The heap of the process, which goes with the last that holds it. It keeps a quarter of the machine's memory.
  static std::shared_ptr<PageHeap> shared();

  /// Pages with unknown contents; null when memory is out.
  std::byte* allocate(std::size_t bytes);
  /// With the size that was asked for.
  void give_back(std::byte* block, std::size_t bytes) noexcept;
  /// The pages of all gaps go back to the system.
  void trim() noexcept;
  /// Bytes of gaps that are mapped to memory, at most.
  std::size_t free_bytes() const;

 private:
  struct Gap {
    std::size_t bytes;
    std::size_t used;  ///< about how many of them are mapped to memory
  };
  struct Region {
    std::byte* start;
    std::size_t bytes, open;  ///< addresses that are reserved, and those of them that may be used, from the start on
  };
  using Gaps = std::pmr::map<std::byte*, Gap>;

  Gaps::iterator first_of(std::size_t bytes);
  bool grow(std::size_t bytes);
  bool open_more(std::size_t bytes);
  bool reserve(std::size_t bytes);
  Gaps::iterator insert(std::byte* start, Gap gap);
  void erase(Gaps::iterator);
  void release(Gaps::iterator) noexcept;

  const std::size_t keep_bytes_;
  mutable std::mutex mutex_;
  std::pmr::unsynchronized_pool_resource nodes_;
  Gaps gaps_{&nodes_};
  std::vector<Region> regions_;
  std::size_t used_ = 0;  ///< of all gaps
};

}  // namespace coil::runtime
