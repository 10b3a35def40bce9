// What a compile did, for people: kernels with the source lines they come from, fusions and refusals, memory over time,
// times of stages.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coil/coil.h"
#include "fx/graph.h"
#include "ir/ir.h"
#include "scheduler/schedule.h"
#include "target/target.h"
#include "wrapper/program.h"

namespace coil {

/// The user's line, such as `model.py:12`, of each node of the incoming graph.
using SourceLines = std::map<std::string, std::string>;
SourceLines source_lines(const fx::GraphModule&);

/// Fills what a report says about the program: counts, bytes, memory over time. Symbolic sizes count as what they were
/// when the program was exported.
void describe_program(CompileReport&, const wrapper::Program&);

/// The text of `coil explain`, from a report that is filled in, with the costs of the machine that is compiled for.
std::string report_text(const CompileReport&, const SourceLines&, const ir::Graph&, const scheduler::Schedule&,
                        const wrapper::Program&, const target::Costs&);

/// What was fused and what was not, with the reasons.
std::string fusion_text(const ir::Graph&, const scheduler::Schedule&);
/// Bytes of temporaries and outputs that are live at each call.
std::vector<std::uint64_t> live_at_calls(const wrapper::Program&);
/// `1.5 KiB`.
std::string human_bytes(std::uint64_t);

}  // namespace coil
