// 3x3 convolutions by Winograd's minimal filtering F(m x m, 3x3) (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015): a tile of m x m results takes (m + 2)^2 multiplications for each pair of channels instead of
// 9 m^2: 16 instead of 36 for m = 2, 36 instead of 144 for m = 4.
//
// A convolution becomes a loop that transforms its input (V = Bt d B over squares of m + 2), (m + 2)^2 matrix products
// with weights that were transformed at compile time (U = G g Gt), and a loop that transforms the products back (Y = At
// M A), which what follows the convolution fuses with. library_ops/winograd_transforms.h has the matrices. What is
// infinite or NaN would spread over its tile: the look at the input that keeps NaN elsewhere (passes/loop/nan_guards.h)
// has the convolution computed another way then (runtime/ops/winograd.cpp), and the loop back takes its results as they
// are.
//
// Where weights are packed in panels and tiles are many, the convolution stays one call, which takes tiles to their
// terms and back in slices (runtime/ops/panel/winograd.h), and holds no term of others.
#pragma once
#include "ir/ir.h"

namespace coil {

/// Bytes of both transforms of a convolution beyond which it is not taken apart into loops: it goes in slices, or
/// whole.
inline constexpr double kMostTransformBytes = 1 << 26;

/// Marks the convolutions that gain (attributes `algorithm` and `tile`): f32, one group, stride and dilation 1,
/// constant finite weights, and less time with this tile than whole or with another, by what is multiplied, read and
/// transformed. With a `tile` given, all that can be taken apart get this one. For the CPU; runs before fuse_post_ops,
/// which leaves what follows them to loops. Those whose transforms have `slices_from` bytes, and that gain by it, get
/// an attribute that has pack_weights.h prepare their weights for slices, and are ordinary calls to all other passes;
/// weights that are arguments are prepared in each call then.
void choose_winograd(ir::Graph&, std::optional<std::int64_t> tile = {}, std::optional<double> slices_from = {});

/// Takes the marked ones apart. Runs after layouts are chosen and NaN is guarded, and before weights are packed. One
/// whose result lies otherwise than channels-last, or which must keep NaN by itself, stays a library call.
void expand_winograd(ir::Graph&);

}  // namespace coil
