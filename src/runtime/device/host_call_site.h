// Library operations of a device that its library does not have, or refused: the CPU's, on copies of the operands, with
// the run waiting in between.
//
// Programs say so themselves, by copies and a call on the CPU (passes/loop/device_copies.h). What is here is for two
// cases that no compiler saw: packages and programs of earlier versions of Coil, which left such calls to the run, and
// shapes for which cuDNN has no engine, which it says when a call is prepared on the GPU that is there.
#pragma once
#include "runtime/device/cached_op.h"

namespace coil::runtime {

/// The call site of an operation that the queue's device has no form of. It cannot be recorded: the host works anew in
/// each run.
std::unique_ptr<LibraryOp> make_host_call_site(Queue&, std::string_view op, const Attributes&);
/// The same for one combination of views, which the device's library has refused.
std::unique_ptr<PreparedCall> prepare_host_call(Queue&, std::string_view op, const Attributes&,
                                                std::span<const BoundView> inputs, std::span<const BoundView> outputs);

}  // namespace coil::runtime
