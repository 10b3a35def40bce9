// Tests of what threads share.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace coil::test {

/// `work(thread)` on so many threads at once; what each counts as wrong must be nothing.
inline void at_once(int count, const std::function<int(int)>& work) {
  std::atomic<int> waiting{count}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      wrong += work(t);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace coil::test
