#include "runtime/device/page_heap.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace coil::runtime {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;
constexpr std::size_t kStep = std::size_t{32} << 20;  // regions grow by multiples of this

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::size_t whole_pages(std::size_t bytes) { return round_up(std::max<std::size_t>(bytes, 1), kPage); }

std::size_t bytes_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))
                   : std::size_t{8} << 30;
}

/// Whether the process may have only so many addresses: then none are reserved that are not needed yet.
bool has_few_addresses() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

PageHeap::PageHeap(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}

PageHeap::~PageHeap() {
  for (const Region& r : regions_) munmap(r.start, r.bytes);
}

std::shared_ptr<PageHeap> PageHeap::shared() {
  static std::mutex mutex;
  static std::weak_ptr<PageHeap> shared;
  std::lock_guard lock(mutex);
  std::shared_ptr<PageHeap> heap = shared.lock();
  if (!heap) shared = heap = std::make_shared<PageHeap>(bytes_of_machine() / 4);
  return heap;
}

std::byte* PageHeap::allocate(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::size_t whole = whole_pages(bytes);
  std::lock_guard lock(mutex_);
  auto gap = first_of(whole);
  if (gap == gaps_.end()) {
    if (!grow(whole)) return nullptr;
    gap = first_of(whole);
  }
  std::byte* const start = gap->first;
  const Gap rest{gap->second.bytes - whole, gap->second.used - std::min(gap->second.used, whole)};
  erase(gap);
  if (rest.bytes > 0) insert(start + whole, rest);
  return start;
}

void PageHeap::give_back(std::byte* block, std::size_t bytes) noexcept {
  const std::size_t whole = whole_pages(bytes);
  std::lock_guard lock(mutex_);
  try {
    const auto gap = insert(block, {whole, whole});
    if (used_ > keep_bytes_) release(gap);
  } catch (const std::bad_alloc&) {  // only its addresses are lost
    madvise(block, whole, MADV_DONTNEED);
  }
}

void PageHeap::trim() noexcept {
  std::lock_guard lock(mutex_);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) release(gap);
}

std::size_t PageHeap::free_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}

PageHeap::Gaps::iterator PageHeap::first_of(std::size_t bytes) {
  return std::ranges::find_if(gaps_, [bytes](const auto& gap) { return gap.second.bytes >= bytes; });
}

bool PageHeap::grow(std::size_t bytes) {
  const std::size_t needed = round_up(bytes, kStep);
  return open_more(needed) || (reserve(needed) && open_more(needed));
}

/// Makes more of the last region usable; false where it has no more, or the system gives none.
bool PageHeap::open_more(std::size_t bytes) {
  if (regions_.empty()) return false;
  Region& last = regions_.back();
  if (last.bytes - last.open < bytes) return false;
  std::byte* const start = last.start + last.open;
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  last.open += bytes;
  insert(start, {bytes, 0});
  return true;
}

/// Reserves as many addresses as the machine has memory, so that one range is enough. It begins with a huge page: such
/// make the first touch of a block up to ten times cheaper. A kernel that has none ignores the advice.
bool PageHeap::reserve(std::size_t bytes) {
  const std::size_t all = has_few_addresses() ? bytes : std::max(bytes, round_up(bytes_of_machine(), kHugePage));
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const mapped = mmap(nullptr, all + kHugePage, PROT_NONE, flags, -1, 0);
  if (mapped == MAP_FAILED) return false;
  auto* const first = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t skipped = round_up(address, kHugePage) - address;
  if (skipped > 0) munmap(first, skipped);
  if (skipped < kHugePage) munmap(first + skipped + all, kHugePage - skipped);
  madvise(first + skipped, all, MADV_HUGEPAGE);
  regions_.push_back({first + skipped, all, 0});
  return true;
}

/// Inserts a gap as one with the gaps before and behind it.
PageHeap::Gaps::iterator PageHeap::insert(std::byte* start, Gap gap) {
  auto behind = gaps_.lower_bound(start);
  used_ += gap.used;
  if (behind != gaps_.end() && behind->first == start + gap.bytes) {
    gap = {gap.bytes + behind->second.bytes, gap.used + behind->second.used};
    behind = gaps_.erase(behind);
  }
  if (behind != gaps_.begin())
    if (const auto before = std::prev(behind); before->first + before->second.bytes == start) {
      before->second = {before->second.bytes + gap.bytes, before->second.used + gap.used};
      return before;
    }
  return gaps_.emplace_hint(behind, start, gap);
}

void PageHeap::erase(Gaps::iterator gap) {
  used_ -= gap->second.used;
  gaps_.erase(gap);
}

void PageHeap::release(Gaps::iterator gap) noexcept {
  if (gap->second.used == 0) return;
  madvise(gap->first, gap->second.bytes, MADV_DONTNEED);
  used_ -= std::exchange(gap->second.used, 0);
}

}  // namespace coil::runtime
