// The inputs of a run, by name or made up, in the order a plan takes them.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "options.h"
#include "program.h"
#include "runtime/executor/executor.h"

namespace coil::cli {

/// One tensor for each input of the plan, in memory that the run may write to. Throws Error naming every input that is
/// missing, unknown, or of the wrong dtype or rank, and what the program expects. Prints the seed to stderr when the
/// inputs are random.
std::vector<Tensor> make_inputs(const ReadyProgram&, const InputOptions&);

/// The inputs in memory of the program's device, but for those whose values the host needs.
std::vector<Tensor> to_device(const ReadyProgram&, std::vector<Tensor>);

/// What a run gives back by name: its outputs, dense, without those that are None, and the inputs it wrote to.
std::map<std::string, Tensor> named_results(const runtime::Plan&, const runtime::RunResult&,
                                            std::span<const Tensor> inputs);

}  // namespace coil::cli
