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
       .attributes =
           with_epilogue_attributes({kStride, kPadding, kPaddingEnd, kDilation, kGroups, kTransposed, kOutputPadding,
                                     kWeightSizes, kPackedDesc, kAlgorithm, kTile, kFixedEngine}),
       .post_ops = all_post_ops(),
       .traits = {Trait::Convolution, Trait::TakesPostOps, Trait::ChannelsLast}},
      {.name = std::string(convolution_weights::kName),
       .sentence = "The gradient of a convolution's weight: dw[o, c, k] = Σ dy[n, o, p] x[n, c, p stride - padding + k "
                   "dilation] over images n and places p.",
       .operands = {{"x", "[N, C, ..]"}, {"dy", "[N, O, ..]"}},
       .results = {{"dw", "[O, C / groups, ..]"}},
       .attributes = {kStride, kPadding, kDilation, kGroups, kTf32, convolution::kFixedEngine},
       .traits = {Trait::ConvolutionGradient, Trait::ChannelsLast}},
      {.name = std::string(convolution::kBlocked),
       .sentence =
           "A convolution in groups of few channels, in 16 bits in two dimensions, by a kernel on matrix units. "
           "Channels of x are innermost, and its places begin on 16 bytes.",
       .operands = with_epilogue(
           {"x", "[N, C, H, W]"},
           {.name = "weight", .sizes = "[O, C / groups, ..]", .sentence = "[C, O / groups, ..] when transposed"},
           "[O]"),
       .results = {{"y", "[N, O, H', W']"}},
       .attributes = with_epilogue_attributes(
           {kStride, kPadding, kPaddingEnd, kDilation, kGroups, kTransposed, kOutputPadding, kWeightSizes}),
       .post_ops = {PostOpKind::Relu, PostOpKind::Silu, PostOpKind::Sigmoid, PostOpKind::Clip, PostOpKind::HardSwish,
                    PostOpKind::HardSigmoid, PostOpKind::LeakyRelu, PostOpKind::Scale, PostOpKind::Add,
                    PostOpKind::Mul},
       .traits = {Trait::Convolution, Trait::TakesPostOps, Trait::ChannelsLast, Trait::Kernel}},
      {.name = std::string(convolution_weights::kBlocked),
       .sentence = "convolution_weights of what blocked_convolution takes: sums over shares of the images and places, "
                   "which are still to be added up.",
       .operands = {{"x", "[N, C, H, W]"}, {"dy", "[N, O, H', W']"}},
       .results = {{"sums", "[P, O, C / groups, ..]", "f32, dense with channels innermost"}},
       .attributes = {kStride, kPadding, kDilation, kGroups},
       .traits = {Trait::ConvolutionGradient, Trait::ChannelsLast, Trait::Kernel}},
  };
}

}  // namespace coil::library_ops
