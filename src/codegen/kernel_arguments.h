// The buffers and integers that a kernel's text names, by position: p0, p1, … and s0, s1, …
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/kernel.h"

namespace coil::codegen {

class KernelArguments {
 public:
  /// The pointer to a buffer, by name.
  std::string pointer(ir::BufferId b, bool writes) {
    auto [it, added] = places_.emplace(b, buffers_.size());
    if (added) buffers_.push_back(b), written_.push_back(false);
    if (writes) written_[it->second] = true;
    return "p" + std::to_string(it->second);
  }
  /// An integer that the host computes, by name; one for each key.
  std::string scalar(const std::string& key, Expr value) {
    auto [it, added] = keys_.emplace(key, scalars_.size());
    if (added) scalars_.push_back(value);
    return "s" + std::to_string(it->second);
  }
  /// Whether the text names the buffer and never stores to it.
  bool only_reads(ir::BufferId b) const {
    auto it = places_.find(b);
    return it != places_.end() && !written_[it->second];
  }

  const std::vector<ir::BufferId>& buffers() const { return buffers_; }
  const std::vector<bool>& written() const { return written_; }
  const Exprs& scalars() const { return scalars_; }
  void give(Kernel& k) const { k.buffers = buffers_, k.written = written_, k.scalars = scalars_; }

 private:
  std::unordered_map<ir::BufferId, std::size_t> places_;
  std::vector<ir::BufferId> buffers_;
  std::vector<bool> written_;
  std::map<std::string, std::size_t> keys_;
  Exprs scalars_;
};

}  // namespace coil::codegen
