// Weights on the device, and how kernels tell of failures there.
#pragma once
#include "helpers.h"

// @piece memory_gpu
namespace {

/// Weights in memory of the device: each tensor of the file once.
struct Placed {
  std::map<std::string, Memory> pieces;
  char* at(const char* name, char* data, size_t bytes) {
    auto [piece, added] = pieces.try_emplace(name);
    if (added) {
      piece->second = Memory(bytes);
      put(piece->second.data, data, bytes);
    }
    return piece->second.data;
  }
};

/// Where kernels tell that they failed: for each call that may, a word that the host sees, and on the device a status
/// of four words: whether any has failed; where to tell the host; all statuses, and how many there are. A kernel behind
/// one that has failed leaves at once where it has a status.
class Failures {
 public:
  Failures(Queue& queue, std::initializer_list<const char*> messages) : queue_(queue), messages_(messages) {
    if (messages_.empty()) return;
    told_ = coil_queue_words(queue.handle, messages_.size());
    if (!told_) fail(coil_last_error());
    statuses_ = Memory(32 * messages_.size());
    for (size_t site = 0; site < messages_.size(); ++site)
      clear_.insert(clear_.end(), {0, reinterpret_cast<int64_t>(told_ + site), reinterpret_cast<int64_t>(status(0)),
                                   static_cast<int64_t>(messages_.size())});
    put(statuses_.data, clear_.data(), 8 * clear_.size());
  }
  void* status(size_t site) const { return statuses_.data + 32 * site; }
  /// What has been told so far; `check` waits first.
  void look() {
    for (size_t site = 0; site < messages_.size(); ++site) {
      if (!*static_cast<volatile int64_t*>(told_ + site)) continue;
      std::fill_n(told_, messages_.size(), 0);
      put(statuses_.data, clear_.data(), 8 * clear_.size());
      fail(messages_[site]);
    }
  }
  void check() {
    queue_.wait();
    look();
  }

 private:
  Queue& queue_;
  std::vector<const char*> messages_;
  int64_t* told_ = nullptr;
  Memory statuses_;
  std::vector<int64_t> clear_;  ///< statuses as they are before a run
};

}  // namespace
