// What a program has in memory over time, as text: how much at each call, what is there at the peak, and what would
// lower it.
#pragma once
#include <string>

#include "compiler/report.h"

namespace coil {

/// Bars of what is live at each call, the buffers that are live at the fullest one with what made them and where in the
/// user's program that stands, and the ones among them that are only kept there for later. Sizes as exported.
std::string memory_text(const wrapper::Program&, const SourceLines&);

}  // namespace coil
