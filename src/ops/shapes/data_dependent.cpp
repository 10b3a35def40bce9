// Operators whose results have sizes that only data tell.
#include <algorithm>

#include "ops/shapes/common.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

TensorMeta positions(const Call& call, Exprs sizes) {
  return dense(call.env, DType::I64, call.tensor(0).device, std::move(sizes));
}

Value nonzero_numpy(const Call& call) {
  const Expr count = call.env.fresh_unbacked();
  return Values(std::max<std::size_t>(call.tensor(0).rank(), 1), Value(positions(call, {count})));
}

Value nonzero_static(const Call& call) {
  return positions(call, {call["size"].as_int(), static_cast<std::int64_t>(call.tensor(0).rank())});
}

/// Coordinates lie one dimension after the other.
Value nonzero(const Call& call) {
  const Expr count = call.env.fresh_unbacked();
  TensorMeta meta = positions(call, {count, static_cast<std::int64_t>(call.tensor(0).rank())});
  meta.strides = {1, sym::max(count, 1)};
  return meta;
}

Value bincount(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() != 1 || !is_integral(self.dtype))
    refuse(call, "takes integers in one dimension, not sizes {} of {}", show(self.sizes), torch_name(self.dtype));
  const Value* weights = given(call, "weights");
  const DType dtype = !weights ? DType::I64 : weights->as_tensor().dtype == DType::F32 ? DType::F32 : DType::F64;
  return dense(call.env, dtype, self.device, {call.env.fresh_unbacked()});
}

/// repeat_interleave.Tensor: which entry each result repeats.
Value repeat_positions(const Call& call) {
  const TensorMeta& repeats = call.tensor(0);
  const Value* size = given(call, "output_size");
  return dense(call.env, repeats, {size ? size->as_int() : call.env.fresh_unbacked()});
}

Value repeat_interleave(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  const Value* size = given(call, "output_size");
  const Expr count = size ? size->as_int() : call.env.fresh_unbacked();
  if (!given(call, "dim")) return dense(call.env, self, {count});
  Exprs sizes = self.sizes;
  const std::size_t dim = dim_argument(call, self.rank());
  if (sizes.empty()) sizes.push_back(1);
  sizes[dim] = count;
  return dense(call.env, self, std::move(sizes));
}

/// Values (or slices along `dim`), the place of each element among them, how often each occurs; the latter two are
/// empty where they are not asked for.
Values distinct(const Call& call, std::optional<std::size_t> dim, bool inverse, bool counts) {
  const TensorMeta& self = call.tensor(0);
  const Expr count = call.env.fresh_unbacked();
  Exprs sizes{count};
  if (dim) sizes = self.sizes, sizes[*dim] = count;
  const Exprs places = dim ? Exprs{self.sizes[*dim]} : self.sizes;
  TensorMeta values = dense(call.env, self, sizes);
  if (dim) {  // slices lie one after the other
    std::vector<std::size_t> order{*dim};
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (d != *dim) order.push_back(d);
    values.strides = permuted_strides(call.env, sizes, order);
  }
  return {values, positions(call, inverse ? places : Exprs{0}), positions(call, counts ? Exprs{count} : Exprs{0})};
}

Value unique(const Call& call) {
  Values all = distinct(call, std::nullopt, flag(call, "return_inverse"), flag(call, "return_counts"));
  all.resize(call.op.schema.returns.size());
  return all;
}

Value unique_along(const Call& call) {
  std::optional<std::size_t> dim;
  if (given(call, "dim")) dim = dim_argument(call, call.tensor(0).rank());
  // As eager has them there, asked for or not, but for the whole of a vector.
  const bool whole = dim && call.op.schema.target == "aten.unique_consecutive.default" && call.tensor(0).rank() == 1 &&
                     number(call, "dim") == 0;
  const bool always = dim && !whole && call.tensor(0).device.is_host();
  return distinct(call, dim, always || flag(call, "return_inverse"), always || flag(call, "return_counts"));
}

}  // namespace

void register_data_dependent() {
  define("aten::nonzero_numpy(Tensor self) -> Tensor[]", nonzero_numpy);
  define("aten::where(Tensor condition) -> Tensor[]", nonzero_numpy);
  define("aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", nonzero_static);
  define("aten::argwhere(Tensor self) -> Tensor", nonzero);
  define("aten::nonzero(Tensor self) -> Tensor", nonzero);
  define("aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", bincount);
  define("aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", repeat_positions);
  define(
      "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> "
      "Tensor",
      repeat_interleave);
  define("aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", unique);
  define(
      "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
      "Tensor, Tensor)",
      unique);
  define_each(R"(
aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor,
    Tensor, Tensor)
aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)
    -> (Tensor, Tensor, Tensor)
aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor,
    Tensor, Tensor)
)",
              unique_along);
}

}  // namespace coil::ops::shapes
