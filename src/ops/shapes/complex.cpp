// Operators on complex tensors. Passes rewrite them before metadata is computed anew (passes/graph/split_complex), so
// that most need none beyond what a program records.
#include "ops/shapes/complex.h"

#include "ops/shapes/common.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kRewritten = R"(
aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor
aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor
aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
aten::fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
aten::fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor
aten::fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,
    bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,
    bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, bool? return_complex=None,
    bool? align_to_window=None) -> Tensor
aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True,
    bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor
)";

Value view_as_real(const Call& call) {
  TensorMeta made = call.tensor(0);
  if (!is_complex(made.dtype)) refuse(call, "takes complex tensors, not {}", torch_name(made.dtype));
  made.dtype = real_type(made.dtype);
  for (Expr& s : made.strides) s = call.env.simplify(s * 2);
  made.offset = call.env.simplify(made.offset * 2);
  made.sizes.push_back(2);
  made.strides.push_back(1);
  return made;
}

/// Each number's real or imaginary part, where it lies.
Value part(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  const bool imaginary = call.op.schema.target == "aten.imag.default";
  if (!is_complex(self.dtype)) {
    if (imaginary) refuse(call, "takes complex tensors, not {}", torch_name(self.dtype));
    return self;
  }
  TensorMeta made = view_as_real(call).as_tensor();
  made.sizes.pop_back();
  made.strides.pop_back();
  if (imaginary) made.offset = call.env.simplify(made.offset + 1);
  return made;
}

/// Complex numbers of two real tensors.
Value paired(const Call& call) {
  const DType type = call.tensor(0).dtype;
  if (type != call.tensor(1).dtype) refuse(call, "takes two tensors of one type");
  if (type != DType::F16 && type != DType::F32 && type != DType::F64)
    refuse(call, "takes floating-point tensors of 16 (half), 32 or 64 bits, not {}", torch_name(type));
  return elementwise(call, complex_type(type));
}

Value view_as_complex(const Call& call) {
  TensorMeta made = call.tensor(0);
  const bool pairs = made.rank() > 0 && made.sizes.back().is_constant(2) && made.strides.back().is_constant(1);
  if (!pairs || (made.dtype != DType::F16 && made.dtype != DType::F32 && made.dtype != DType::F64))
    refuse(call, "takes pairs of numbers in a last dimension of two");
  made.dtype = complex_type(made.dtype);
  made.sizes.pop_back();
  made.strides.pop_back();
  for (Expr& s : made.strides) s = call.env.simplify(sym::floor_div(s, 2));
  made.offset = call.env.simplify(sym::floor_div(made.offset, 2));
  return made;
}

/// Points along a dimension of one or two real tensors, which are the parts of complex numbers.
std::size_t transformed_dim(const Call& call) {
  const TensorMeta& re = call["re"].as_tensor();
  const std::int64_t dim = number(call, "dim");
  if (dim < 0 || dim >= static_cast<std::int64_t>(re.rank())) refuse(call, "has no dimension {}", dim);
  if (const Value* im = given(call, "im"))
    if (im->as_tensor().rank() != re.rank() || im->as_tensor().dtype != re.dtype)
      refuse(call, "takes parts that are alike");
  return static_cast<std::size_t>(dim);
}

Value fourier(const Call& call) {
  const TensorMeta& re = call["re"].as_tensor();
  const std::size_t dim = transformed_dim(call);
  Exprs sizes = re.sizes;
  if (call["half"].as_bool()) sizes[dim] = call.env.simplify(sym::floor_div(sizes[dim], 2) + 1);
  return Values{dense(call.env, re, sizes), dense(call.env, re, sizes)};
}

Value fourier_to_real(const Call& call) {
  const TensorMeta& re = call["re"].as_tensor();
  Exprs sizes = re.sizes;
  sizes[transformed_dim(call)] = call["size"].as_int();
  return dense(call.env, re, sizes);
}

}  // namespace

void register_complex() {
  define_each(kRewritten, nullptr);
  define_each("aten::real(Tensor(a) self) -> Tensor(a)\naten::imag(Tensor(a) self) -> Tensor(a)", part);
  define_each(
      "aten::conj(Tensor(a) self) -> Tensor(a)\naten::_conj(Tensor(a) self) -> Tensor(a)\n"
      "aten::_neg_view(Tensor(a) self) -> Tensor(a)",
      [](const Call& call) -> Value { return call.tensor(0); });
  define_each("aten::polar(Tensor abs, Tensor angle) -> Tensor\naten::complex(Tensor real, Tensor imag) -> Tensor",
              paired);
  define_each("aten::view_as_real(Tensor(a) self) -> Tensor(a)", view_as_real);
  define_each("aten::view_as_complex(Tensor(a) self) -> Tensor(a)", view_as_complex);
  // The Fourier transform of real and imaginary parts along one dimension, not divided by anything; no `im`: zeros. The
  // first half of the transform of real numbers, and the numbers, `size` of them, that such a half is made of.
  define("coil::fourier(Tensor re, Tensor? im, int dim, bool backwards, bool half) -> (Tensor, Tensor)", fourier);
  define("coil::fourier_to_real(Tensor re, Tensor? im, int dim, SymInt size) -> Tensor", fourier_to_real);
}

}  // namespace coil::ops::shapes
