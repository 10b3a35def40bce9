// Writes out what autocast does: the casts of operands that `wrap_with_autocast` leaves implicit in an exported
// program.
#pragma once
#include "fx/graph.h"

namespace coil::passes {

/// In the body of every enabled `wrap_with_autocast` (wrappers nested in it included, until one sets another mode),
/// operators take their operands in the type that torch's policy for the device says (ATen/autocast_mode.h).
void write_out_autocast(fx::GraphModule&);

/// The name of a higher-order operator, however the archive spells its target: `wrap_with_set_grad_enabled`; empty for
/// other nodes.
std::string_view higher_order(const fx::Node&);

}  // namespace coil::passes
