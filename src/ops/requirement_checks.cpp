// What clauses ask of numbers, of indices, and of arguments that go together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/requirement_clauses.h"
#include "ops/shapes/common.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/strides.h"

namespace coil::ops::clauses {

namespace {

using shapes::refuse;

/// `alpha suits operands`: no number of a higher category than what is computed.
void check_suits(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  if (!value) return;
  const DType t = promoted(call);
  if (value->is<double>() && !is_fractional(t))
    refuse(call, "for integers `{}` must not be a floating-point number, as {} is", c.subject, to_string(*value));
  if (value->is<Bool>() && t != DType::Bool)
    refuse(call, "`{}` is a bool, which {} has no use for", c.subject, torch_name(t));
}

/// `exponent natural operands`: among integers a known number is not negative.
void check_natural(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (number && *number < 0 && !value->is<double>() && !is_fractional(promoted(call)))
    refuse(call, "integers to negative integer powers are not allowed");
}

/// `other divides operands`: among integers a known divisor is not 0, also not where it is cut to their width (256 of
/// 8 bits).
void check_divides(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (!number || is_fractional(promoted(call)) || shapes::numel(call.env, call.tensor(0)).is_constant(0)) return;
  if (std::fmod(*number, std::ldexp(1.0, 8 * static_cast<int>(size_of(promoted(call))))) == 0)
    refuse(call, "divides integers by zero");
}

/// `min_val signed self`: of unsigned tensors not negative.
void check_signed(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  for (const TensorMeta* t : tensors_of(call, c.objects.at(0)))
    if (number && *number < 0 && is_integral(t->dtype) && !is_signed(t->dtype))
      refuse(call, "`{}` is negative, and {} is unsigned", c.subject, torch_name(t->dtype));
}

/// `input1 ranks target 1`: of as many dimensions and one more; with `scalar` behind it, or one of the two has none;
/// with `vector`, or it has one at most.
void check_ranks(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    const std::string_view also = c.objects.size() > 2 ? c.objects[2] : "";
    if ((also == "scalar" && (t->rank() == 0 || others[0]->rank() == 0)) || (also == "vector" && t->rank() <= 1))
      continue;
    if (t->rank() != others[0]->rank() + static_cast<std::size_t>(integer(c.objects.at(1))))
      refuse(call, "`{}` of rank {} does not go with `{}` of rank {}", c.subject, t->rank(), c.objects[0],
             others[0]->rank());
  }
}

/// `self three dim`: of length 3 there.
void check_three(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() == 0) refuse(call, "`{}` is a number", c.subject);
    shapes::require_equal(call, t->sizes[shapes::dim_argument(call, t->rank(), c.objects.at(0))], 3,
                          fmt::format("the length of `{}` along `{}`", c.subject, c.objects[0]));
  }
}

/// `k within self`: from 1 to the size along `dim`.
void check_within(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto* k = value ? value->get_if<Expr>() : nullptr;
  const auto others = tensors_of(call, c.objects.at(0));
  if (!k || others.empty()) return;
  const std::size_t dim = shapes::dim_argument(call, others[0]->rank());
  const Expr size = others[0]->rank() ? others[0]->sizes[dim] : Expr(1);
  if (call.env.statically_known_lt(*k, 1) || call.env.statically_known_lt(size, *k))
    refuse(call, "`{}` is out of range for dimension {}: {}", c.subject, dim, to_string(*value));
}

/// `dim distinct self`: a list names no dimension twice.
void check_distinct(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  const Value* value = shapes::given(call, c.subject);
  if (value && value->is<Values>() && !others.empty()) shapes::dims_argument(call, others[0]->rank(), c.subject);
}

/// `indices some tensor`: not None alone.
void check_some(const Call& call, const Clause& c) {
  if (tensors_of(call, c.subject).empty()) refuse(call, "at least one of `{}` must be given", c.subject);
}

