// Operators that programs bring along: which of them the program that runs a plan carries out.
#pragma once
#include <string_view>

namespace coil::ops {

/// From now on calls of this operator may be left to the host without being asked for. Kept with the registry: one table for the process.
void leave_to_host(std::string_view target);
bool is_left_to_host(std::string_view target);

}  // namespace coil::ops
