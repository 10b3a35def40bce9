// Operators on lists of tensors, and fused multiplication and addition: what optimizers are made of.
#include "ops/foreach.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kLists = R"(
aten::_foreach_abs(Tensor[] self) -> Tensor[]
aten::_foreach_acos(Tensor[] self) -> Tensor[]
aten::_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]
aten::_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]
aten::_foreach_addcdiv.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]
aten::_foreach_addcdiv.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]
aten::_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]
aten::_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]
aten::_foreach_asin(Tensor[] self) -> Tensor[]
aten::_foreach_atan(Tensor[] self) -> Tensor[]
aten::_foreach_ceil(Tensor[] self) -> Tensor[]
aten::_foreach_clamp_max.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_clamp_max.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_clamp_max.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_clamp_min.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_clamp_min.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_clamp_min.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]
aten::_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[]
aten::_foreach_cos(Tensor[] self) -> Tensor[]
aten::_foreach_cosh(Tensor[] self) -> Tensor[]
aten::_foreach_div.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_div.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_div.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]
aten::_foreach_erf(Tensor[] self) -> Tensor[]
aten::_foreach_erfc(Tensor[] self) -> Tensor[]
aten::_foreach_exp(Tensor[] self) -> Tensor[]
aten::_foreach_expm1(Tensor[] self) -> Tensor[]
aten::_foreach_floor(Tensor[] self) -> Tensor[]
aten::_foreach_frac(Tensor[] self) -> Tensor[]
aten::_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]
aten::_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]
aten::_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]
aten::_foreach_lgamma(Tensor[] self) -> Tensor[]
aten::_foreach_log(Tensor[] self) -> Tensor[]
aten::_foreach_log10(Tensor[] self) -> Tensor[]
aten::_foreach_log1p(Tensor[] self) -> Tensor[]
aten::_foreach_log2(Tensor[] self) -> Tensor[]
aten::_foreach_max(Tensor[] self) -> Tensor[]
aten::_foreach_maximum.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_maximum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_minimum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]
aten::_foreach_mul.List(Tensor[] self, Tensor[] other) -> Tensor[]
aten::_foreach_mul.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]
aten::_foreach_neg(Tensor[] self) -> Tensor[]
aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]
aten::_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]
aten::_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]
aten::_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]
aten::_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]
aten::_foreach_reciprocal(Tensor[] self) -> Tensor[]
aten::_foreach_round(Tensor[] self) -> Tensor[]
aten::_foreach_rsqrt(Tensor[] self) -> Tensor[]
aten::_foreach_sigmoid(Tensor[] self) -> Tensor[]
aten::_foreach_sign(Tensor[] self) -> Tensor[]
aten::_foreach_sin(Tensor[] self) -> Tensor[]
aten::_foreach_sinh(Tensor[] self) -> Tensor[]
aten::_foreach_sqrt(Tensor[] self) -> Tensor[]
aten::_foreach_sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]
aten::_foreach_sub.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
aten::_foreach_sub.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
aten::_foreach_tan(Tensor[] self) -> Tensor[]
aten::_foreach_tanh(Tensor[] self) -> Tensor[]
aten::_foreach_trunc(Tensor[] self) -> Tensor[]
aten::_foreach_zero(Tensor[] self) -> Tensor[]
)";
constexpr std::string_view kListsInPlace = R"(
aten::_foreach_abs_(Tensor(a!)[] self) -> ()
aten::_foreach_acos_(Tensor(a!)[] self) -> ()
aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()
aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_add_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_add_.Tensor(Tensor(a!)[] self, Tensor other, *, Scalar alpha=1) -> ()
aten::_foreach_addcdiv_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()
aten::_foreach_addcdiv_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()
aten::_foreach_addcmul_.Scalar(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> ()
aten::_foreach_addcmul_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()
aten::_foreach_asin_(Tensor(a!)[] self) -> ()
aten::_foreach_atan_(Tensor(a!)[] self) -> ()
aten::_foreach_ceil_(Tensor(a!)[] self) -> ()
aten::_foreach_clamp_max_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_clamp_max_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_clamp_max_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_clamp_min_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_clamp_min_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_clamp_min_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()
aten::_foreach_cos_(Tensor(a!)[] self) -> ()
aten::_foreach_cosh_(Tensor(a!)[] self) -> ()
aten::_foreach_div_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_div_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_div_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_div_.Tensor(Tensor(a!)[] self, Tensor other) -> ()
aten::_foreach_erf_(Tensor(a!)[] self) -> ()
aten::_foreach_erfc_(Tensor(a!)[] self) -> ()
aten::_foreach_exp_(Tensor(a!)[] self) -> ()
aten::_foreach_expm1_(Tensor(a!)[] self) -> ()
aten::_foreach_floor_(Tensor(a!)[] self) -> ()
aten::_foreach_frac_(Tensor(a!)[] self) -> ()
aten::_foreach_lerp_.List(Tensor(a!)[] self, Tensor[] tensors1, Tensor[] weights) -> ()
aten::_foreach_lerp_.Scalar(Tensor(a!)[] self, Tensor[] tensors1, Scalar weight) -> ()
aten::_foreach_lerp_.ScalarList(Tensor(a!)[] self, Tensor[] tensors1, Scalar[] weight) -> ()
aten::_foreach_lgamma_(Tensor(a!)[] self) -> ()
aten::_foreach_log10_(Tensor(a!)[] self) -> ()
aten::_foreach_log1p_(Tensor(a!)[] self) -> ()
aten::_foreach_log2_(Tensor(a!)[] self) -> ()
aten::_foreach_log_(Tensor(a!)[] self) -> ()
aten::_foreach_maximum_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_maximum_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_maximum_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_minimum_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_minimum_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_minimum_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_mul_.List(Tensor(a!)[] self, Tensor[] other) -> ()
aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_mul_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()
aten::_foreach_neg_(Tensor(a!)[] self) -> ()
aten::_foreach_pow_.List(Tensor(a!)[] self, Tensor[] exponent) -> ()
aten::_foreach_pow_.Scalar(Tensor(a!)[] self, Scalar exponent) -> ()
aten::_foreach_pow_.ScalarList(Tensor(a!)[] self, Scalar[] exponent) -> ()
aten::_foreach_reciprocal_(Tensor(a!)[] self) -> ()
aten::_foreach_round_(Tensor(a!)[] self) -> ()
aten::_foreach_rsqrt_(Tensor(a!)[] self) -> ()
aten::_foreach_sigmoid_(Tensor(a!)[] self) -> ()
aten::_foreach_sign_(Tensor(a!)[] self) -> ()
aten::_foreach_sin_(Tensor(a!)[] self) -> ()
aten::_foreach_sinh_(Tensor(a!)[] self) -> ()
aten::_foreach_sqrt_(Tensor(a!)[] self) -> ()
aten::_foreach_sub_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()
aten::_foreach_sub_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()
aten::_foreach_sub_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()
aten::_foreach_tan_(Tensor(a!)[] self) -> ()
aten::_foreach_tanh_(Tensor(a!)[] self) -> ()
aten::_foreach_trunc_(Tensor(a!)[] self) -> ()
aten::_foreach_zero_(Tensor(a!)[] self) -> ()
)";

Value each_item(const Call& call) {
  const ForeachItems items = foreach_items(call.op, call.args);
  Values results;
  for (const Values& args : items.args) {
    const Operator* item = find(items.target);
    COIL_CHECK(item, "{}", items.target);
    results.push_back(item->schema.parameters.size() == args.size() ? item->shape(Call{*item, args, call.env})
                                                                    : apply(call.env, items.target, args));
  }
  return results;
}

Value in_place_lists(const Call& call) {
  each_item(call);
  return None{};
}

Value fused_product(const Call& call) {
  Promotion promotion;
  for (const Value& v : call.args) promotion.add(v);
  return elementwise(call, promotion.result());
}

}  // namespace

void register_lists() {
  define_each(kLists, each_item);
  define_each(kListsInPlace, in_place_lists);
  define("prims::fma(Tensor a, Tensor b, Tensor c) -> Tensor", fused_product);
}

}  // namespace coil::ops::shapes
