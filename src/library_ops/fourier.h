// Fourier transforms along one dimension: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::fourier {

inline constexpr std::string_view kName = "fourier", kToRealName = "fourier_to_real";
inline constexpr Integer kDim{
    .name = "dim", .sentence = "The dimension that is transformed.", .presence = Presence::Required};
inline constexpr Flag kBackwards{.name = "backwards", .sentence = "With e^(2 pi i j k / N), else e^(-2 pi i j k / N)."};

}  // namespace coil::library_ops::fourier
