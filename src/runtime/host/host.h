// Operators that neither a kernel nor a library of Coil's carries out but the program that runs the plan: in a Python
// process, torch.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "runtime/device/library.h"

namespace coil::runtime {

/// One call site. A call site is used by one thread at a time.
class HostOp {
 public:
  virtual ~HostOp() = default;
  /// Sizes are bound: views of the call's inputs and of those outputs that are wanted, and the values that
  /// `HostInteger`s name. Called again when they change.
  virtual void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs,
                       std::span<const std::int64_t> slots) = 0;
  /// Pointers as LibraryOp::run takes them, of the program's device. The memory of inputs may be read until it returns,
  /// and that of outputs must hold the results then; on a device that runs ahead, work is queued instead, on the stream
  /// that Context::set_stream named. May throw.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;
};

/// Makes a call site, or null for an operator that the host does not have.
using Host = std::function<std::unique_ptr<HostOp>(const HostCall&)>;

}  // namespace coil::runtime
