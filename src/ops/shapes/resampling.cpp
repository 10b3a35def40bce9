// Resampling of images: interpolation, pixel shuffles, patches, grids.
#include <cmath>

#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"
#include "sym/floats.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kResize1d = R"(
aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor
aten::_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor
aten::_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
)";
constexpr std::string_view kResize2d = R"(
aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor
aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)
    -> Tensor
aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor
aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor
aten::_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
aten::_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor
aten::_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor
aten::_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor
)";
constexpr std::string_view kResize3d = R"(
aten::upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None,
    float? scales_h=None, float? scales_w=None) -> Tensor
aten::_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor
aten::_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
)";

/// size * scale in floats, its fraction cut off.
Expr scaled(const Call& call, Expr size, double scale) {
  return call.env.simplify(sym::float_call(
      FloatFunction::TruncToInt,
      sym::float_call(FloatFunction::Mul, sym::float_constant(scale), sym::float_call(FloatFunction::FromInt, size))));
}

template <std::size_t N>
Value resize(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != N + 2) refuse(call, "takes rank {}, not {}", N + 2, self.rank());
  Exprs sizes = self.sizes;
  if (const Value* wanted = given(call, "output_size")) {
    Exprs list = spread(call, *wanted, N);
    std::copy(list.begin(), list.end(), sizes.begin() + 2);
  } else {
    const Value* scales = given(call, "scale_factors");
    if (!scales || scales->as_list().size() != N) refuse(call, "takes output sizes or {} scale factors", N);
    for (std::size_t i = 0; i < N; ++i) sizes[2 + i] = scaled(call, sizes[2 + i], scales->as_list()[i].as_double());
  }
  return in_format(call.env, self, std::move(sizes), suggest_format(call.env, self));
}

Expr divided(const Call& call, Expr size, std::int64_t by) {
  if (size.is_constant() && *size.constant() % by != 0)
    refuse(call, "{} is not a multiple of {}", *size.constant(), by);
  return sym::floor_div(size, by);
}

Value pixel_shuffle(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  bool up = call.op.schema.target == "aten.pixel_shuffle.default";
  std::int64_t factor = number(call, up ? "upscale_factor" : "downscale_factor");
  if (self.rank() < 3 || factor <= 0) refuse(call, "takes at least three dimensions and a positive factor");
  Exprs sizes = self.sizes;
  std::size_t c = sizes.size() - 3;
  sizes[c] = up ? divided(call, sizes[c], factor * factor) : sizes[c] * (factor * factor);
  for (std::size_t d : {c + 1, c + 2}) sizes[d] = up ? sizes[d] * factor : divided(call, sizes[d], factor);
  return in_format(call.env, self, std::move(sizes), suggest_format(call.env, self));
}

Value channel_shuffle(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() < 3) refuse(call, "takes at least three dimensions");
  return in_format(call.env, self, self.sizes, suggest_format(call.env, self));
}

struct Patches {
  Exprs kernel, dilation, padding, stride;
  explicit Patches(const Call& call)
      : kernel(spread(call, call["kernel_size"], 2)),
        dilation(spread(call, call["dilation"], 2)),
        padding(spread(call, call["padding"], 2, 0)),
        stride(spread(call, call["stride"], 2)) {}
  Expr count(std::size_t i, Expr size) const {
    return sym::floor_div(size + padding[i] * 2 - dilation[i] * (kernel[i] - 1) - 1, stride[i]) + 1;
  }
};

Value im2col(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != 3 && self.rank() != 4) refuse(call, "takes rank 3 or 4, not {}", self.rank());
  Patches p(call);
  std::size_t c = self.rank() - 3;
  Exprs sizes;
  if (c == 1) sizes.push_back(self.sizes[0]);
  sizes.push_back(self.sizes[c] * p.kernel[0] * p.kernel[1]);
  sizes.push_back(p.count(0, self.sizes[c + 1]) * p.count(1, self.sizes[c + 2]));
  return dense(call.env, self, std::move(sizes));
}

Value col2im(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != 2 && self.rank() != 3) refuse(call, "takes rank 2 or 3, not {}", self.rank());
  Patches p(call);
  Exprs sizes, image = spread(call, call["output_size"], 2);
  if (self.rank() == 3) sizes.push_back(self.sizes[0]);
  sizes.push_back(sym::floor_div(self.sizes[self.rank() - 2], p.kernel[0] * p.kernel[1]));
  sizes.insert(sizes.end(), image.begin(), image.end());
  return dense(call.env, self, std::move(sizes));
}

/// (N, C, …) sampled at (N, …, rank): the grid's sizes with the input's channels.
Value grid_sample(const Call& call) {
  const TensorMeta &self = call.tensor(0), &grid = call.tensor(1);
  if (self.rank() < 4 || self.rank() != grid.rank())
    refuse(call, "input of sizes {}, grid {}", show(self.sizes), show(grid.sizes));
  require_equal(call, grid.sizes.back(), static_cast<std::int64_t>(self.rank()) - 2, "the last size of the grid");
  require_equal(call, grid.sizes[0], self.sizes[0], "batches of the input and the grid");
  Exprs sizes = {self.sizes[0], self.sizes[1]};
  sizes.insert(sizes.end(), grid.sizes.begin() + 1, grid.sizes.end() - 1);
  return dense(call.env, self, std::move(sizes));
}

}  // namespace

void register_resampling() {
  define_each(kResize1d, resize<1>);
  define_each(kResize2d, resize<2>);
  define_each(kResize3d, resize<3>);
  define_each(R"(
aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor
aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor
)",
              pixel_shuffle);
  define_each(R"(
aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor
)",
              channel_shuffle);
  define_each(R"(
aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
)",
              im2col);
  define_each(R"(
aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)
    -> Tensor
)",
              col2im);
  define_each(R"(
aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
)",
              grid_sample);
}

}  // namespace coil::ops::shapes
