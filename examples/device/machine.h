// The machine that stands for an accelerator: memory that the host knows addresses of and cannot touch, and streams on
// which work runs in order, each by a thread of its own.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace toy {

/// Every block has an address that the host passes around, where nothing may be read or written, and lies at another
/// one, which only the machine's own code asks for. So whatever of the host touches the machine's memory faults.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();

  /// The address of a block that begins at a multiple of 64 bytes; null when there is no room.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* address);

  /// Where the machine finds what the host knows by this address; other addresses stay as they are.
  template <class T>
  T* at(T* address) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(addresses_);
    return offset < bytes_ ? reinterpret_cast<T*>(contents_ + offset) : address;
  }

 private:
  const std::size_t bytes_;
  std::byte *addresses_, *contents_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> taken_;  ///< bytes by offset
};

/// A place in a stream, reached when all work before it is done.
using Event = std::shared_future<void>;

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  /// Returns when all work is done.
  ~Stream();

  /// Work that is left out when some before it failed.
  void submit(std::function<void()> work);
  /// Work that is done whatever came before it.
  void submit_always(std::function<void()> work);
  Event record();
  /// What comes after this waits for the event.
  void wait_for(Event event);
  /// Returns when all work submitted so far is done. Throws what the first that failed threw, and goes on from there.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::exception_ptr failure_;  ///< the thread's own, as is `ends_`
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace toy
