// One self-contained page about a compiled program: figures, memory over time, steps, kernels, the report.
#pragma once
#include <string>

#include "coil/coil.h"
#include "runtime/executor.h"

namespace coil::cli {

std::string html_page(const std::string& title, const runtime::Program&, const CompileReport&);

}  // namespace coil::cli
