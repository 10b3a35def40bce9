// A GPU of Metal's: its memory, which the host sees as well, by the host's addresses.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/metal/machine.h"
#include "tensor/tensor.h"

namespace coil::runtime::metal {

Device metal_device(int index);

class Gpu {
 public:
  /// The machine's, one for all programs of the process that run at once. Throws Error where there is none.
  static std::shared_ptr<Gpu> open(int index);
  explicit Gpu(int index);
  Gpu(const Gpu&) = delete;
  ~Gpu() { f.close(handle_); }

  void* handle() const { return handle_; }
  /// Null when memory is out.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* contents);
  /// The buffer that holds an address, and how far behind its beginning. Throws Error where none does.
  std::pair<void*, std::size_t> place(const void* address);

  const Functions& f = functions();
  const int index;

 private:
  void* handle_;
  std::mutex mutex_;
  std::map<std::byte*, void*> buffers_;
};

/// Memory of one queue, on which all work is in order: what goes back may be given out again while commands that use it
/// are still to run. Any thread gives back.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~Pool() { trim(); }
  /// Empty when memory is out.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// Gives what is free back to the machine.
  void trim();

 private:
  void give_back(std::size_t size, std::byte* contents);

  std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace coil::runtime::metal
