// Checks that a program makes of itself, each of which can be switched on or off.
#pragma once
#include "target/settings.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Adds the calls that check values, after all others, and says whether runs are watched; before plan_lifetimes. Values
/// of a device without a form of such checks are copied to the CPU for them.
void add_value_checks(Program&, const Checks&);
/// Adds and removes conditions on the inputs' layouts; after define_symbols.
void add_input_checks(Program&, const Checks&);

}  // namespace coil::wrapper
