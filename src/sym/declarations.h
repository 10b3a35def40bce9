// Symbols of sizes as the heads of text forms declare them.
#pragma once
#include <string>

#include "support/line_cursor.h"
#include "sym/shape_env.h"

namespace coil::sym {

/// `s0: [1, 100] = 3, u0: unbacked [0, inf]`: each symbol with its range and, where there is one, its hint.
std::string declarations(const ShapeEnv&);
/// Reads them, and the parenthesis that closes them, into an environment that has none of them yet. Throws Error with
/// the place.
void read_declarations(LineCursor&, ShapeEnv&);

}  // namespace coil::sym
