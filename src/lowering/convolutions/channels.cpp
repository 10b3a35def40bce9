#include "lowering/convolutions/channels.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace coil::lowering {

namespace {

bool is_narrow(DType d) { return d == DType::BF16 || d == DType::F16; }

/// What becomes of a dimension.
enum class Along {
  AsItLies,  ///< the convolution goes along it as before
  Stride,    ///< as many neighbours as its stride become channels, and the convolution steps by 1
  Window     ///< all that a window reads becomes channels, and no window is left
};

/// A way to give a convolution's input other channels: neighbours in each dimension become channels, and zeros are
/// added up to whole vectors.
class Gathering {
 public:
  Gathering(const Call& call, std::vector<Along> along) : along_(std::move(along)), channels_(call.weight_sizes[1]) {
    for (std::size_t d = 0; d < along_.size(); ++d) {
      const std::int64_t window = call.weight_sizes[2 + d];
      patch_.push_back(along_[d] == Along::AsItLies ? 1 : along_[d] == Along::Stride ? call.stride[d] : window);
      windows_.push_back(round_up(window, patch_[d]) / patch_[d]);
      channels_ *= patch_[d];
      if (along_[d] == Along::AsItLies) places_ *= call.stride[d];
    }
    channels_ = round_up(channels_, call.step);
  }

  /// What the copy has for each place of the result.
  std::int64_t copied() const { return channels_ * places_; }

  /// What a place of the result takes.
  double seconds(const Call& call, const target::Costs& costs) const {
    constexpr std::int64_t kDeep = 64, kWide = 32;  // channels that matrix units take at once, of x and of y
    constexpr double kPasses = 2;                   // the copy is written and read
    const std::int64_t taps = std::accumulate(windows_.begin(), windows_.end(), std::int64_t{1}, std::multiplies<>()),
                       multiplications = taps * round_up(channels_, kDeep) * round_up(call.weight_sizes[0], kWide),
                       bytes = copied() * static_cast<std::int64_t>(size_of(call.x.dtype()));
    return 2 * static_cast<double>(multiplications) / costs.half_operations_per_second +
           kPasses * static_cast<double>(bytes) / costs.memory_bytes_per_second;
  }

  void apply(Context& ctx, Call& call) const {
    const Exprs out = ctx.result().sizes;
    Exprs of_weight{call.weight.sizes[0], channels_}, of_x{call.x.sizes[0], channels_};
    for (std::size_t d = 0; d < along_.size(); ++d) {
      of_weight.push_back(windows_[d]);
      of_x.push_back(along_[d] == Along::AsItLies ? call.x.sizes[2 + d] : out[2 + d] + windows_[d] - 1);
    }
    call.weight = gathered(ctx, call.weight, of_weight,
                           [&](std::size_t d, Expr place, Expr neighbour) { return place * patch_[d] + neighbour; });
    call.x = gathered(ctx, call.x, of_x, [&](std::size_t d, Expr place, Expr neighbour) {
      return place * call.stride[d] + neighbour * call.dilation[d] - call.before[d];
    });
    call.weight_sizes[1] = channels_;
    for (std::size_t d = 0; d < along_.size(); ++d) {
      call.weight_sizes[2 + d] = windows_[d];
      if (along_[d] == Along::AsItLies) continue;
      call.stride[d] = call.dilation[d] = 1;
      call.before[d] = call.after[d] = 0;
    }
  }

 private:
  /// Makes of box[n, c, y.., x..] the tensor [n, (c, i.., j..) grown, Y.., X..] with the element at `at(d, Y, i)`; 0
  /// outside of the box and beyond its channels.
  template <class At>
  TensorBox gathered(Context& ctx, const TensorBox& box, const Exprs& sizes, At at) const {
    Exprs index = ctx.graph.ivars(sizes.size());
    Expr channel = ctx.graph.ivar(1);
    std::vector<Element> inside;
    for (std::size_t d = along_.size(); d-- > 0;) {
      if (along_[d] == Along::AsItLies) continue;
      Expr& place = index[2 + d];
      place = at(d, place, sym::mod(channel, patch_[d]));
      channel = sym::floor_div(channel, patch_[d]);
      inside.push_back(condition(ctx, sym::le(0, place)));
      inside.push_back(condition(ctx, sym::lt(place, box.sizes[2 + d])));
    }
    index[1] = channel;
    const Element mask = std::accumulate(inside.begin(), inside.end(), condition(ctx, sym::lt(channel, box.sizes[1])),
                                         [](const Element& a, const Element& b) { return a & b; });
    return pointwise(ctx, box.dtype(), sizes, element_at(ctx, box, index, sizes, {}, mask));
  }

