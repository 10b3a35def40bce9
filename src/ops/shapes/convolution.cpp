// Convolutions of one, two and three dimensions, plain and transposed.
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kPlain = R"(
aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0],
    SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0],
    SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0],
    SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid",
    SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid",
    SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid",
    SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
)";
constexpr std::string_view kTransposed = R"(
aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0],
    SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor
aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1],
    SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor
aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1],
    SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1])
    -> Tensor
)";

struct Window {
  Exprs stride, padding, dilation, output_padding;
  bool same = false;  ///< padding="same"
};

/// Whether eager takes oneDNN for a volume; its own kernels give dense results (ATen/native/Convolution.cpp,
/// use_mkldnn).
bool uses_onednn(const Call& call, const TensorMeta& input, const TensorMeta& weight, Expr groups) {
  if (input.dtype != DType::F32) return input.dtype == DType::BF16 || input.dtype == DType::F16;
  Env& env = call.env;
  if (!groups.is_constant(1) || !is_one(env, input.sizes[0])) return true;
  if (env.statically_known_lt(3, weight.sizes[3]) && env.statically_known_lt(3, weight.sizes[4])) return true;
  return env.statically_known_lt(20480, input.sizes[1] * input.sizes[2] * input.sizes[3]);
}

/// Eager's result is channels last when input or weight looks so (ATen/native/ConvUtils.h).
MemoryFormat result_format(const Call& call, const TensorMeta& input, const TensorMeta& weight, Expr groups) {
  MemoryFormat format = suggest_format(call.env, input);
  if (format == MemoryFormat::Contiguous) format = suggest_format(call.env, weight);
  if (format == MemoryFormat::Contiguous || input.rank() != 5) return format;
  return uses_onednn(call, input, weight, groups) ? format : MemoryFormat::Contiguous;
}

/// A sequence (or its weight) as an image of height 1.
TensorMeta as_image(TensorMeta t) {
  t.strides.insert(t.strides.begin() + 2, t.sizes[2] * t.strides[2]);
  t.sizes.insert(t.sizes.begin() + 2, 1);
  return t;
}

/// Eager convolves a sequence as an image, made dense before but for its weight.
TensorMeta sequence_result(const Call& call, const TensorMeta& input, const TensorMeta& weight, Exprs sizes) {
  sizes.insert(sizes.begin() + 2, 1);
  TensorMeta made = in_format(call.env, input, std::move(sizes), suggest_format(call.env, as_image(weight)));
  made.sizes.erase(made.sizes.begin() + 2);
  made.strides.erase(made.strides.begin() + 2);
  return made;
}

TensorMeta convolve(const Call& call, TensorMeta input, const TensorMeta& weight, const Window& w, bool transposed,
                    Expr groups) {
  std::size_t n = weight.rank() - 2;
  if (weight.rank() < 3 || input.rank() != weight.rank())
    refuse(call, "input of sizes {} and weight of sizes {}", show(input.sizes), show(weight.sizes));
  if (input.dtype != weight.dtype)
    refuse(call, "input is {}, weight {}", torch_name(input.dtype), torch_name(weight.dtype));
  require_equal(call, input.sizes[1], transposed ? weight.sizes[0] : weight.sizes[1] * groups, "channels");
  Exprs sizes = {input.sizes[0], transposed ? weight.sizes[1] * groups : weight.sizes[0]};
  if (const Value* bias = given(call, "bias"); bias && bias->is<TensorMeta>() && bias->as_tensor().rank() == 1)
    require_equal(call, bias->as_tensor().sizes[0], call.env.simplify(sizes[1]), "the length of `bias`");
  for (std::size_t i = 0; i < n; ++i) {
    Expr in = input.sizes[2 + i], reach = w.dilation[i] * (weight.sizes[2 + i] - 1), out;
    if (transposed)
      out = (in - 1) * w.stride[i] - w.padding[i] * 2 + reach + w.output_padding[i] + 1;
    else if (w.same)
      out = in;
    else
      out = sym::floor_div(in + w.padding[i] * 2 - reach - 1, w.stride[i]) + 1;
    out = call.env.simplify(out);
    if (out.is_constant() && *out.constant() < (transposed ? 0 : 1))
      refuse(call, "the kernel is larger than the input, sizes {}", show(input.sizes));
    sizes.push_back(out);
  }
  if (n == 1) return sequence_result(call, input, weight, std::move(sizes));
  return in_format(call.env, input, std::move(sizes), result_format(call, input, weight, groups));
}

/// conv1d, conv2d, …: the batch dimension may be missing.
Value convolve_maybe_unbatched(const Call& call, const Window& w, bool transposed) {
  TensorMeta input = call.tensor(0);
  const TensorMeta& weight = call.tensor(1);
  bool unbatched = input.rank() + 1 == weight.rank();
  if (unbatched) {
    input.strides.insert(input.strides.begin(), input.sizes[0] * input.strides[0]);
    input.sizes.insert(input.sizes.begin(), 1);
  }
  TensorMeta made = convolve(call, input, weight, w, transposed, call["groups"].as_int());
  if (unbatched) {
    made.sizes.erase(made.sizes.begin());
    made.strides.erase(made.strides.begin());
  }
  return made;
}

Window window(const Call& call) {
  std::size_t n = std::max<std::size_t>(call.tensor(1).rank(), 3) - 2;
  Window w;
  w.stride = spread(call, call["stride"], n);
  w.dilation = spread(call, call["dilation"], n);
  w.output_padding = Exprs(n, 0);
  if (const auto* mode = call["padding"].get_if<std::string>()) {
    if (*mode != "same" && *mode != "valid") refuse(call, "there is no padding `{}`", *mode);
    w.same = *mode == "same";
    w.padding = Exprs(n, 0);
  } else {
    w.padding = spread(call, call["padding"], n, 0);
  }
  return w;
}

Value plain(const Call& call) { return convolve_maybe_unbatched(call, window(call), false); }

Value transposed(const Call& call) {
  Window w = window(call);
  w.output_padding = spread(call, call["output_padding"], w.stride.size(), 0);
  return convolve_maybe_unbatched(call, w, true);
}

Value convolution(const Call& call) {
  Window w = window(call);
  w.output_padding = spread(call, call["output_padding"], w.stride.size(), 0);
  return convolve(call, call.tensor(0), call.tensor(1), w, flag(call, "transposed"), call["groups"].as_int());
}

}  // namespace

void register_convolution() {
  define_each(kPlain, plain);
  define_each(kTransposed, transposed);
  define_each(R"(
aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
)",
              convolution);
}

}  // namespace coil::ops::shapes
