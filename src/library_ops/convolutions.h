// Convolutions: their attributes, and views over calls of them.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "library_ops/products.h"

namespace coil::library_ops {

namespace convolution {
inline constexpr std::string_view kName = "convolution", kBlocked = "blocked_convolution";
inline constexpr Integers kStride{.name = "stride", .sentence = "Steps of the window, by dimension.", .each = 1};
inline constexpr Integers kPadding{
    .name = "padding", .sentence = "Zeros before x, by dimension; of a transposed one as torch counts.", .each = 0};
inline constexpr Integers kPaddingEnd{.name = "padding_end",
                                      .sentence = "Zeros behind x; as before it where it is not given."};
inline constexpr Integers kDilation{
    .name = "dilation", .sentence = "Distance of the window's places, by dimension.", .each = 1};
inline constexpr Integers kOutputPadding{
    .name = "output_padding", .sentence = "Rows more at the end of a transposed one's result.", .each = 0};
inline constexpr Integer kGroups{.name = "groups", .sentence = "Groups that the channels divide into.", .fallback = 1};
inline constexpr Flag kTransposed{.name = "transposed", .sentence = "The convolution is transposed (deconvolution)."};
inline constexpr Integers kWeightSizes{.name = "weight_sizes",
                                       .sentence = "The weight's sizes, where they are known: a packed one has none."};
inline constexpr Text kAlgorithm{
    .name = "algorithm",
    .sentence =
        "`winograd_slices` where the weight may be packed for Winograd's filtering in slices of tiles; between "
        "passes of the compiler, `winograd` where the call will be taken apart.",
    .presence = Presence::Optional};
inline constexpr Integer kTile{
    .name = "tile", .sentence = "Side of the tiles of either.", .presence = Presence::Optional};
inline constexpr Flag kFixedEngine{
    .name = "fixed_engine",
    .sentence =
        "On a GPU, the library's engine is its first choice and not what measured fastest, so that bits are the "
        "same in every process."};
inline constexpr std::string_view kWinograd = "winograd", kWinogradSlices = "winograd_slices";
}  // namespace convolution

namespace convolution_weights {
inline constexpr std::string_view kName = "convolution_weights", kBlocked = "blocked_convolution_weights";
}

/// What a convolution and the gradient of its weight have in common.
template <class View, class Call>
class WindowCall : public View {
 public:
  WindowCall(Call& call, std::string_view operation) : View(call), operation_(operation) {}
  std::vector<std::int64_t> stride(std::size_t spatial) const { return sizes(convolution::kStride, spatial); }
  std::vector<std::int64_t> padding(std::size_t spatial) const { return sizes(convolution::kPadding, spatial); }
  std::vector<std::int64_t> dilation(std::size_t spatial) const { return sizes(convolution::kDilation, spatial); }
  std::int64_t groups() const { return this->value(convolution::kGroups); }
  bool tf32() const { return this->value(kTf32); }
  bool fixed_engine() const { return this->value(convolution::kFixedEngine); }

 protected:
  std::vector<std::int64_t> sizes(const Integers& key, std::size_t spatial) const {
    return per_dimension(this->call_->attributes, key, spatial, operation_);
  }

 private:
  std::string_view operation_;
};

/// y[N, O, ..] = post(x[N, C, ..] * weight + bias).
template <class Call>
class ConvolutionCall : public WindowCall<EpilogueCall<Call>, Call> {
 public:
  explicit ConvolutionCall(Call& call) : WindowCall<EpilogueCall<Call>, Call>(call, convolution::kName) {}
  static constexpr std::size_t kX = 0, kWeight = 1, kBias = 2;

  auto& x() const { return this->first(); }
  auto& weight() const { return this->second(); }
  bool transposed() const { return this->value(convolution::kTransposed); }
  /// The dimension of the weight that counts the results.
  std::size_t results_dimension() const { return transposed() ? 1 : 0; }
  std::vector<std::int64_t> padding_end(std::size_t spatial) const {
    const bool given = this->call_->attributes.contains(convolution::kPaddingEnd.name);
    return this->sizes(given ? convolution::kPaddingEnd : convolution::kPadding, spatial);
  }
  const std::vector<std::int64_t>& weight_sizes() const { return this->value(convolution::kWeightSizes); }
  /// The tile that a pass has chosen to take the call apart with by Winograd's algorithm, which another will do later.
  std::optional<std::int64_t> winograd_tile() const { return tile_of(convolution::kWinograd); }
  /// The tile that the weight is to be packed for, so that the call itself takes the algorithm in slices.
  std::optional<std::int64_t> winograd_slices() const { return tile_of(convolution::kWinogradSlices); }
  void choose_winograd(std::int64_t tile, bool slices) const {
    this->call_->attributes.insert_or_assign(
        std::string(convolution::kAlgorithm.name),
        std::string(slices ? convolution::kWinogradSlices : convolution::kWinograd));
    this->call_->attributes.insert_or_assign(std::string(convolution::kTile.name), tile);
  }
  void forget_winograd() const {
    this->call_->attributes.erase(std::string(convolution::kAlgorithm.name));
    this->call_->attributes.erase(std::string(convolution::kTile.name));
  }

 private:
  std::optional<std::int64_t> tile_of(std::string_view algorithm) const {
    if (this->value(convolution::kAlgorithm) != algorithm) return std::nullopt;
    return this->value(convolution::kTile);
  }
};

/// dw[O, C / groups, ..] of x[N, C, ..] and dy[N, O, ..]; blocked, in parts [P, O, C / groups, ..] to be summed up.
template <class Call>
class ConvolutionWeightsCall : public WindowCall<CallView<Call>, Call> {
 public:
  explicit ConvolutionWeightsCall(Call& call) : WindowCall<CallView<Call>, Call>(call, convolution_weights::kName) {}

  auto& x() const { return this->input(0); }
  auto& dy() const { return this->input(1); }
  auto& dw() const { return this->output(0); }
};

/// The tile of a call that is a convolution and will be taken apart by Winograd's algorithm.
template <class Call>
std::optional<std::int64_t> winograd_tile(const Call& call) {
  return call.op == convolution::kName ? ConvolutionCall(call).winograd_tile() : std::nullopt;
}

/// The dimension of a call's weight that counts the results; nothing where its second operand is not a weight.
template <class Call>
std::optional<std::size_t> weight_results_dimension(const Call& call) {
  if (call.op == linear::kName) return LinearCall(call).results_dimension();
  if (call.op == convolution::kName) return ConvolutionCall(call).results_dimension();
  return std::nullopt;
}

}  // namespace coil::library_ops
