// Metadata of one call from the metadata of its arguments: shape functions for operators, integer arithmetic for scalar
// functions.
#pragma once
#include "fx/graph.h"

namespace coil::fx {

/// An error about a call, by the name of the operator that the incoming graph calls (Node::asked).
Error of_call(const Node&, const Error&);

/// Value of `_operator.getitem`, of the scalar functions (`_operator.add`, `torch.sym_max`, `math.floor`, …) and of
/// every registered operator. Throws Error naming operator, node and source line when there is no such operator or its
/// arguments are refused.
ops::Value infer(const Node&, sym::ShapeEnv&);
/// Throws Error, naming operator, node and source line, where eager would refuse a call as it came from outside: a
/// number in a tensor's place and the like, and what ops/requirements.h knows. Calls that passes make are not asked:
/// Coil's own operators are more lenient, and it knows what it does.
void check_call(const Node&, sym::ShapeEnv&);
/// Gives metadata to the calls that have none, in order; what is there stays.
void infer_missing(GraphModule&);
/// An argument with nodes replaced by their metadata, as shape functions take it.
ops::Value resolve(const ops::Value& argument);

}  // namespace coil::fx
