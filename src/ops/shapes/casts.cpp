// Casts, copies and identities: everything whose result is its input in another type, device or memory.
#include "ops/shapes/complex.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kConversions = R"(
aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False,
    MemoryFormat? memory_format=None) -> Tensor(a)
aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False,
    MemoryFormat? memory_format=None) -> Tensor(a)
aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)
    -> Tensor(a)
aten::type_as(Tensor self, Tensor other) -> Tensor
)";

constexpr std::string_view kIdentities = R"(
aten::alias(Tensor(a) self) -> Tensor(a)
aten::detach(Tensor(a) self) -> Tensor(a)
aten::lift(Tensor self) -> Tensor
aten::lift_fresh(Tensor(a) self) -> Tensor(a)
aten::positive(Tensor(a) self) -> Tensor(a)
aten::resolve_conj(Tensor(a) self) -> Tensor(a)
aten::resolve_neg(Tensor(a) self) -> Tensor(a)
aten::detach_(Tensor(a!) self) -> Tensor(a!)
)";

constexpr std::string_view kDenseCopies = R"(
aten::lift_fresh_copy(Tensor self) -> Tensor
aten::alias_copy(Tensor self) -> Tensor
aten::detach_copy(Tensor self) -> Tensor
)";

constexpr std::string_view kSelfWritten = R"(
aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)
aten::zero_(Tensor(a!) self) -> Tensor(a!)
aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)
aten::uniform_(Tensor(a!) self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor(a!)
aten::normal_(Tensor(a!) self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor(a!)
aten::exponential_(Tensor(a!) self, float lambd=1.0, *, Generator? generator=None) -> Tensor(a!)
aten::geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)
aten::cauchy_(Tensor(a!) self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor(a!)
aten::log_normal_(Tensor(a!) self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor(a!)
aten::random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)
aten::random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)
aten::random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)
aten::bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)
aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)
)";

constexpr std::string_view kFilled = R"(
aten::fill.Scalar(Tensor self, Scalar value) -> Tensor
aten::fill.Tensor(Tensor self, Tensor value) -> Tensor
aten::zero(Tensor self) -> Tensor
)";

TensorMeta target_of(const Call& call) {
  TensorMeta made = call.tensor(0);
  if (const Value* other = given(call, "other")) {
    made.dtype = other->as_tensor().dtype;
    made.device = other->as_tensor().device;
  }
  if (auto dtype = given_dtype(call)) made.dtype = *dtype;
  if (const Value* device = given(call, "device"))
    if (const auto* d = device->get_if<Device>()) made.device = *d;
  return made;
}

/// `Tensor.to`: the tensor itself where nothing changes, else a copy that keeps the layout.
Value convert(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  TensorMeta made = target_of(call);
  auto format = given_format(call);
  bool same_format = !format || *format == MemoryFormat::Preserve || is_contiguous(call.env, self, *format);
  if (made.dtype == self.dtype && made.device == self.device && same_format && !flag(call, "copy")) return self;
  return like_in_format(call.env, made, format);
}

Value to_copy(const Call& call) { return like_in_format(call.env, target_of(call), given_format(call)); }

Value contiguous(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  MemoryFormat format = given_format(call).value_or(MemoryFormat::Contiguous);
  if (is_contiguous(call.env, self, format)) return self;
  return like_in_format(call.env, self, format);
}

/// Sizes that data tell may turn out to be equal, which the run checks.
bool may_expand_to(sym::ShapeEnv& env, Exprs sizes, const Exprs& target) {
  for (std::size_t d = sizes.size(), lead = target.size() - std::min(target.size(), sizes.size());
       d-- > 0 && lead + d < target.size();) {
    const Expr to = target[lead + d];
    const bool run_tells =
        sym::has_symbol_of(sizes[d], sym::SymbolKind::Unbacked) || sym::has_symbol_of(to, sym::SymbolKind::Unbacked);
    if (run_tells && !env.statically_known_true(sym::ne(sizes[d], to))) sizes[d] = to;
  }
  return expands_to(env, sizes, target);
}

/// Checks that a value that is written broadcasts to `self`, which is the result.
Value written(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (call.args.size() > 1)
    if (const auto* source = call[1].get_if<TensorMeta>();
        source && !may_expand_to(call.env, source->sizes, self.sizes))
      refuse(call, "a value of sizes {} does not broadcast to {}", show(source->sizes), show(self.sizes));
  return self;
}

/// The diagonal of a matrix, or of a cube of any rank.
Value diagonal_filled(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (self.rank() < 2) refuse(call, "takes at least two dimensions");
  for (std::size_t d = 1; d < self.rank() && self.rank() > 2; ++d)
    require_equal(call, self.sizes[0], self.sizes[d], "sizes of more than two dimensions must be equal");
  return like_in_format(call.env, self, MemoryFormat::Preserve);
}

/// The functional form of `copy_`: the type, device and layout of `self`, whose memory is not kept.
Value copy(const Call& call) {
  TensorMeta self = written(call).as_tensor();
  return like_in_format(call.env, self, MemoryFormat::Preserve);
}

}  // namespace

void register_casts() {
  register_complex();
  define_each(kConversions, convert);
  define_each(kIdentities, [](const Call& call) -> Value { return call.tensor(0); });
  define("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", to_copy);
  define_each(kDenseCopies, [](const Call& call) -> Value {
    return like_in_format(call.env, call.tensor(0), MemoryFormat::Contiguous);
  });
  define(
      "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
      "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
      to_copy);
  define("aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", contiguous);
  define_each(kSelfWritten, written);
  define("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", copy);
  define_each(kFilled, copy);
  define("coil::fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor", diagonal_filled);
  define("aten::fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
         in_place(diagonal_filled));
}

}  // namespace coil::ops::shapes
