// Holds library calls to the table: known operation, known attributes of their types, as many operands and results as
// the attributes say.
#pragma once
#include <cstddef>
#include <string_view>

#include "library_ops/descriptor.h"

namespace coil::library_ops {

/// Throws Error naming the operation and an attribute that it does not have, that has another type, or that is missing;
/// or a post-operation that it does not take.
void check_attributes(const Descriptor&, const Attributes&);
/// Throws Error naming the operation where a call with these attributes has another number of operands or results.
void check_operands(const Descriptor&, const Attributes&, std::size_t inputs, std::size_t outputs);

/// Makes both checks for a call of the IR, the wrapper or a plan; throws Error for an operation that there is not.
void check_call(std::string_view op, const Attributes&, std::size_t inputs, std::size_t outputs);
template <class Call>
void check_call(const Call& call) {
  check_call(call.op, call.attributes, call.inputs.size(), call.outputs.size());
}

}  // namespace coil::library_ops
