// The text form of the wrapper IR: prints and parses back.
//
//     wrapper main(s0: [1, 64] = 3):
//     buffer x : f32[s0, 4] {[4, 1]} input "x"
//     buffer lin.weight : f32[8, 4] {[4, 1]} constant
//     buffer buf1 : f32[s0, 8] {[8, 1]} output
//     symbol s0 = size(x, 0)
//     assert 1 <= s0, "the size of x in dimension 0 (s0) must be at least 1"
//     allocate buf1
//     extern buf1 = linear(x, lin.weight) has_bias=0 post=["relu"] from linear, relu at "model.py:12"
//     kernel coil_2a
//     call coil_2a(x, &buf1; [s0]) over s0 by 512 fails "an index is out of range" in place x -> buf1 from add as mul
//     call coil_2a(buf1, &x; []) over 4*s0 by 512 copies buf1 -> x
//     symbol u0 = read(count)
//     if u0:
//       call coil_2b(buf1; []) over u0 by 512
//     else:
//     end if
//     loop u1 < s0:
//       break unless u0
//     end loop
//     part 0(x, &y; s0, u0) -> buf3:
//       allocate buf3
//       call coil_2a(x, &buf3; [s0]) over s0 by 512
//     end part
//     output "0" = buf1.view(f32).as_strided([8, s0], [1, 8], 0)
//     text coil_2a
//     | extern "C" void coil_2a(…) {…}
//     text coil_3f "__global__ void __launch_bounds__(128)" ("const f32*" restrict p0, "i64*" status)
//     |   if (c_stop(status)) return;
//     source add = %add : f32[s0, 8] = call_function[…]
//
// What is before `;` in a part's border is there before it, what is behind it are symbols, and what it gives lives on.
// Buffers are named; a name that is no plain word stands in quotes. `&` is before buffers that a kernel or part writes
// to. The text of a kernel that is launched is its qualifiers, its parameters and the lines of its body. Constants have
// no values: what is parsed holds zeros. A loop without a bound goes on until it is left: `loop u1:`.
#pragma once
#include <string>
#include <string_view>

#include "support/extension_api.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// All that there is to the program but the values of its constants.
COIL_EXTENSION_API std::string to_text(const Program&);
/// The lines alone, for people: without sizes' ranges, origins and the kernels' text.
COIL_EXTENSION_API std::string to_string(const Program&);
/// Throws Error with the line's number. The program is verified by whoever wants that.
Program parse(std::string_view text);
/// Whether a file holds this text form, by its first line that is no comment.
bool is_wrapper_text(std::string_view text);

}  // namespace coil::wrapper
