// Operators that programs bring along: which of them the program that runs a plan carries out.
#pragma once
#include <string_view>

namespace coil::ops {

/// From now on calls of this operator may be left to the host without being asked for. Kept with the registry: one
/// table for the process.
void leave_to_host(std::string_view target);
bool is_left_to_host(std::string_view target);

/// Before the name of an operator that writes to its arguments and has no functional form of its own: the host gives it
/// copies to write to, and what it wrote comes after its own results
/// (`functional.shop.bump_.default`, of which passes and lowering make a call of the host).
inline constexpr std::string_view kFunctional = "functional.";

}  // namespace coil::ops
