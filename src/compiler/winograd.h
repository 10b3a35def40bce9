// 3x3 convolutions by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015): four neighbouring results take 16 multiplications for each pair of channels
// instead of 36.
//
// A convolution becomes a loop that transforms its input (V = Bt d B over squares of 4x4), sixteen matrix products with weights that were transformed at compile time (U = G g Gt), and a loop that transforms the products
// back (Y = At M A), which what follows the convolution fuses with. All numbers in the transforms are 0, 1, -1 and 1/2. What is infinite or NaN would spread over its square of four: the look at the input that keeps NaN
// elsewhere (compiler/nan_guards.h) has the products computed another way then (runtime/winograd.h).
#pragma once
#include "ir/ir.h"

namespace coil {

/// Marks the convolutions that gain (attribute `algorithm`): f32, one group, stride and dilation 1, constant finite weights, channels enough for what is saved to outweigh the transforms. For the CPU; runs before
/// fuse_post_ops, which leaves what follows them to loops.
void choose_winograd(ir::Graph&);

/// Takes the marked ones apart. Runs after layouts are chosen and NaN is guarded, and before weights are packed. One whose result lies otherwise than channels-last, or which must keep NaN by itself, stays a library call.
void expand_winograd(ir::Graph&);

}  // namespace coil
