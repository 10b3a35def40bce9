// Reductions over some or all dimensions. Results are dense, whatever the layout of the input.
#include <algorithm>

#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kSums = R"(
aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
)";
constexpr std::string_view kMeans = R"(
aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
)";
constexpr std::string_view kExtremes = R"(
aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
aten::max(Tensor self) -> Tensor
aten::min(Tensor self) -> Tensor
aten::median(Tensor self) -> Tensor
aten::nanmedian(Tensor self) -> Tensor
)";
constexpr std::string_view kExtremesWithIndex = R"(
aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
)";
constexpr std::string_view kBothExtremes = R"(
aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
aten::_aminmax(Tensor self) -> (Tensor, Tensor)
aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)
)";
constexpr std::string_view kPositions = R"(
aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
)";
constexpr std::string_view kCounts = R"(
aten::count_nonzero(Tensor self, int? dim=None) -> Tensor
aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
)";
constexpr std::string_view kHashes = R"(
aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor
)";
constexpr std::string_view kLogical = R"(
aten::any(Tensor self) -> Tensor
aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
aten::all(Tensor self) -> Tensor
aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
aten::_is_any_true(Tensor self) -> Tensor
aten::_is_all_true(Tensor self) -> Tensor
)";
constexpr std::string_view kDeviations = R"(
aten::var(Tensor self, bool unbiased=True) -> Tensor
aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor
aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
aten::std(Tensor self, bool unbiased=True) -> Tensor
aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor
aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
)";
constexpr std::string_view kDeviationsWithMean = R"(
aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)
aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)
aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)
aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)
aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)
aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)
)";
constexpr std::string_view kNorms = R"(
aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor
aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor
aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor
aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor
aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
    -> Tensor
aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
)";
constexpr std::string_view kLogSumExp = R"(
aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
)";

/// Sizes after reducing the dimensions of the `dim` argument (all, when it is absent, None or empty).
Exprs reduced_sizes(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  auto dims = dims_argument(call, self.rank());
  bool keep = flag(call, "keepdim"), all = dims.empty();
  Exprs sizes;
  for (std::size_t d = 0; d < self.rank(); ++d) {
    bool reduced = all || std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced)
      sizes.push_back(self.sizes[d]);
    else if (keep)
      sizes.push_back(1);
  }
  return sizes;
}

TensorMeta reduced(const Call& call, DType dtype) {
  return dense(call.env, dtype, call.tensor(0).device, reduced_sizes(call));
}

Value sum(const Call& call) {
  DType self = call.tensor(0).dtype;
  return reduced(call, given_dtype(call).value_or(is_fractional(self) ? self : DType::I64));
}

Value mean(const Call& call) {
  DType dtype = given_dtype(call).value_or(call.tensor(0).dtype);
  if (!is_fractional(dtype)) refuse(call, "takes floating types, not {}", torch_name(dtype));
  return reduced(call, dtype);
}

void require_elements(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  auto dims = dims_argument(call, self.rank());
  for (std::size_t d = 0; d < self.rank(); ++d)
    if ((dims.empty() || std::find(dims.begin(), dims.end(), d) != dims.end()) && self.sizes[d].is_constant(0))
      refuse(call, "has no value over no elements, sizes {}", show(self.sizes));
}

Value extreme(const Call& call) {
  if (!call.op.schema.target.ends_with("median.default")) require_elements(call);
  return reduced(call, call.tensor(0).dtype);
}

Value extreme_with_index(const Call& call) {
  require_elements(call);
  return Values{reduced(call, call.tensor(0).dtype), reduced(call, DType::I64)};
}

Value both_extremes(const Call& call) {
  require_elements(call);
  TensorMeta one = reduced(call, call.tensor(0).dtype);
  return Values{one, one};
}

Value position(const Call& call) {
  require_elements(call);
  return reduced(call, DType::I64);
}

Value count(const Call& call) { return reduced(call, DType::I64); }

Value hash(const Call& call) {
  const DType self = call.tensor(0).dtype;
  const bool is_wide = self == DType::U16 || self == DType::U32 || self == DType::U64;
  if (is_wide || is_complex(self) || (is_floating(self) && size_of(self) == 1))
    refuse(call, "does not take {}", torch_name(self));
  if (!call["mode"].as_int().is_constant(0)) refuse(call, "knows no mode but 0");
  require_elements(call);
  return reduced(call, DType::U64);
}

Value logical(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  const DType dtype = self.dtype == DType::U8 ? DType::U8 : DType::Bool;
  const bool names_none = call.op.schema.target.ends_with(".dims") && call["dim"].is<Values>() &&
                          call["dim"].as_list().empty();  // None stands for all, an empty list for none
  return names_none ? dense(call.env, dtype, self.device, self.sizes) : reduced(call, dtype);
}

Value deviation(const Call& call) {
  DType dtype = call.tensor(0).dtype;
  if (!is_fractional(dtype)) refuse(call, "takes floating types, not {}", torch_name(dtype));
  return reduced(call, real_type(dtype));
}

Value deviation_with_mean(const Call& call) { return Values{deviation(call), reduced(call, call.tensor(0).dtype)}; }

Value norm(const Call& call) {
  DType dtype = given_dtype(call).value_or(call.tensor(0).dtype);
  if (!is_fractional(dtype)) refuse(call, "takes floating types, not {}", torch_name(dtype));
  return reduced(call, real_type(dtype));
}

Value log_sum_exp(const Call& call) { return reduced(call, to_float(call.tensor(0).dtype)); }

}  // namespace

void register_reductions() {
  define_each(kSums, sum);
  define_each(kMeans, mean);
  define_each(kExtremes, extreme);
  define_each(kExtremesWithIndex, extreme_with_index);
  define_each(kBothExtremes, both_extremes);
  define_each(kPositions, position);
  define_each(kCounts, count);
  define_each(kHashes, hash);
  define_each(kLogical, logical);
  define_each(kDeviations, deviation);
  define_each(kDeviationsWithMean, deviation_with_mean);
  define_each(kNorms, norm);
  define_each(kLogSumExp, log_sum_exp);
}

}  // namespace coil::ops::shapes
