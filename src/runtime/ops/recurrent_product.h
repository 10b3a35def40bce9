// What recurrent layers and their gradients share: the kinds of cells, the product of each step, and how a batch is
// divided among threads.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/device/cached_op.h"
#include "runtime/device/library.h"

namespace coil::runtime::recurrence {

enum class Mode : std::uint8_t { Lstm, Gru, Tanh, Relu };

Mode mode_of(const std::string& name);
std::int64_t gate_count(Mode);

/// What a state [batch, from] is multiplied with: a weight [to, from], or [from, to] if `turned`.
struct StepWeight {
  DType type;
  std::int64_t from, to;
  bool has_bias = false, turned = false;
};

/// A state times a weight, in every step of a call. The weight is brought into panels once where this machine
/// multiplies by those and there are steps enough to gain by it.
class StepProduct {
 public:
  StepProduct(const StepWeight&, std::int64_t batch, std::int64_t steps, bool batch_invariant);

  /// Bytes of the weight in panels; 0 where the weight is taken as it is.
  std::size_t packed_bytes() const { return packed_; }
  std::size_t workspace_bytes() const { return by_panels_ ? by_panels_->workspace_bytes() : op_->workspace_bytes(); }

  /// The weight that `run` takes, before the first step of a call: `packed`, which is filled, or the weight itself.
  const void* begin(const void* weight, void* packed) const;

  void run(std::span<const void* const> inputs, void* result, void* workspace) {
    if (by_panels_) return by_panels_->run(inputs, std::span(&result, 1), workspace);
    op_->run(inputs, std::span(&result, 1), workspace);
  }

 private:
  BoundView b_;
  std::size_t packed_ = 0;
  std::unique_ptr<PreparedCall> by_panels_;
  std::unique_ptr<LibraryOp> op_;
};

/// Into how many parts the rows of a batch are divided, each of which a thread takes through all steps, waiting for no
/// other. Where a batch has few of them, and a weight that threads had better share, all threads take all rows through
/// each step together.
std::int64_t parts_of(std::int64_t batch, std::int64_t weights, int threads);

}  // namespace coil::runtime::recurrence
