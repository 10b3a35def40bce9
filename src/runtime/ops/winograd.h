// The products of Winograd's minimal filtering F(m x m, 3 x 3), between the transforms that the compiler makes loops of
// (passes/loop/winograd.h).
//
// winograd_products  v[n * n, T, C], u[n * n, C, O], x[N, C, H, W], flag -> m[n * n, T, O], where n = m + 2 and T
// counts the m x m tiles of the convolution's result. While the flag (what all_bounded gave for x) is 1, m[i] = v[i] @
// u[i]. Where it is 0, a NaN or an infinity of x would spread over its tile: the convolution itself is computed then,
// and y[N, H', W', O] put where m begins, which has room for it. Attributes: `padding`, `padding_end`; `recover`, the 3
// x n matrix that gives a window of its transform.
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

std::unique_ptr<LibraryOp> make_winograd_products(const Attributes&);

}  // namespace coil::runtime
