// What a compile did, for people: kernels with the source lines they come from, fusions and refusals, memory over time.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fx/graph.h"
#include "ir/ir.h"
#include "runtime/executor.h"
#include "scheduler/schedule.h"
#include "wrapper/program.h"

namespace coil {

/// The user's line, such as `model.py:12`, of each node of the incoming graph.
using SourceLines = std::map<std::string, std::string>;
SourceLines source_lines(const fx::GraphModule&);

/// Bytes of temporaries and outputs that are live at each step, for the sizes of the sample inputs. Empty when sizes are dynamic and there are no samples.
std::vector<std::uint64_t> live_bytes(const runtime::Program&);

std::string report_text(const SourceLines&, const ir::Graph&, const scheduler::Schedule&, const wrapper::Program&, const runtime::Program&);

}  // namespace coil
