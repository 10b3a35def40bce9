// What kernels that let others begin before they end may still be writing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace coil::runtime::cuda {

struct ByteRange {
  std::uintptr_t begin = 0, end = 0;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

/// What one stream's work may write, since the last work that waits for all before it and is waited for by all behind
/// it.
class InFlight {
 public:
  bool none() const { return !anything_ && written_.empty(); }
  bool may_write(const ByteRange& range) const {
    return anything_ || std::ranges::any_of(written_, [&](const ByteRange& w) { return w.overlaps(range); });
  }
  void add(std::span<const ByteRange> written) {
    if (!anything_) written_.insert(written_.end(), written.begin(), written.end());
  }
  void add(const InFlight& other) {
    if (other.anything_) return add_anything();
    add(std::span<const ByteRange>(other.written_));
  }
  void add_anything() {
    written_.clear();
    anything_ = true;
  }
  void clear() {
    anything_ = lets_begin_ = false;
    written_.clear();
  }
  /// Whether the last work lets the kernel behind it begin before it ends, where that one asks for it.
  bool lets_begin() const { return lets_begin_; }
  void set_lets_begin(bool lets) { lets_begin_ = lets; }

 private:
  bool anything_ = true;  ///< as long as nothing is known
  bool lets_begin_ = false;
  std::vector<ByteRange> written_;  ///< empty where it may be anything: the list does not grow from call to call
};

}  // namespace coil::runtime::cuda
