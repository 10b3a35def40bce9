// One self-contained page about a compiled program: figures, memory over time, steps, kernels, the report.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "coil/coil.h"
#include "runtime/executor.h"

namespace coil::cli {

/// Live bytes of the arena and the outputs at each step of the plan; `buffer_bytes` gives the size of each of its buffers (empty: not known, and nothing is live).
std::vector<std::uint64_t> live_bytes(const runtime::Plan&, const std::vector<std::uint64_t>& buffer_bytes);

std::string html_page(const std::string& title, const runtime::Program&, const CompileReport&, const std::vector<std::uint64_t>& live);

}  // namespace coil::cli
