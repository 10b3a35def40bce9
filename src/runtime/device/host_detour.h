// Library operations that a device has no form of, carried out by the CPU's: operands are copied to the host, results
// back, and the run waits in between.
#pragma once
#include "runtime/device/cached_op.h"

namespace coil::runtime {

/// The call site of an operation that says so of itself (library_ops: Trait::HostDetour). It cannot be recorded: the
/// host works anew in each run.
std::unique_ptr<LibraryOp> make_host_detour(Queue&, std::string_view op, const Attributes&);
/// The same for one combination of views, for operations that go to the host for some types only.
std::unique_ptr<PreparedCall> prepare_host_detour(Queue&, std::string_view op, const Attributes&,
                                                  std::span<const BoundView> inputs,
                                                  std::span<const BoundView> outputs);

}  // namespace coil::runtime
