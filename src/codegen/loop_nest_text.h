// The text form of a kernel's loops, behind that of the loop IR and in the place of a schedule; prints and parses back.
//
//     nest0: over [i0 < s0, i2 < 4] x [r0 < 8], 2 levels, vectors along r0, runs along i0
//         op1 reduce level 0 at 8*i0: linear_load(buf0, [8*i0 + r0]) (kept)
//         op2 inner level 1 at 8*i0 + r0: div(linear_load(buf0, [8*i0 + r0]), linear_load(buf1, [i0]))
//     nest1: over [] x [i0 < 100], threads by x0 < 16, shared along i0
//         op3 outer level 0 at 4*x0, x0 = linear_load(buf2, [i0]): 1.0
//
// Loops are in their order. `at` is the element that is stored to; `place` that of an extreme that is looked for; a
// `kept` value is not stored.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_nest.h"

namespace coil::codegen {

std::string to_string(const ir::Graph&, const LoopNest&, std::size_t number);
/// `line`: the number of the line before the text, for messages. Throws Error with the line's number.
std::vector<LoopNest> parse_nests(std::string_view text, ir::Graph&, std::size_t line = 0);

}  // namespace coil::codegen
