// Operations that find positions: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::selection {

inline constexpr std::string_view kNonzero = "nonzero", kRepeatPositions = "repeat_positions", kUnique = "unique",
                                  kComplexParts = "complex_parts";
inline constexpr Flag kConsecutive{.name = "consecutive",
                                   .sentence = "Compares neighbours only; else the rows are sorted first."};

}  // namespace coil::library_ops::selection
