// Checks that a program makes of itself, each of which can be switched on or off.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

struct Checks {
  bool sizes = true;       ///< ranges of sizes, and the conditions that the program was compiled for
  bool strides = false;    ///< inputs come in the strides that kernels assume; otherwise others are copied
  bool alignment = false;  ///< inputs lie at multiples of 16 bytes
  bool nan = false;        ///< no NaN in any returned value, views and written inputs included
  bool inf = false;        ///< likewise no infinity
  bool lifetimes = false;  ///< each run is watched: memory is used while it lives, after something was written to it,
                           ///< and written to by those that may
};

/// Adds the calls that check values, after all others; before plan_lifetimes.
void add_value_checks(Program&, const Checks&);
/// Adds and removes conditions on the inputs' layouts; after define_symbols.
void add_input_checks(Program&, const Checks&);

}  // namespace coil::wrapper