/// `index counts source`: one index for each slice along `dim`.
void check_counts(const Call& call, const Clause& c) {
  const auto indices = tensors_of(call, c.subject), others = tensors_of(call, c.objects.at(0));
  if (indices.empty() || others.empty()) return;
  const Expr slices = others[0]->rank() ? others[0]->sizes[shapes::dim_argument(call, others[0]->rank())] : Expr(1);
  shapes::require_equal(call, indices[0]->numel(), slices,
                        fmt::format("`{}` and the slices of `{}`", c.subject, c.objects[0]));
}

/// `source slices self`: of the same sizes but along `dim`.
void check_slices(const Call& call, const Clause& c) {
  const auto some = tensors_of(call, c.subject), others = tensors_of(call, c.objects.at(0));
  if (some.empty() || others.empty() || some[0]->rank() != others[0]->rank() || some[0]->rank() == 0) return;
  const std::size_t dim = shapes::dim_argument(call, some[0]->rank());
  for (std::size_t d = 0; d < some[0]->rank(); ++d)
    if (d != dim)
      shapes::require_equal(call, some[0]->sizes[d], others[0]->sizes[d],
                            fmt::format("sizes of `{}` and `{}`", c.subject, c.objects[0]));
}

/// `mask broadcasts self`.
void check_broadcasts(const Call& call, const Clause& c) {
  const auto some = tensors_of(call, c.subject), others = tensors_of(call, c.objects.at(0));
  if (some.empty() || others.empty()) return;
  const Exprs sizes[] = {some[0]->sizes, others[0]->sizes};
  shapes::broadcast(call, sizes);
}

/// `self single element`.
void check_single(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject))
    shapes::require_equal(call, shapes::numel(call.env, *t), 1, fmt::format("elements of `{}`", c.subject));
}

/// `self searches sorted_sequence`: a vector, or sequences for each of the leading sizes.
void check_searches(const Call& call, const Clause& c) {
  const auto values = tensors_of(call, c.subject), sequences = tensors_of(call, c.objects.at(0));
  if (values.empty() || sequences.empty() || sequences[0]->rank() == 1) return;
  if (sequences[0]->rank() == 0 || values[0]->rank() != sequences[0]->rank())
    refuse(call, "boundaries of sizes {} do not go with values of sizes {}", shapes::show(sequences[0]->sizes),
           shapes::show(values[0]->sizes));
  for (std::size_t d = 0; d + 1 < values[0]->rank(); ++d)
    shapes::require_equal(call, values[0]->sizes[d], sequences[0]->sizes[d], "sizes of boundaries and values");
}

/// `driver cuda A`: what only the libraries of a GPU know; without elements nothing is asked of them.
void check_cuda(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.objects.at(0)))
    if (shapes::given(call, c.subject) && t->device.is_host() && !shapes::numel(call.env, *t).is_constant(0))
      refuse(call, "`{}` is only supported on CUDA", c.subject);
}

/// `dtype widens self`.
void check_widens(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  if (!value || !value->is<DType>()) return;
  for (const TensorMeta* t : tensors_of(call, c.objects.at(0)))
    if (promote_types(t->dtype, value->as_dtype()) != value->as_dtype())
      refuse(call, "{} is not convertible without narrowing to {}", torch_name(t->dtype),
             torch_name(value->as_dtype()));
}

/// `input1 ends weight 1`: its last size is the weight's dimension 1.
void check_ends(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  const auto dim = static_cast<std::size_t>(integer(c.objects.at(1)));
  if (others.empty() || others[0]->rank() <= dim) return;
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (t->rank() > 0)
      shapes::require_equal(call, t->sizes.back(), others[0]->sizes[dim],
                            fmt::format("the last size of `{}` for `{}`", c.subject, c.objects[0]));
}

/// `self contiguous memory`.
void check_contiguous(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (!shapes::is_contiguous(call.env, *t)) refuse(call, "`{}` must be contiguous", c.subject);
}

