#include "machine.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace toy {
namespace {

std::byte* reserve(std::size_t bytes, int protection) {
  void* at = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(at);
}

}  // namespace

Memory::Memory(std::size_t bytes)
    : bytes_(bytes),
      addresses_(reserve(bytes, PROT_NONE)),
      contents_(reserve(bytes, PROT_READ | PROT_WRITE)),
      free_{{0, bytes}} {}

Memory::~Memory() {
  ::munmap(addresses_, bytes_);
  ::munmap(contents_, bytes_);
}

std::byte* Memory::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  if (bytes > bytes_) return nullptr;
  bytes = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard lock(mutex_);
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const auto [offset, size] = *block;
    if (size < bytes) continue;
    free_.erase(block);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    taken_.emplace(offset, bytes);
    return addresses_ + offset;
  }
  return nullptr;
}

void Memory::release(std::byte* address) {
  std::lock_guard lock(mutex_);
  const auto taken = taken_.extract(static_cast<std::size_t>(address - addresses_));
  auto block = free_.emplace(taken.key(), taken.mapped()).first;
  if (const auto next = std::next(block); next != free_.end() && block->first + block->second == next->first) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block == free_.begin()) return;
  const auto before = std::prev(block);
  if (before->first + before->second != block->first) return;
  before->second += block->second;
  free_.erase(block);
}

void Event::reach() {
  std::lock_guard lock(mutex_);
  is_reached_ = true;
  reached_.notify_all();
}

void Event::wait() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return is_reached_; });
}

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::submit(std::function<void()> work) {
  submit_always([this, work = std::move(work)] {
    if (failure_) return;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

void Stream::submit_always(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

std::shared_ptr<Event> Stream::record() {
  auto event = std::make_shared<Event>();
  submit_always([event] { event->reach(); });
  return event;
}

void Stream::wait_for(std::shared_ptr<Event> event) {
  submit_always([event = std::move(event)] { event->wait(); });
}

void Stream::wait() {
  const auto failure = std::make_shared<std::exception_ptr>();
  submit_always([this, failure] { *failure = std::exchange(failure_, nullptr); });
  record()->wait();
  if (*failure) std::rethrow_exception(*failure);
}

void Stream::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

}  // namespace toy
