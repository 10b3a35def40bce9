// The buffers and integers that a kernel's text names, by position: p0, p1, … and s0, s1, …
#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/kernel.h"
#include "sym/print.h"

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
  /// The name of what the host computes once: a number that no loop changes and that takes more than sums and products.
  /// Nothing for others, and where a divisor may be 0 though nobody asks.
  std::optional<std::string> term(const sym::ShapeEnv& env, Expr e) {
    if (e.is_symbol() || sym::has_symbol_of(e, sym::SymbolKind::Loop) || !is_costly(e) || !is_defined(env, e))
      return std::nullopt;
    return scalar(sym::to_string(e), e);
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
  static bool is_costly(Expr e) {
    const auto o = e.operands();
    return (!e.is_constant() && !e.is_symbol() && e.kind() != sym::Kind::Add && e.kind() != sym::Kind::Mul) ||
           std::any_of(o.begin(), o.end(), is_costly);
  }
  static bool is_defined(const sym::ShapeEnv& env, Expr e) {
    using sym::Kind;
    if (e.kind() == Kind::Float) return true;  // kernels know nothing of them
    const auto o = e.operands();
    const bool divides = e.kind() == Kind::FloorDiv || e.kind() == Kind::CeilDiv || e.kind() == Kind::Mod;
    return (!divides || env.bounds(o[1]).low >= 1) &&
           std::all_of(o.begin(), o.end(), [&](Expr x) { return is_defined(env, x); });
  }

  std::unordered_map<ir::BufferId, std::size_t> places_;
  std::vector<ir::BufferId> buffers_;
  std::vector<bool> written_;
  std::map<std::string, std::size_t> keys_;
  Exprs scalars_;
};

}  // namespace coil::codegen