/// `self sorts dim`: slices along a dimension have elements to be compared by.
void check_sorts(const Call& call, const Clause& c) {
  if (!shapes::given(call, c.objects.at(0))) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    const std::size_t dim = shapes::dim_argument(call, t->rank(), c.objects[0]);
    for (std::size_t d = 0; d < t->rank(); ++d)
      if (d != dim && t->sizes[d].is_constant(0))
        refuse(call, "there are dimensions of size 0 in {} that are not selected", shapes::show(t->sizes));
  }
}

/// `output_size either scale_factors`: one of the two.
void check_either(const Call& call, const Clause& c) {
  if ((shapes::given(call, c.subject) != nullptr) == (shapes::given(call, c.objects.at(0)) != nullptr))
    refuse(call, "takes exactly one of `{}` and `{}`", c.subject, c.objects[0]);
}

/// `running_mean statistics running_var`: both or none, and both where they are used; in training there is something
/// to count.
void check_statistics(const Call& call, const Clause& c) {
  const bool first = shapes::given(call, c.subject), second = shapes::given(call, c.objects.at(0));
  if (first != second)
    refuse(call, "`{}` and `{}` must either both be None or neither be None", c.subject, c.objects[0]);
  const bool training = shapes::flag(call, "training") || shapes::flag(call, "use_input_stats");
  if (!first && !training) refuse(call, "`{}` must be defined in evaluation mode", c.subject);
}

/// `weight|bias mixed input`: on the CPU parameters of another type than the input are f32, and the input is in 16
/// bits.
void check_mixed(const Call& call, const Clause& c) {
  const auto inputs = tensors_of(call, c.objects.at(0));
  if (inputs.empty() || !inputs[0]->device.is_host()) return;
  std::vector<const TensorMeta*> parameters;
  for (std::string_view name : split(c.subject, "|"))
    for (const TensorMeta* t : tensors_of(call, name)) parameters.push_back(t);
  const DType type = inputs[0]->dtype;
  if (std::ranges::all_of(parameters, [&](const TensorMeta* t) { return t->dtype == type; })) return;
  if (type != DType::F16 && type != DType::BF16)
    refuse(call, "parameters of another type go with inputs of float16 or bfloat16, not {}", torch_name(type));
  for (const TensorMeta* t : parameters)
    if (t->dtype != DType::F32)
      refuse(call, "mixed types: expected parameters of float32, not {}", torch_name(t->dtype));
}

/// `weight shaped normalized_shape`: of the sizes in a list.
void check_shaped(const Call& call, const Clause& c) {
  const Value* list = shapes::given(call, c.objects.at(0));
  if (!list) return;
  const Exprs sizes = list->as_ints();
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() != sizes.size())
      refuse(call, "`{}` must have the sizes {}, not {}", c.subject, shapes::show(sizes), shapes::show(t->sizes));
    for (std::size_t d = 0; d < sizes.size(); ++d)
      shapes::require_equal(call, t->sizes[d], sizes[d], fmt::format("sizes of `{}`", c.subject));
  }
}

/// `weight long C`: a vector of that length.
void check_long(const Call& call, const Clause& c) {
  const Value* length = shapes::given(call, c.objects.at(0));
  if (!length || !length->is<Expr>()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() != 1) refuse(call, "`{}` must be a vector, not of rank {}", c.subject, t->rank());
    shapes::require_equal(call, t->sizes[0], length->as_int(), fmt::format("the length of `{}`", c.subject));
  }
}

/// `saved_v outermost dim`: the first dimension or the last.
void check_outermost(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    const std::int64_t dim = shapes::number(call, c.objects.at(0));
    if (dim != 0 && dim + 1 != static_cast<std::int64_t>(t->rank()))
      refuse(call, "`{}` is the first dimension or the last, not {}", c.objects[0], dim);
  }
}

