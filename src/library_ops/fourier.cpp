#include "library_ops/fourier.h"

#include "library_ops/table.h"

namespace coil::library_ops {

bool fourier::has_kernel(std::int64_t points, std::size_t bytes) {
  if (points < 2 || points > longest_of_kernel(bytes)) return false;
  for (int factor : kFactors)
    while (points % factor == 0) points /= factor;
  return points == 1;
}

std::vector<Descriptor> fourier_ops() {
  using namespace fourier;
  const Operand imaginary{.name = "im", .sizes = "like re", .sentence = "none: zeros", .optional = true};
  return {
      {.name = std::string(kName),
       .sentence = "The transform of complex numbers along a dimension, in f32 or f64, not divided by anything.",
       .operands = {{"re", "[.., N, ..]"}, imaginary},
       .results = {{"re", "[.., K, ..]", "K is N, or N/2 + 1 where there is no im: the first half"},
                   {"im", "[.., K, ..]"}},
       .attributes = {kDim, kBackwards}},
      {.name = std::string(kToRealName),
       .sentence = "The real numbers that N/2 + 1 points are the first half of the transform of, times N.",
       .operands = {{"re", "[.., N/2 + 1, ..]"}, imaginary},
       .results = {{"y", "[.., N, ..]"}},
       .attributes = {kDim}},
  };
}

}  // namespace coil::library_ops
