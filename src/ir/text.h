// The text form of the loop IR; prints and parses back.
//
//     loops(s0: [1, 64] = 3):
//     buf0: f32[s0, 4] input x
//     buf1: f32[8, 4] constant lin.weight
//     buf2: f32[s0, 8]{8, 1} fixed output
//     op0: buf2 = extern linear(buf0 as f32[s0, 4], buf1 as f32[8, 4]) post=["relu"] -> buf2 as f32[s0, 8]  # linear,
//     relu op1: buf3 = pointwise[i0 < s0, i1 < 8] add(load(buf2, [i0, i1]), 1.0)  # add op2: buf4 = reduce.sum[i0 < s0;
//     r0 < 8] load(buf3, [i0, r0]) op3: buf5 = scan.sum[i0 < s0, i1 < 8; dim 1] load(buf3, [i0, i1]) op4: buf6 =
//     scatter.add[i0 < 4] at [x0, 0], x0 = load(buf7, [i0]) 1.0 op5: buf8 at [i0 + 2, i1] = pointwise[…] … op6: if u0:
//     return output=buf3 as f32[s0, 8], n=int s0 + 1
//
// A line for each buffer and each operation, numbered from 0; what follows `#` are the nodes of the graph that an
// operation computes. Names that are no plain words stand in quotes. Constants have no values: what is parsed holds
// zeros. ir/scalar_text.h has the form of what loops compute.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "ir/ir.h"

namespace coil::ir {

/// A graph, and the lines that follow it in the same text.
struct Parsed {
  std::unique_ptr<Graph> graph;
  std::string_view rest;
  std::size_t line = 0;  ///< number of the last line that was read
};
/// Throws Error with the line's number. The graph is verified by whoever wants that.
Parsed parse(std::string_view text);
/// Whether a file holds this text form, by its first line that is no comment.
bool is_loop_text(std::string_view text);

/// `buf0 as f32[s0, 4]`
std::string view_text(const BufferView&);

}  // namespace coil::ir
