#include "support/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace coil {

void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&] {
    for (std::size_t i; (i = next++) < count;) try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
    try {
      while (others.size() + 1 < wanted) others.emplace_back(take);
    } catch (const std::system_error&) {
      // There are no more threads; those that there are do all of it.
    }
    take();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace coil
