// Pooling over windows, fixed and adaptive.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kPools1d = R"(
aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1],
    bool ceil_mode=False) -> Tensor
aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False,
    bool count_include_pad=True) -> Tensor
)";
constexpr std::string_view kPools2d = R"(
aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> Tensor
aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False,
    bool count_include_pad=True, int? divisor_override=None) -> Tensor
)";
constexpr std::string_view kPools3d = R"(
aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1,
    bool ceil_mode=False) -> Tensor
aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False,
    bool count_include_pad=True, int? divisor_override=None) -> Tensor
)";

/// `pooling_output_shape` of ATen/native/Pool.h.
Expr pooled(const Call& call, Expr in, Expr kernel, Expr stride, Expr pad, Expr dilation, bool ceil) {
  Expr span = in + pad * 2 - dilation * (kernel - 1) - 1;
  Expr out = sym::floor_div(ceil ? span + stride - 1 : span, stride) + 1;
  if (ceil) {  // the last window must start inside the input or its left padding
    Expr beyond = sym::le(in + pad, (out - 1) * stride);
    if (beyond.is_constant())
      out = beyond.is_constant(0) ? out : out - 1;
    else
      out = sym::where(beyond, out - 1, out);
  }
  out = call.env.simplify(out);
  if (out.is_constant() && *out.constant() < 1) refuse(call, "the window is larger than the input");
  return out;
}

/// Sizes after pooling the last `n` dimensions.
Exprs pooled_sizes(const Call& call, std::size_t n) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != n + 1 && self.rank() != n + 2)
    refuse(call, "takes rank {} or {}, not {}", n + 1, n + 2, self.rank());
  Exprs kernel = spread(call, call["kernel_size"], n);
  Exprs stride = call["stride"].as_ints().empty() ? kernel : spread(call, call["stride"], n);
  Exprs padding = spread(call, call["padding"], n, 0);
  const Value* d = given(call, "dilation");
  Exprs dilation = d ? spread(call, *d, n) : Exprs(n, 1);
  Exprs sizes = self.sizes;
  for (std::size_t i = 0; i < n; ++i) {
    if (call.env.statically_known_lt(kernel[i], padding[i] * 2))
      refuse(call, "the padding is more than half of the window");
    Expr& size = sizes[self.rank() - n + i];
    size = pooled(call, size, kernel[i], stride[i], padding[i], dilation[i], flag(call, "ceil_mode"));
  }
  return sizes;
}

/// Eager's layouts: one dimension is pooled as two, averages over three are dense, the others look at the (batched)
/// input.
TensorMeta pool_result(const Call& call, std::size_t n, Exprs sizes) {
  TensorMeta self = call.tensor(0);
  bool average = call.op.schema.target.find("avg") != std::string::npos, batched = self.rank() == n + 2;
  if (n == 1 && !average) return dense(call.env, self, std::move(sizes));
  std::size_t at = n == 1 ? self.rank() - 1 : 0;
  auto insert = [&](TensorMeta& t) {
    t.strides.insert(t.strides.begin() + static_cast<std::ptrdiff_t>(at), t.sizes[at] * t.strides[at]);
    t.sizes.insert(t.sizes.begin() + static_cast<std::ptrdiff_t>(at), 1);
  };
  bool extended = n == 1 ? batched : n == 3 && !batched && !average;
  if (!extended) {
    bool looks = batched && n == 2;
    looks |= batched && n == 3 && !average;
    return in_format(call.env, self, std::move(sizes),
                     looks ? suggest_format(call.env, self) : MemoryFormat::Contiguous);
  }
  insert(self);
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), 1);
  bool volume = n == 3 && is_contiguous(call.env, self, MemoryFormat::ChannelsLast3d);
  TensorMeta made = in_format(call.env, self, std::move(sizes),
                              volume ? MemoryFormat::ChannelsLast3d : suggest_format(call.env, self));
  made.sizes.erase(made.sizes.begin() + static_cast<std::ptrdiff_t>(at));
  made.strides.erase(made.strides.begin() + static_cast<std::ptrdiff_t>(at));
  return made;
}

template <std::size_t N>
Value pool(const Call& call) {
  return pool_result(call, N, pooled_sizes(call, N));
}

template <std::size_t N>
Value pool_with_indices(const Call& call) {
  TensorMeta values = pool_result(call, N, pooled_sizes(call, N)), indices = values;
  indices.dtype = DType::I64;
  return Values{values, indices};
}

Exprs adapted_sizes(const Call& call, std::size_t n) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != n + 1 && self.rank() != n + 2)
    refuse(call, "takes rank {} or {}, not {}", n + 1, n + 2, self.rank());
  Exprs sizes = self.sizes, wanted = spread(call, call["output_size"], n);
  for (Expr e : wanted)
    if (e.constant() && *e.constant() < 0) refuse(call, "has no results of {} places", *e.constant());
  std::copy(wanted.begin(), wanted.end(), sizes.end() - static_cast<std::ptrdiff_t>(n));
  return sizes;
}

template <std::size_t N>
Value adaptive_pool(const Call& call) {
  return pool_result(call, N, adapted_sizes(call, N));
}

template <std::size_t N>
Value adaptive_pool_with_indices(const Call& call) {
  TensorMeta values = pool_result(call, N, adapted_sizes(call, N)), indices = values;
  indices.dtype = DType::I64;
  return Values{values, indices};
}

}  // namespace

void register_pooling() {
  define_each(kPools1d, pool<1>);
  define_each(kPools2d, pool<2>);
  define_each(kPools3d, pool<3>);
  define_each(R"(
aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0],
    int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)
)",
              pool_with_indices<1>);
  define_each(R"(
aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)
)",
              pool_with_indices<2>);
  define_each(R"(
aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)
)",
              pool_with_indices<3>);
  define_each(R"(
aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor
)",
              adaptive_pool<1>);
  define_each(R"(
aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
)",
              adaptive_pool<2>);
  define_each(R"(
aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
)",
              adaptive_pool<3>);
  define_each(R"(
aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)
)",
              adaptive_pool_with_indices<1>);
  define_each(R"(
aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
)",
              adaptive_pool_with_indices<2>);
  define_each(R"(
aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
)",
              adaptive_pool_with_indices<3>);
}

}  // namespace coil::ops::shapes
