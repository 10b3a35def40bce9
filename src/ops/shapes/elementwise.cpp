#include "ops/shapes/elementwise.h"

#include <algorithm>
#include <array>

#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

Exprs broadcast(const Call& call, std::span<const Exprs> sizes) {
  std::size_t rank = 0;
  for (const Exprs& s : sizes) rank = std::max(rank, s.size());
  Exprs result(rank, 1);
  for (const Exprs& s : sizes) {
    std::size_t lead = rank - s.size();
    for (std::size_t d = 0; d < s.size(); ++d) {
      Expr &have = result[lead + d], more = s[d];
      if (have == more || more.is_constant(1)) continue;
      if (have.is_constant(1)) {
        have = more;
        continue;
      }
      if (equal(call.env, have, more)) {
        if (more.is_constant()) have = more;
        continue;
      }
      if (is_one(call.env, more)) continue;
      if (is_one(call.env, have)) {
        have = more;
        continue;
      }
      require_equal(call, have, more, fmt::format("sizes do not broadcast in dimension {}", lead + d));
    }
  }
  return result;
}

TensorMeta expanded(const Call& call, const TensorMeta& self, Exprs sizes) {
  if (sizes.size() < self.rank()) refuse(call, "sizes {} do not expand to {}", show(self.sizes), show(sizes));
  TensorMeta made = self;
  made.strides.assign(sizes.size(), 0);
  std::size_t lead = sizes.size() - self.rank();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    Expr size = 1;
    Expr stride = i + 1 < sizes.size() ? sizes[i + 1] * made.strides[i + 1] : Expr(1);
    if (i >= lead) {
      size = self.sizes[i - lead];
      stride = self.strides[i - lead];
      if (sizes[i].is_constant(-1)) sizes[i] = size;
    } else if (sizes[i].is_constant(-1)) {
      refuse(call, "-1 stands for a dimension that is not there");
    }
    if (!equal(call.env, size, sizes[i])) {
      if (!is_one(call.env, size))
        require_equal(call, size, sizes[i], fmt::format("dimension {} can't be expanded", i));
      stride = 0;
    }
    made.strides[i] = stride;
  }
  for (Expr& size : sizes) size = call.env.simplify(size);
  made.sizes = std::move(sizes);
  return made;
}

bool expands_to(Env& env, std::span<const Expr> sizes, std::span<const Expr> target) {
  if (sizes.size() > target.size()) return false;
  std::size_t lead = target.size() - sizes.size();
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!sizes[d].is_constant(1) && !equal(env, sizes[d], target[lead + d])) return false;
  return true;
}

void require_expands(const Call& call, std::span<const Expr> sizes, std::span<const Expr> target,
                     std::string_view what) {
  if (sizes.size() > target.size())
    refuse(call, "{} of sizes {} do not broadcast to {}", what, show(sizes), show(target));
  const std::size_t lead = target.size() - sizes.size();
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!call.env.statically_known_equal(sizes[d], target[lead + d]) && !is_one(call.env, sizes[d]))
      require_equal(call, sizes[d], target[lead + d], what);
}

namespace {
std::optional<DType> merge(std::optional<DType> a, std::optional<DType> b) {
  if (!a || !b) return a ? a : b;
  return promote_types(*a, *b);
}
/// `combine_categories` of ATen/native/TypeProperties.cpp.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? complex_type(*higher) : *higher;
  if (*higher == DType::Bool || is_floating(*lower) || is_complex(*lower)) return promote_types(*higher, *lower);
  return higher;
}
}  // namespace

void Promotion::add(const TensorMeta& t) {
  auto& slot = t.rank() == 0 ? zero_ : dim_;
  slot = merge(slot, t.dtype);
}

void Promotion::add_number(DType category) { number_ = merge(number_, category); }

void Promotion::add(const Value& value) {
  if (const auto* t = value.get_if<TensorMeta>())
    add(*t);
  else if (auto type = number_type(value))
    add_number(*type);
}