/// `self holds operands`: what is computed may be stored in its type.
void check_holds(const Call& call, const Clause& c) {
  shapes::Promotion promotion;
  for (const TensorMeta* t : shapes::tensors(call)) promotion.add(*t);
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (!shapes::can_cast(promotion.result(), t->dtype))
      refuse(call, "a result of type {} can't be stored to {}", torch_name(promotion.result()), torch_name(t->dtype));
}

/// `target batches self`: of self's sizes without its channels, which come second, or first in what is no batch.
void check_batches(const Call& call, const Clause& c) {
  const auto targets = tensors_of(call, c.subject), inputs = tensors_of(call, c.objects.at(0));
  if (targets.empty() || inputs.empty() || inputs[0]->rank() == 0) return;
  const TensorMeta &target = *targets[0], &input = *inputs[0];
  if (input.rank() == 1) {
    if (target.rank() == 1) shapes::require_equal(call, target.sizes[0], 1, "sizes of the input and the target");
    return;
  }
  if (target.rank() + 1 != input.rank())
    refuse(call, "an input of sizes {} has no target of sizes {}", shapes::show(input.sizes),
           shapes::show(target.sizes));
  for (std::size_t d = 0; d < target.rank(); ++d)
    shapes::require_equal(call, target.sizes[d], input.sizes[d ? d + 1 : 0], "sizes of the input and the target");
}

/// `lower finite number`.
void check_finite(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (number && !std::isfinite(*number)) refuse(call, "`{}` must be finite, not {}", c.subject, to_string(*value));
}

/// `from bounded self`: one of the type's integers, or the one behind them, which bounds them from above; `bounded
/// result`: of the type that the call makes.
void check_bounded(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const bool of_result = c.objects.at(0) == "result";
  const auto number = value && (of_result || !shapes::given_dtype(call)) ? known_number(*value) : std::nullopt;
  if (!number) return;
  const Value made = of_result ? call.op.shape(call) : Value();
  for (const TensorMeta* t : of_result ? std::vector{&made.as_tensor()} : tensors_of(call, c.objects[0])) {
    if (is_fractional(t->dtype)) continue;
    const int bits =
        t->dtype == DType::Bool ? 1 : static_cast<int>(size_of(t->dtype)) * 8 - (is_signed(t->dtype) ? 1 : 0);
    const double above = std::ldexp(1.0, bits), least = is_signed(t->dtype) ? -above : 0;
    const bool is_end = c.subject == "to" || c.subject == "high";
    if (*number < least || *number > above || (*number == above && !is_end))
      refuse(call, "`{}` is out of bounds for {}: {}", c.subject, torch_name(t->dtype), to_string(*value));
  }
}

/// The largest number of a type.
double largest_of(DType t) {
  if (is_integral(t)) return std::ldexp(1.0, static_cast<int>(size_of(t)) * 8 - (is_signed(t) ? 1 : 0)) - 1;
  return t == DType::F16 ? 65504 : t == DType::BF16 ? std::ldexp(255.0, 120) : std::numeric_limits<float>::max();
}

/// Whether eager takes a number for one of the type (c10::overflows): of unsigned types also the negative integers that
/// have an opposite there.
bool is_held(const Value& value, double number, DType t) {
  if (t == DType::Bool || t == DType::F64 || is_complex(t) || (is_floating(t) && size_of(t) == 1)) return true;
  if (!is_integral(t)) return !std::isfinite(number) || std::fabs(number) <= largest_of(t);
  const double largest = largest_of(t);
  const bool wraps = !is_signed(t) && !value.is<double>();
  const double least = wraps ? -largest : is_signed(t) ? -largest - 1 : 0;
  return number >= least && number <= largest;
}

