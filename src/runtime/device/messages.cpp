#include "runtime/device/messages.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

namespace coil::runtime {
namespace {

using Listener = std::function<void(MessageLevel, const std::string&)>;

std::atomic<bool> g_listening{false};
std::mutex g_mutex;
std::shared_ptr<const Listener> g_listener;

}  // namespace

void set_listener(Listener listener) {
  std::lock_guard lock(g_mutex);
  g_listening.store(static_cast<bool>(listener), std::memory_order_relaxed);
  g_listener = listener ? std::make_shared<const Listener>(std::move(listener)) : nullptr;
}

bool has_listener() { return g_listening.load(std::memory_order_relaxed); }

void tell(MessageLevel level, const std::string& message) {
  std::shared_ptr<const Listener> listener;
  {
    std::lock_guard lock(g_mutex);
    listener = g_listener;
  }
  if (listener) (*listener)(level, message);
}

void warn(const std::string& message) {
  if (has_listener()) return tell(MessageLevel::Warning, message);
  std::fputs(("coil: warning: " + message + "\n").c_str(), stderr);
}

}  // namespace coil::runtime
