#include "wrapper/fill_constants.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device/threads.h"

namespace coil::wrapper {

void fill_constants(std::span<Constant> constants, int threads) {
  std::vector<std::function<void()>> fills;
  for (Constant& c : constants)
    if (c.fill) fills.push_back(std::exchange(c.fill, nullptr));
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    const runtime::ThreadScope alone(1);
    for (std::size_t i = next++; i < fills.size(); i = next++) try {
        fills[i]();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t k = 0; k < std::min(fills.size(), static_cast<std::size_t>(std::max(1, threads))); ++k)
      workers.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace coil::wrapper
