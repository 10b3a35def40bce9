#include "runtime/device/page_heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

namespace coil::runtime {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(PageHeap, CutsFromTheFirstGapAndJoinsNeighbours) {
  PageHeap heap(1024 * kMiB);
  std::byte* const a = heap.allocate(kMiB);
  std::byte* const b = heap.allocate(2 * kMiB);
  std::byte* const c = heap.allocate(kMiB);
  EXPECT_EQ(b, a + kMiB);
  EXPECT_EQ(c, b + 2 * kMiB);
  heap.give_back(a, kMiB);
  EXPECT_EQ(heap.allocate(2 * kMiB), c + kMiB);  // the gap is too small
  heap.give_back(b, 2 * kMiB);
  EXPECT_EQ(heap.allocate(3 * kMiB), a);
}

TEST(PageHeap, RoundsUpToPages) {
  PageHeap heap(1024 * kMiB);
  std::byte* const a = heap.allocate(1);
  std::byte* const b = heap.allocate(4097);
  EXPECT_EQ(b, a + 4096);
  EXPECT_EQ(heap.allocate(0), b + 8192);
}

TEST(PageHeap, KeepsPagesUpToALimit) {
  PageHeap heap(8 * kMiB);
  std::byte* const a = heap.allocate(6 * kMiB);
  std::byte* const b = heap.allocate(kMiB);
  std::byte* const c = heap.allocate(4 * kMiB);
  std::memset(a, 1, 6 * kMiB);
  std::memset(c, 1, 4 * kMiB);
  heap.give_back(a, 6 * kMiB);
  EXPECT_EQ(heap.free_bytes(), 6 * kMiB);
  EXPECT_EQ(a[5], std::byte{1});
  heap.give_back(c, 4 * kMiB);
  EXPECT_EQ(heap.free_bytes(), 6 * kMiB);
  EXPECT_EQ(heap.allocate(6 * kMiB), a);
  std::byte* const again = heap.allocate(4 * kMiB);
  EXPECT_EQ(again, c);
  EXPECT_EQ(again[5], std::byte{0});  // pages that went back are zero when they come again
  heap.give_back(a, 6 * kMiB);
  heap.trim();
  EXPECT_EQ(heap.free_bytes(), 0u);
  heap.give_back(b, kMiB);
}

TEST(PageHeap, GivesNothingBeyondAllAddresses) {
  PageHeap heap(kMiB);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX / 4), nullptr);
  EXPECT_NE(heap.allocate(kMiB), nullptr);
}

/// Threads write to blocks of random sizes and find them as they were; in the end there is one gap again.
TEST(PageHeap, BlocksDoNotOverlap) {
  PageHeap heap(64 * kMiB);
  std::byte* const first = heap.allocate(1);
  heap.give_back(first, 1);
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<std::byte*, std::size_t>> held;
    const auto take_back = [&](std::size_t k) {
      const auto [block, bytes] = held[k];
      EXPECT_EQ(block[0], block[bytes - 1]);
      EXPECT_EQ(block[0], std::byte(bytes % 251));
      heap.give_back(block, bytes);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(k));
    };
    for (int turn = 0; turn < 2000; ++turn) {
      if (held.size() == 20) take_back(random() % held.size());
      const std::size_t bytes = 1 + random() % (200 * 1024);
      held.emplace_back(heap.allocate(bytes), bytes);
      held.back().first[0] = held.back().first[bytes - 1] = std::byte(bytes % 251);
    }
    while (!held.empty()) take_back(0);
  };
  std::thread one(work, 1), other(work, 2);
  one.join();
  other.join();
  EXPECT_EQ(heap.allocate(8 * kMiB), first);
}

}  // namespace
}  // namespace coil::runtime
