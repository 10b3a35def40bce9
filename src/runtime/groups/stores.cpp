#include "runtime/groups/stores.h"

#include <algorithm>
#include <thread>

#include "support/error.h"

namespace coil::runtime::groups {

void await_key(Store& store, const std::string& key, Milliseconds timeout, const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (Milliseconds pause{1}; !store.has(key); pause = std::min(pause * 2, Milliseconds{16})) {
    if (std::chrono::steady_clock::now() >= deadline)
      fail("nobody has set {} in {} within {} s", key, name, std::chrono::duration<double>(timeout).count());
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace coil::runtime::groups