DType Promotion::result() const { return combine(dim_, combine(zero_, number_)).value_or(DType::F32); }

DType result_type(std::initializer_list<const Value*> values) {
  Promotion promotion;
  for (const Value* value : values)
    if (value) promotion.add(*value);
  return promotion.result();
}

std::optional<DType> number_type(const Value& value) {
  if (value.is<Bool>()) return DType::Bool;
  if (value.is<Expr>()) return DType::I64;
  if (value.is<double>() || value.is<SymFloat>()) return DType::F32;
  return std::nullopt;
}

DType to_float(DType t) { return is_fractional(t) ? t : DType::F32; }

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_floating(to) && !is_complex(to)) return false;
  return from == DType::Bool || to != DType::Bool;
}

TensorMeta elementwise(const Call& call, std::span<const TensorMeta* const> operands, DType dtype) {
  if (operands.empty()) return TensorMeta{dtype, Device{}, {}, {}, 0};  // `add.Tensor(2, 0.5)`: numbers alone
  const TensorMeta& first = *operands.front();
  TensorMeta result{dtype, first.device, {}, {}, 0};
  for (const TensorMeta* t : operands)
    if (t->rank() > 0) {
      result.device = t->device;
      break;
    }
  bool alike = std::all_of(operands.begin(), operands.end(),
                           [&](const TensorMeta* t) { return t->sizes == first.sizes && t->strides == first.strides; });
  if (alike) {  // the usual case, without a look at the sizes
    result.sizes = first.sizes;
    result.strides =
        is_contiguous(call.env, first) ? dense_strides(call.env, first.sizes) : preserved_strides(call.env, first);
    return result;
  }
  std::vector<Exprs> sizes;
  std::vector<Operand> walked;
  for (const TensorMeta* t : operands) {
    sizes.push_back(t->sizes);
    walked.push_back({t->sizes, t->strides});
  }
  result.sizes = broadcast(call, sizes);
  result.strides = elementwise_strides(call.env, result.sizes, walked);
  return result;
}

TensorMeta elementwise(const Call& call, DType dtype, std::optional<DType> common) {
  auto operands = tensors(call);
  std::vector<TensorMeta> cast;
  cast.reserve(operands.size());
  for (const TensorMeta*& t : operands) {
    if (!common || t->dtype == *common || t->rank() < 2) continue;
    cast.push_back(*t);
    cast.back().strides = preserved_strides(call.env, *t);
    t = &cast.back();
  }
  return elementwise(call, operands, dtype);
}

namespace {
/// The common type of the operands: tensors, and those numbers that take part in promotion (not `alpha`, `eps`, …).
DType operand_type(const Call& call) {
  constexpr std::array<std::string_view, 5> kOperands = {"self", "other", "exponent", "min", "max"};
  Promotion promotion;
  const auto& parameters = call.op.schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    bool operand = parameters[i].type.kind == TypeKind::Tensor ||
                   std::find(kOperands.begin(), kOperands.end(), parameters[i].name) != kOperands.end();
    if (operand) promotion.add(call[i]);
  }
  return promotion.result();
}
}  // namespace

Value same_type(const Call& call) {
  DType common = operand_type(call);
  return elementwise(call, common, common);
}
Value float_type(const Call& call) {
  DType common = to_float(operand_type(call));
  return elementwise(call, common, common);
}
Value bool_type(const Call& call) { return elementwise(call, DType::Bool, operand_type(call)); }

Value mask_in_place(const Call& call) {
  TensorMeta result = bool_type(call).as_tensor();
  if (!all_equal(call.env, call.tensor(0).sizes, result.sizes))
    refuse(call, "a result of sizes {} does not fit in place into {}", show(result.sizes), show(call.tensor(0).sizes));
  return call.tensor(0);
}

}  // namespace coil::ops::shapes
