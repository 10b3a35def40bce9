// Scans, sorts and differences along one dimension.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kScans = R"(
aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
)";
constexpr std::string_view kScansWithIndex = R"(
aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)
aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)
)";
constexpr std::string_view kLogScans = R"(
aten::logcumsumexp(Tensor self, int dim) -> Tensor
aten::_logcumsumexp(Tensor self, int dim) -> Tensor
)";
constexpr std::string_view kSorts = R"(
aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
)";
constexpr std::string_view kArgsorts = R"(
aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor
)";

TensorMeta dense_self(const Call& call, DType dtype) {
  const TensorMeta& self = call.tensor(0);
  dim_argument(call, self.rank());
  return dense(call.env, dtype, self.device, self.sizes);
}

Value scan(const Call& call) {
  DType self = call.tensor(0).dtype;
  return dense_self(call, given_dtype(call).value_or(is_fractional(self) ? self : DType::I64));
}

Value scan_with_index(const Call& call) {
  return Values{dense_self(call, call.tensor(0).dtype), dense_self(call, DType::I64)};
}

Value log_scan(const Call& call) { return dense_self(call, call.tensor(0).dtype); }

Value sort(const Call& call) {
  dim_argument(call, call.tensor(0).rank());
  TensorMeta values = like_in_format(call.env, call.tensor(0), std::nullopt), indices = values;
  indices.dtype = DType::I64;
  return Values{values, indices};
}

Value argsort(const Call& call) { return sort(call).as_list()[1]; }

Value sort_first_dim(const Call& call) { return like_in_format(call.env, call.tensor(0), std::nullopt); }

Value topk(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  Expr k = call["k"].as_int();
  Exprs sizes = self.sizes;
  Expr whole = sizes.empty() ? Expr(1) : sizes[dim];
  if (call.env.statically_known_lt(whole, k) || call.env.statically_known_lt(k, 0))
    refuse(call, "k is out of range for sizes {}", show(self.sizes));
  if (!sizes.empty()) sizes[dim] = k;
  return Values{dense(call.env, self, sizes), dense(call.env, DType::I64, self.device, sizes)};
}

Value kth(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  Exprs sizes = self.sizes;
  std::size_t dim = dim_argument(call, self.rank());
  if (!sizes.empty()) {
    if (flag(call, "keepdim"))
      sizes[dim] = 1;
    else
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  return Values{dense(call.env, self, sizes), dense(call.env, DType::I64, self.device, sizes)};
}

/// As eager: `prepend` and `append` are concatenated, then each step subtracts two slices (exclusive or for bool).
Value diff(const Call& call) {
  TensorMeta self = call.tensor(0);
  std::size_t dim = dim_argument(call, self.rank());
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  const std::int64_t n = number(call, "n");
  if (n < 0) refuse(call, "n is {}", n);
  if (n == 0) return dense(call.env, self, self.sizes);
  Values parts;
  if (const Value* first = given(call, "prepend")) parts.push_back(*first);
  parts.push_back(self);
  if (const Value* last = given(call, "append")) parts.push_back(*last);
  if (parts.size() > 1) self = apply(call.env, "aten.cat.default", {parts, static_cast<std::int64_t>(dim)}).as_tensor();
  constexpr std::int64_t kMostSteps = 1024;
  if (n > kMostSteps && !self.sizes[dim].is_constant()) refuse(call, "takes no {} steps along a free size", n);
  for (std::int64_t i = 0; i < n && !(i > 0 && self.sizes[dim].is_constant(0)); ++i) {
    TensorMeta slice = self;
    Expr rest = slice.sizes[dim] - 1;
    slice.sizes[dim] = call.env.simplify(call.env.statically_known_le(0, rest) ? rest : sym::max(rest, 0));
    const TensorMeta* operands[] = {&slice, &slice};
    self = elementwise(call, operands, slice.dtype);
  }
  return self;
}

}  // namespace

void register_scans() {
  define_with_twins(kScans, scan);
  define_each(kScansWithIndex, scan_with_index);
  define_each(kLogScans, log_scan);
  define_each(kSorts, sort);
  define_each(kArgsorts, argsort);
  define("aten::msort(Tensor self) -> Tensor", sort_first_dim);
  define(
      "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
      "indices)",
      topk);
  define("aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
         kth);
  define("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff);
}

}  // namespace coil::ops::shapes
