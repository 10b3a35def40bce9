// Names of what the loop IR's enumerators stand for, in its text form: one table for the printer and the parser.
#pragma once
#include <string_view>

#include "ir/ir.h"

namespace coil::ir {

inline constexpr std::string_view kReductionNames[] = {"sum", "prod", "max",    "min",   "any",
                                                       "all", "xor",  "argmax", "argmin"};
inline constexpr std::string_view kScanNames[] = {"sum", "prod", "max", "min", "logsumexp"};
inline constexpr std::string_view kStoreNames[] = {"assign", "add", "prod", "max", "min"};

}  // namespace coil::ir
