// The counter-based generator that kernels draw random numbers from: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// Element i of operator number n has word i mod 4 of the block with key (the seed's low and high half) and counter (i /
// 4 low, i / 4 high, n, 0). Nothing else goes in, so that a value is the same wherever, how often and on whatever
// device it is computed.
#pragma once
#include <string>
#include <string_view>

namespace coil::codegen {

/// `c_philox`, ten rounds on the words a, b, c, d under a key, over `c_wide_mul`, `c_high_of` and `c_low_of`, which a
/// backend has for its numbers or vectors. `function` is how a function of the prelude begins.
std::string random_text(std::string_view function);

}  // namespace coil::codegen