void check_held_by_type(const Call& call, const Clause& c, std::string_view name) {
  const Value* value = shapes::given(call, name);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (!number) return;
  auto check = [&](DType t) {
    const std::string_view only = c.objects.size() > 1 ? c.objects[1] : "";
    const bool asked = only == "integral" ? is_integral(t) : only != "wide" || is_integral(t) || size_of(t) > 2;
    if (asked && !is_held(*value, *number, t))
      refuse(call, "`{}` cannot be converted to {} without overflow: {}", name, torch_name(t), to_string(*value));
  };
  if (c.objects.at(0) == "operands") return check(promoted(call));
  if (c.objects[0] == "result") {
    const Value made = call.op.shape(call);
    if (const auto* t = made.get_if<TensorMeta>()) check(t->dtype);
    return;
  }
  for (const TensorMeta* t : tensors_of(call, c.objects[0])) check(t->dtype);
}

/// `value held self`: the type has such a number; with `integral` behind it for integers alone, with `wide` not for
/// floats of 16 bits.
void check_held(const Call& call, const Clause& c) {
  for (std::string_view name : split(c.subject, "|")) check_held_by_type(call, c, name);
}

/// `memory_format format contiguous`: nothing there to be preserved.
void check_format(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto* format = value ? value->get_if<MemoryFormat>() : nullptr;
  if (format && *format == MemoryFormat::Preserve) refuse(call, "has no memory format to preserve");
}

/// `scale along self`: a vector as long as the tensor along `axis`.
void check_along(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  const std::int64_t axis = shapes::number(call, "axis");
  if (axis >= static_cast<std::int64_t>(others[0]->rank()))
    refuse(call, "`axis` must be between 0 and the number of dimensions, not {}", axis);
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (t->rank() == 1)
      shapes::require_equal(call, t->sizes[0], others[0]->sizes[static_cast<std::size_t>(axis)],
                            fmt::format("the length of `{}`", c.subject));
}

/// Whether a tensor has elements, as far as is known.
bool has_elements(const Call& call, const TensorMeta& t) {
  return call.env.statically_known_lt(0, shapes::numel(call.env, t));
}

/// `index reaches self dim`: where there are indices there is something along that dimension (`0`: the first; `whole`:
/// anywhere; `slices`: along `dim`, where the other dimensions have places).
void check_reaches(const Call& call, const Clause& c) {
  const auto indices = tensors_of(call, c.subject), others = tensors_of(call, c.objects.at(0));
  const std::string_view where = c.objects.at(1);
  if (indices.empty() || others.empty() || !has_elements(call, *indices[0])) return;
  const TensorMeta& self = *others[0];
  const bool whole = where == "whole" || self.rank() == 0;
  std::size_t dim = 0;
  if (!whole && where != "0") dim = shapes::dim_argument(call, self.rank());
  bool nothing = whole ? shapes::numel(call.env, self).is_constant(0) : self.sizes[dim].is_constant(0);
  for (std::size_t d = 0; d < self.rank() && where == "slices"; ++d)
    nothing &= d == dim || !self.sizes[d].is_constant(0);
  if (nothing) refuse(call, "there is nothing in `{}` to index, of sizes {}", c.objects[0], shapes::show(self.sizes));
}

/// `input totals N C HxW`: it has as many elements as these numbers' product, where both are known.
void check_totals(const Call& call, const Clause& c) {
  Expr total = 1;
  for (std::string_view name : c.objects) total = total * call[name].as_int();
  total = call.env.simplify(total);
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (const Expr have = shapes::numel(call.env, *t); have.is_constant() && total.is_constant() && have != total)
      refuse(call, "`{}` has {} elements, not {}", c.subject, *have.constant(), *total.constant());
}

/// `bias spreads weight 0`: a number, or a vector of one element or of as many as the weight is long there; `buffer
/// spreads self`: of sizes that broadcast to self's, on the CPU.
void check_spreads(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (c.objects.size() == 1) {
      if (t->device.is_host()) shapes::require_expands(call, t->sizes, others[0]->sizes, c.subject);
      continue;
    }
    const auto dim = static_cast<std::size_t>(integer(c.objects[1]));
    if (t->rank() != 1 || others[0]->rank() < 2 || t->sizes[0].is_constant(1)) continue;
    shapes::require_equal(call, t->sizes[0], others[0]->sizes[dim], fmt::format("the length of `{}`", c.subject));
  }
}