  std::vector<Along> along_;
  std::vector<std::int64_t> patch_, windows_;  ///< neighbours that become channels; what is left of a window
  std::int64_t channels_, places_ = 1;         ///< places: of the copy, for one of the result
};

bool may_gather_by_stride(const Call& call, std::size_t d) { return call.stride[d] > 1 && call.dilation[d] == 1; }

/// Zeros alone where they are few; else as many neighbours as the stride, or a whole window that fits into a vector.
std::vector<Along> usual_way(const Call& call) {
  constexpr std::int64_t kManyTimes = 5;  // the channels are as many as the zeros
  const std::int64_t channels = call.weight_sizes[1], zeros = round_up(channels, call.step) - channels,
                     window = std::accumulate(call.weight_sizes.begin() + 2, call.weight_sizes.end(), channels,
                                              std::multiplies<>());
  if (window <= call.step) return std::vector(call.spatial(), Along::Window);
  std::vector<Along> way(call.spatial(), Along::AsItLies);
  if (zeros * kManyTimes <= channels) return way;
  for (std::size_t d = 0; d < way.size(); ++d)
    if (may_gather_by_stride(call, d)) way[d] = Along::Stride;
  return way;
}

std::vector<Along> choices(const Call& call, std::size_t d) {
  std::vector<Along> out{Along::AsItLies};
  if (may_gather_by_stride(call, d)) out.push_back(Along::Stride);
  if (call.weight_sizes[2 + d] > 1 || call.stride[d] > 1) out.push_back(Along::Window);
  return out;
}

std::vector<Gathering> gatherings(const Call& call) {
  std::vector<std::vector<Along>> ways{{}};
  for (std::size_t d = 0; d < call.spatial(); ++d) {
    std::vector<std::vector<Along>> longer;
    for (const auto& way : ways)
      for (Along along : choices(call, d)) {
        longer.push_back(way);
        longer.back().push_back(along);
      }
    ways = std::move(longer);
  }
  std::vector<Gathering> out;
  for (auto& way : ways) out.emplace_back(call, std::move(way));
  return out;
}

/// A tensor with as many channels, which are its dimension `d`: those beyond its own are 0.
TensorBox with_channels(Context& ctx, const TensorBox& box, std::size_t d, std::int64_t channels) {
  Exprs sizes = box.sizes;
  sizes[d] = channels;
  const Element inside = condition(ctx, sym::lt(ctx.graph.ivar(d), box.sizes[d]));
  return pointwise(ctx, box.dtype(), sizes, element_at(ctx, box, ctx.graph.ivars(sizes.size()), sizes, {}, inside));
}

}  // namespace

std::int64_t channel_step(const Context& ctx, DType dtype, std::int64_t groups) {
  if (!is_narrow(dtype) || groups != 1 || ctx.product_vector_bytes() == 0) return 1;
  return ctx.product_vector_bytes() / static_cast<std::int64_t>(size_of(dtype));
}

void widen_input(Context& ctx, Call& call) {
  std::int64_t& channels = call.weight_sizes[call.of_x()];
  if (channels % call.step == 0) return;
  if (call.transposed) {
    channels = round_up(channels, call.step);
    call.x = with_channels(ctx, call.x, 1, channels);
    call.weight = with_channels(ctx, call.weight, call.of_x(), channels);
    return;
  }
  // The estimate is rough: another way is taken where it is far ahead and does not copy much more.
  constexpr double kFarAhead = 0.5;
  constexpr std::int64_t kMuchMore = 2;
  const target::Costs& costs = ctx.target().costs;
  Gathering best(call, usual_way(call));
  const double usual = best.seconds(call, costs);
  const std::int64_t most = kMuchMore * best.copied();
  double least = kFarAhead * usual;
  for (const Gathering& way : gatherings(call)) {
    const double seconds = way.seconds(call, costs);
    if (seconds > least || way.copied() > most) continue;
    least = seconds;
    best = way;
  }
  best.apply(ctx, call);
}

void widen_result(Context& ctx, Call& call) {
  std::int64_t& channels = call.weight_sizes[call.of_y()];
  if (channels % call.step == 0) return;
  channels = round_up(channels, call.step);
  call.weight = with_channels(ctx, call.weight, call.of_y(), channels);
  if (call.bias) call.bias = with_channels(ctx, *call.bias, 0, channels);
}

}  // namespace coil::lowering
