// Operators that Coil has no lowering for, left to the host program: in torch's process, to torch.
#pragma once
#include "lowering/lowering.h"

namespace coil::lowering {

/// A call of the node's operator with its arguments exactly as eager would have them: tensors with the recorded
/// strides, in memory that the call may read but not keep. Results are new memory with the recorded metadata, those of
/// lists among several results one after another. Throws Error for what cannot be handed over: numbers read out of
/// data.
Lowered call_host(Context&, const fx::Node&);
/// The records of a call's results one after another, those of lists among them too.
std::vector<ops::Value> flat_results(const ops::Value& meta);

/// A tensor in memory with the recorded strides, for code that looks at them.
ir::BufferView recorded_operand(Context&, const fx::Node&);
/// The same in memory of its own, at its beginning; where recorded strides leave gaps or overlap, they are dense there.
ir::BufferView recorded_copy(Context&, const fx::Node&);

}  // namespace coil::lowering
