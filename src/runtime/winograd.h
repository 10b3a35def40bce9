// The products of Winograd's minimal filtering F(2x2, 3x3), between the transforms that the compiler makes loops of (compiler/winograd.h).
//
// winograd_products  v[16, T, C], u[16, C, O], x[N, C, H, W], flag -> m[16, T, O], where T counts the 2x2 tiles of the convolution's result. While the flag (what all_bounded gave for x) is 1, m[i] = v[i] @ u[i].
// Where it is 0, a NaN or an infinity of x would spread over its tile: the convolution itself is computed then, and each result put where the transform back takes nothing but it: terms 0, 3, 12 and 15, the other twelve 0.
// Attributes: `padding`, `padding_end`.
#pragma once
#include "runtime/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_winograd_products(const Attributes&);

}  // namespace coil::runtime
