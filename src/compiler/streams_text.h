// What a program computes and what its process groups exchange meanwhile, side by side, for people.
#pragma once
#include <string>

#include "target/target.h"
#include "wrapper/program.h"

namespace coil {

/// A column for the program and one for each group, downwards the time of a run by the model (passes/wrapper/
/// overlap_collectives.h), in microseconds. Empty for a program without exchanges, and where a machine's costs are not
/// known.
std::string streams_text(const wrapper::Program&, const target::Costs&);

}  // namespace coil