/// `alpha unless is_result`: with that flag it is not negative.
void check_unless(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (number && !(*number >= 0) && shapes::flag(call, c.objects.at(0)))
    refuse(call, "`{}` must not be negative with `{}`, as {} is", c.subject, c.objects[0], to_string(*value));
}

/// `input_dtype of grad_output`: on the CPU its element type.
void check_dtype_of(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  if (!value || !value->is<DType>()) return;
  for (const TensorMeta* t : tensors_of(call, c.objects.at(0)))
    if (t->device.is_host() && t->dtype != value->as_dtype())
      refuse(call, "`{}` must be {} as `{}` is, not {}", c.subject, torch_name(t->dtype), c.objects[0],
             torch_name(value->as_dtype()));
}

/// `target fits self`: of its sizes; of vectors and numbers, of as many elements.
void check_fits(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    const bool flat = t->rank() <= 1 && others[0]->rank() <= 1;
    if (!flat && t->rank() != others[0]->rank())
      refuse(call, "`{}` of rank {} does not go with `{}` of rank {}", c.subject, t->rank(), c.objects[0],
             others[0]->rank());
    const Exprs a = flat ? Exprs{shapes::numel(call.env, *t)} : t->sizes;
    const Exprs b = flat ? Exprs{shapes::numel(call.env, *others[0])} : others[0]->sizes;
    for (std::size_t d = 0; d < a.size(); ++d)
      shapes::require_equal(call, a[d], b[d], fmt::format("sizes of `{}` and `{}`", c.subject, c.objects[0]));
  }
}

/// `dim reduces self`: an empty list, which stands for all dimensions, is for numbers or where dimensions are kept.
void check_reduces(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto* list = value ? value->get_if<Values>() : nullptr;
  if (!list || !list->empty() || shapes::flag(call, "keepdim")) return;
  for (const TensorMeta* t : tensors_of(call, c.objects.at(0)))
    if (t->rank() > 0) refuse(call, "`{}` names no dimension", c.subject);
}

/// `input counted training`: there is something to count in training.
void check_counted(const Call& call, const Clause& c) {
  if (!shapes::flag(call, c.objects.at(0))) return;
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (shapes::numel(call.env, *t).is_constant(0))
      refuse(call, "`{}` must have at least one element, not sizes {}", c.subject, shapes::show(t->sizes));
}

/// `shifts rolls dims`: one shift for each dimension, or one for all elements.
void check_rolls(const Call& call, const Clause& c) {
  const Value *shifts = shapes::given(call, c.subject), *dims = shapes::given(call, c.objects.at(0));
  const auto* many = shifts ? shifts->get_if<Values>() : nullptr;
  const auto* list = dims ? dims->get_if<Values>() : nullptr;
  const std::size_t named = list ? list->size() : dims ? 1 : 0, count = many ? many->size() : 1;
  if (named != count && !(named == 0 && count == 1))
    refuse(call, "`{}` and `{}` must be of one length, not {} and {}", c.subject, c.objects[0], count, named);
}

/// `x samples y`: a vector has one value for each sample along `dim`.
void check_samples(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty() || others[0]->rank() == 0) return;
  const Expr samples = others[0]->sizes[shapes::dim_argument(call, others[0]->rank())];
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (t->rank() == 1) shapes::require_equal(call, t->sizes[0], samples, fmt::format("the length of `{}`", c.subject));
}

/// `x1 columns x2`: of as many.
void check_columns(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (t->rank() > 0 && !others.empty() && others[0]->rank() > 0)
      shapes::require_equal(call, t->sizes.back(), others[0]->sizes.back(),
                            fmt::format("columns of `{}` and `{}`", c.subject, c.objects[0]));
}

