// Operands that an operation cannot take as they lie are copied through the workspace into a form that it can, and
// back.
#pragma once
#include <optional>

#include "runtime/device/convert.h"

namespace coil::runtime {

/// How one pointer of a call reaches the computation: as given, or by way of a copy in the workspace.
class Staging {
 public:
  using Operand = std::size_t;  ///< a place in the pointers that `load` fills

  /// Input `index` as given.
  Operand input(std::size_t index);
  /// Input `index`, which lies as `from`, copied to `to` before each run.
  Operand input(std::size_t index, const BoundView& from, const BoundView& to);
  Operand output(std::size_t index);
  /// Output `index`, which lies as `to`, computed as `from`; `load` also copies its old values in.
  Operand output(std::size_t index, const BoundView& to, const BoundView& from, bool load);
  /// What output `index` holds before the run, as `to`.
  Operand old_output(std::size_t index, const BoundView& from, const BoundView& to);
  /// Workspace of the computation's own; returns its operand.
  Operand scratch(std::size_t bytes);

  std::size_t bytes() const { return bytes_; }
  std::size_t operands() const { return operands_.size(); }
  /// Sets one pointer for each operand and copies inputs in.
  void load(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
            std::span<void*> pointers) const;
  void store(std::span<void* const> outputs, std::span<void* const> pointers) const;

 private:
  enum class Source { Input, Output, Scratch };
  struct Entry {
    Source source;
    std::size_t index;       ///< of the input or output
    std::size_t offset = 0;  ///< in the workspace
    bool copied = false, loaded = false, stored = false;
    BoundView given, staged;
  };
  Operand add(Entry, std::size_t bytes);
  std::vector<Entry> operands_;
  std::size_t bytes_ = 0;
};

}  // namespace coil::runtime
