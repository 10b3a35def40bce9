#include "wrapper/fill_constants.h"

#include <functional>
#include <utility>
#include <vector>

#include "runtime/device/threads.h"
#include "support/parallel.h"

namespace coil::wrapper {

void fill_constants(std::span<Constant> constants, int threads) {
  std::vector<std::function<void()>> fills;
  for (Constant& c : constants)
    if (c.fill) fills.push_back(std::exchange(c.fill, nullptr));
  in_parallel(fills.size(), threads, [&](std::size_t i) {
    const runtime::ThreadScope alone(1);
    fills[i]();
  });
}

}  // namespace coil::wrapper
