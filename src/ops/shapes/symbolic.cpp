// Sizes as values, assertions, numbers read out of tensors, and dropout.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

// Kept though nothing uses them.
constexpr std::string_view kAssertions = R"(
aten::_assert_async(Tensor self) -> ()
aten::_assert_async.msg(Tensor self, str assert_msg) -> ()
aten::_assert_scalar(Scalar self, str assert_msg) -> ()
)";
constexpr std::string_view kConstraints = R"(
aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()
aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()
)";
constexpr std::string_view kNumbers = R"(
aten::item(Tensor self) -> Scalar
aten::_local_scalar_dense(Tensor self) -> Scalar
)";
constexpr std::string_view kDropouts = R"(
aten::dropout(Tensor input, float p, bool train) -> Tensor
aten::feature_dropout(Tensor input, float p, bool train) -> Tensor
aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor
aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor
)";
constexpr std::string_view kDropoutsInPlace = R"(
aten::dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
aten::feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
aten::alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
aten::feature_alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
)";

Value nothing(const Call&) { return None{}; }

/// What an archive asserts must hold of the metadata; sizes and strides are checked where they are given.
Value assert_metadata(const Call& call) {
  const TensorMeta& a = call.tensor(0);
  if (auto dtype = given_dtype(call); dtype && *dtype != a.dtype)
    refuse(call, "the tensor is {}, not {}", torch_name(a.dtype), torch_name(*dtype));
  for (auto [name, have] : {std::pair{"size", &a.sizes}, std::pair{"stride", &a.strides}}) {
    const Value* list = given(call, name);
    if (!list) continue;
    Exprs wanted = list->as_ints();
    if (wanted.size() != have->size()) refuse(call, "the tensor has rank {}, not {}", have->size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) require_equal(call, (*have)[i], wanted[i], name);
  }
  return None{};
}

/// Narrows what is known of a size that is only known at run time.
Value constrain(const Call& call) {
  Expr size = call[0].as_int();
  const Value *min = given(call, "min"), *max = given(call, "max");
  bool is_size = call.op.schema.target == "aten.sym_constrain_range_for_size.default";
  if (min)
    call.env.learn(sym::le(min->as_int(), size));
  else if (is_size)
    call.env.learn(sym::le(0, size));
  if (max) call.env.learn(sym::le(size, max->as_int()));
  return None{};
}

Value size(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  return self.sizes[dim_argument(call, self.rank())];
}

Value stride(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() == 0) refuse(call, "takes a tensor with dimensions");
  return self.strides[dim_argument(call, self.rank())];
}

/// The number in a tensor of one element: known at run time only.
Value item(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (numel(call.env, self).is_constant() && !numel(call.env, self).is_constant(1))
    refuse(call, "takes one element, not sizes {}", show(self.sizes));
  if (is_floating(self.dtype)) return SymFloat{};
  Expr value = call.env.fresh_unbacked(sym::Range{});
  if (self.dtype == DType::Bool) return Bool{sym::ne(value, 0)};
  return value;
}

Value dropout(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  if (!flag(call, "train") || call["p"].as_double() == 0.0) return input;
  if (!is_fractional(input.dtype) && call["p"].as_double() != 1.0 && !numel(call.env, input).is_constant(0))
    refuse(call, "takes floating types in training, not {}", torch_name(input.dtype));
  const TensorMeta* operands[] = {&input};
  return elementwise(call, operands, input.dtype);
}

Value native_dropout(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(0)};
  const bool is_empty = numel(call.env, call.tensor(0)).is_constant(0);
  return Values{elementwise(call, operands, operands[0]->dtype),
                elementwise(call, operands, is_empty ? operands[0]->dtype : DType::Bool)};
}

}  // namespace

void register_symbolic() {
  constexpr Traits kSideEffect{.side_effect = true}, kRandom{.random = true};
  define_each(kAssertions, nothing, kSideEffect);
  define_each(R"(
aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType
aten::result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType
aten::result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType
aten::result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType
)",
              nothing);  // the exporter has put the answer where it was used
  define_each(kConstraints, constrain, kSideEffect);
  define_each(R"(
aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *,
    Device? device=None, Layout? layout=None) -> ()
)",
              assert_metadata, kSideEffect);
  define("aten::sym_size.int(Tensor self, int dim) -> SymInt", size);
  define("aten::sym_stride.int(Tensor self, int dim) -> SymInt", stride);
  define("aten::sym_numel(Tensor self) -> SymInt",
         [](const Call& call) -> Value { return numel(call.env, call.tensor(0)); });
  define("aten::sym_storage_offset(Tensor self) -> SymInt",
         [](const Call& call) -> Value { return call.tensor(0).offset; });
  define("aten::sym_size(Tensor self) -> SymInt[]", [](const Call& call) -> Value { return call.tensor(0).sizes; });
  define("aten::sym_stride(Tensor self) -> SymInt[]", [](const Call& call) -> Value { return call.tensor(0).strides; });
  define_each(kNumbers, item);
  define_each(kDropouts, dropout, kRandom);
  define_each(kDropoutsInPlace, in_place(dropout), kRandom);
  define_each(R"(
aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
)",
              native_dropout, kRandom);
}

}  // namespace coil::ops::shapes
