// The text form of a schedule, which stands behind that of its loops (ir/text.h); prints and parses back.
//
//     item0: op0 alone (linear)
//     item1: kernel over [s0] x [8], launch config 2
//         op1 reduce level 0 at [i0, 0; r0] -> buf5 (internal)
//         op2 inner level 1 -> buf6
//     not fused: op1 with op3: their iteration spaces differ
//
// `at` says what an operation's own loop variables are in the kernel's: those of what it makes, and behind the
// semicolon those that it reduces. It is left out where they are the kernel's own, in order.
#pragma once
#include <string>
#include <string_view>

#include "scheduler/schedule.h"
#include "support/line_cursor.h"

namespace coil::scheduler {

std::string to_string(const ir::Graph&, const Schedule&);
/// `line`: the number of the line before the text, for messages. Throws Error with the line's number. The schedule is
/// verified by whoever wants that.
Schedule parse(std::string_view text, ir::Graph&, std::size_t line = 0);

/// `reduce`, as the texts of schedules and nests have it.
std::string_view role_name(Role);
Role read_role(LineCursor&);
/// `op3`, one that is there.
ir::OperationId read_operation(LineCursor&, const ir::Graph&);

}  // namespace coil::scheduler
