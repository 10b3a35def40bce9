// Whether two pieces of metadata say the same, as far as can be known.
#pragma once
#include "ops/value.h"
#include "sym/shape_env.h"

namespace coil::passes {

/// Equal: proven, or equal by the hints, or known at run time only.
bool agree(const sym::ShapeEnv&, sym::Expr, sym::Expr);
/// Types, devices, sizes, offsets and strides agree; strides of dimensions of size 1 and of tensors without elements
/// count for nothing.
bool agree(const sym::ShapeEnv&, const sym::TensorMeta&, const sym::TensorMeta&);
/// `computed` agrees with what an archive recorded, which may leave out some of it.
bool agree(const sym::ShapeEnv&, const ops::Value& computed, const ops::Value& recorded);

}  // namespace coil::passes