/// `spacing steps self`: one for each dimension that is asked for.
void check_steps(const Call& call, const Clause& c) {
  const Value* spacing = shapes::given(call, c.subject);
  const auto* list = spacing ? spacing->get_if<Values>() : nullptr;
  const auto others = tensors_of(call, c.objects.at(0));
  if (!list || others.empty()) return;
  const Value* dim = shapes::given(call, "dim");
  const auto* dims = dim ? dim->get_if<Values>() : nullptr;
  const std::size_t wanted = dims ? dims->size() : dim ? 1 : others[0]->rank();
  if (list->size() != wanted)
    refuse(call, "`{}` takes {} values, one for each dimension, not {}", c.subject, wanted, list->size());
}

/// `input dropped train`: on integers nothing or everything is dropped, or there is nothing to drop.
void check_dropped(const Call& call, const Clause& c) {
  const Value *train = shapes::given(call, c.objects.at(0)), *p = shapes::given(call, "p");
  const auto rate = p ? known_number(*p) : std::nullopt;
  const bool whole = c.objects.size() == 1 && call.op.schema.target != "aten.native_dropout.default";
  if ((train && !shapes::flag(call, c.objects[0])) || (rate && whole && (*rate == 0 || *rate == 1))) return;
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if ((!is_fractional(t->dtype) || size_of(t->dtype) == 1) && !shapes::numel(call.env, *t).is_constant(0))
      refuse(call, "`{}` takes fractional types in training, not {}", c.subject, torch_name(t->dtype));
}

/// `p between train`: a probability, where it is asked for.
void check_between(const Call& call, const Clause& c) {
  const Value *train = shapes::given(call, c.objects.at(0)), *p = shapes::given(call, c.subject);
  const auto rate = p ? known_number(*p) : std::nullopt;
  if (train && !shapes::flag(call, c.objects[0])) return;
  if (rate && !(*rate >= 0 && *rate <= 1))
    refuse(call, "`{}` must be between 0 and 1, not {}", c.subject, to_string(*p));
}

constexpr std::pair<std::string_view, Checker> kFurtherVerbs[] = {
    {"reaches", check_reaches},     {"totals", check_totals},     {"spreads", check_spreads},
    {"unless", check_unless},       {"of", check_dtype_of},       {"fits", check_fits},
    {"held", check_held},           {"reduces", check_reduces},   {"counted", check_counted},
    {"rolls", check_rolls},         {"samples", check_samples},   {"columns", check_columns},
    {"steps", check_steps},         {"dropped", check_dropped},   {"between", check_between},
    {"suits", check_suits},         {"natural", check_natural},   {"divides", check_divides},
    {"signed", check_signed},       {"ranks", check_ranks},       {"three", check_three},
    {"within", check_within},       {"distinct", check_distinct}, {"some", check_some},
    {"counts", check_counts},       {"slices", check_slices},     {"broadcasts", check_broadcasts},
    {"single", check_single},       {"searches", check_searches}, {"cuda", check_cuda},
    {"widens", check_widens},       {"ends", check_ends},         {"contiguous", check_contiguous},
    {"sorts", check_sorts},         {"either", check_either},     {"statistics", check_statistics},
    {"mixed", check_mixed},         {"shaped", check_shaped},     {"long", check_long},
    {"outermost", check_outermost}, {"holds", check_holds},       {"batches", check_batches},
    {"finite", check_finite},       {"bounded", check_bounded},   {"format", check_format},
    {"along", check_along},
};

}  // namespace

Checker further_checker(std::string_view verb) {
  const auto found = std::ranges::find(kFurtherVerbs, verb, &std::pair<std::string_view, Checker>::first);
  return found == std::end(kFurtherVerbs) ? nullptr : found->second;
}

}  // namespace coil::ops::clauses
