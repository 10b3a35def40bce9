// Runs a plan's shape program: from the sizes of a call's inputs to every size, stride and byte count of the plan.
#pragma once
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// Which slots are known before a run, and which follow from a number that a step gives.
struct ShapeStages {
  explicit ShapeStages(std::span<const ShapeInstruction> program);
  std::vector<std::uint32_t> of;  ///< for each slot, 0: known before; k > 0: follows from the k-th RunTime number (the
                                  ///< last that it depends on)
  std::vector<std::vector<Slot>> after;  ///< for each stage, its slots in order, RunTime ones left out
};

/// Sets `slots[i]` to the value of instruction i, for each i of `which`. Throws Error when a value does not fit in 64
/// bits, on a division by zero and on a rank or dtype that an instruction does not expect.
void run_shape_program(std::span<const ShapeInstruction> program, std::span<const Slot> which,
                       std::span<const Tensor> inputs, std::span<std::int64_t> slots);
/// For every instruction of a program that needs nothing from its run.
void run_shape_program(std::span<const ShapeInstruction> program, std::span<const Tensor> inputs,
                       std::span<std::int64_t> slots);
/// The same for slots of a later stage. One without a value (a division by a size that came out as zero) is marked in
/// `undefined`, and so is what is computed from it: it only matters if a step asks.
void run_late_shape_program(std::span<const ShapeInstruction> program, std::span<const Slot> which,
                            std::span<std::int64_t> slots, std::vector<bool>& undefined);

/// Number of operands of an instruction that are slots.
int slot_operands(ShapeOp);

/// The integer (or bool) that a 0-d tensor holds.
std::int64_t integer_value(const Tensor&);

}  // namespace coil::runtime
