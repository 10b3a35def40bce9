// Copies between layouts and element types: what stands between a view and the form an operation computes on.
#pragma once
#include "runtime/views/bound_view.h"
#include "support/extension_api.h"

namespace coil::runtime {

/// The type in which the plain loops compute: f32 for the narrower floats, f64, i64 for integers (they wrap as the
/// narrow types do). Throws Error on complex and 8-bit floats.
DType loop_dtype(DType);

/// `to[i] = from[i]`, sizes equal, strides 0 allowed in `from`; the types are equal or one is the loop_dtype of the
/// other.
void convert(const BoundView& to, void* to_data, const BoundView& from, const void* from_data);

/// Dense row-major.
BoundView dense_view(DType, Sizes sizes);
/// A view of the same elements with other sizes and no copy, as torch's `view` finds strides; nothing where there is
/// none.
std::optional<BoundView> reshape_view(const BoundView&, const Sizes& sizes);
/// Right-aligned and broadcast: dimensions of size 1 get stride 0. Throws Error when sizes do not broadcast.
COIL_EXTENSION_API BoundView expand_view(const BoundView&, const Sizes& sizes);
std::size_t dense_bytes(const BoundView&);

}  // namespace coil::runtime
