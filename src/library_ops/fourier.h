// Fourier transforms along one dimension: their attributes.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "library_ops/attribute.h"

namespace coil::library_ops::fourier {

inline constexpr std::string_view kName = "fourier", kToRealName = "fourier_to_real";
inline constexpr Integer kDim{
    .name = "dim", .sentence = "The dimension that is transformed.", .presence = Presence::Required};
inline constexpr Flag kBackwards{.name = "backwards", .sentence = "With e^(2 pi i j k / N), else e^(-2 pi i j k / N)."};

/// The factors of lengths that kernels of Coil's own transform (codegen/cuda/fourier.h).
inline constexpr std::array<int, 6> kFactors{2, 3, 5, 7, 11, 13};
/// How many points such a kernel transforms at most, of numbers of so many bytes: as many as a block has memory for.
constexpr std::int64_t longest_of_kernel(std::size_t bytes) { return (16 << 10) / static_cast<std::int64_t>(bytes); }
/// Whether a kernel transforms `points` of such numbers: at least 2, with no other factors.
bool has_kernel(std::int64_t points, std::size_t bytes);

}  // namespace coil::library_ops::fourier
