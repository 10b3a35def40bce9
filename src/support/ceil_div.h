// Integer division that rounds up.
#pragma once
#include <cstdint>

namespace coil {

/// How many parts of `b` it takes to cover `a`, which is not negative.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace coil
