// Runs a plan's shape program: from the sizes of a call's inputs to every size, stride and byte count of the plan.
#pragma once
#include <span>

#include "runtime/plan.h"

namespace coil::runtime {

/// Sets `slots[i]` to the value of instruction i. Throws Error when a value does not fit in 64 bits, on a division by zero and on a rank or dtype that an instruction does not expect.
void run_shape_program(std::span<const ShapeInstruction> program, std::span<const Tensor> inputs, std::span<std::int64_t> slots);

/// The integer (or bool) that a 0-d tensor holds.
std::int64_t integer_value(const Tensor&);

}  // namespace coil::runtime
