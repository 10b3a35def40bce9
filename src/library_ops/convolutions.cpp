#include "library_ops/convolutions.h"

#include "library_ops/epilogue.h"
#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> convolution_ops() {
  using namespace convolution;
  return {
      {.name = std::string(convolution::kName),
       .sentence = "y = x * weight + bias in one, two or three dimensions.",
       .operands = with_epilogue({"x", "[N, C, ..]"},
                                 {.name = "weight",
                                  .sizes = "[O, C / groups, ..]",
                                  .sentence = "[C, O / groups, ..] when transposed; bytes where packed",
                                  .packable = true},
                                 "[O]"),
       .results = {{"y", "[N, O, ..]"}},
       .attributes = with_epilogue_attributes({kStride, kPadding, kPaddingEnd, kDilation, kGroups, kTransposed,
                                               kOutputPadding, kWeightSizes, kPackedDesc, kAlgorithm, kTile}),
       .post_ops = all_post_ops(),
       .traits = {Trait::Convolution, Trait::TakesPostOps, Trait::ChannelsLast}},
      {.name = std::string(convolution_weights::kName),
       .sentence = "The gradient of a convolution's weight: dw[o, c, k] = Σ dy[n, o, p] x[n, c, p stride - padding + k "
                   "dilation] over images n and places p.",
       .operands = {{"x", "[N, C, ..]"}, {"dy", "[N, O, ..]"}},
       .results = {{"dw", "[O, C / groups, ..]"}},
       .attributes = {kStride, kPadding, kDilation, kGroups, kTf32},
       .traits = {Trait::ConvolutionGradient, Trait::ChannelsLast}},
  };
}

}  // namespace coil::library_ops
