#include "machine.h"

#include <sys/mman.h>

#include <algorithm>
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
    : bytes_(bytes), addresses_(reserve(bytes, PROT_NONE)), contents_(reserve(bytes, PROT_READ | PROT_WRITE)) {}

Memory::~Memory() {
  ::munmap(addresses_, bytes_);
  ::munmap(contents_, bytes_);
}

std::byte* Memory::allocate(std::size_t bytes) {
  if (bytes > bytes_) return nullptr;
  bytes = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  std::lock_guard lock(mutex_);
  std::size_t begin = 0;  // of the first gap that is large enough
  for (const auto& [offset, size] : taken_) {
    if (offset - begin >= bytes) break;
    begin = offset + size;
  }
  if (bytes_ - begin < bytes) return nullptr;
  taken_.emplace(begin, bytes);
  return addresses_ + begin;
}

void Memory::release(std::byte* address) {
  std::lock_guard lock(mutex_);
  taken_.erase(static_cast<std::size_t>(address - addresses_));
}

Stream::~Stream() {
  submit_always([this] { ends_ = true; });
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
  changed_.notify_one();
}

Event Stream::record() {
  const auto reached = std::make_shared<std::promise<void>>();
  submit_always([reached] { reached->set_value(); });
  return reached->get_future();
}

void Stream::wait_for(Event event) {
  submit_always([event = std::move(event)] { event.wait(); });
}

void Stream::wait() {
  std::exception_ptr failure;
  submit_always([this, &failure] { failure = std::exchange(failure_, nullptr); });
  record().wait();
  if (failure) std::rethrow_exception(failure);
}

void Stream::run() {
  while (!ends_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_.empty(); });
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
  }
}

}  // namespace toy
