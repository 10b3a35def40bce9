// Operations on batches of matrices that LAPACK carries out: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::matrices {

inline constexpr Flag kLeft{
    .name = "left", .sentence = "The matrix stands on the left (A X), else on the right (X A).", .fallback = true};
inline constexpr Flag kAdjoint{.name = "adjoint", .sentence = "The matrix is conjugated and turned over."};
inline constexpr Flag kHermitian{.name = "hermitian",
                                 .sentence = "A complex matrix is its own adjoint, else its own transpose."};
inline constexpr Flag kTranspose{.name = "transpose",
                                 .sentence = "The matrix is turned over, a complex one conjugated too."};
inline constexpr Flag kUpper{.name = "upper", .sentence = "The upper triangle counts, else the lower one."};
inline constexpr Flag kUnit{.name = "unit", .sentence = "The diagonal is taken for ones."};
inline constexpr Flag kROnly{.name = "r_only", .sentence = "Only r is wanted."};
inline constexpr Flag kValuesOnly{.name = "values_only", .sentence = "Only the values are wanted, no vectors."};

}  // namespace coil::library_ops::matrices
