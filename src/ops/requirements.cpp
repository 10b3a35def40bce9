#include "ops/requirements.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "ops/requirement_clauses.h"
#include "ops/requirements_table.h"
#include "ops/shapes/common.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/strides.h"
#include "support/checked_vector.h"
#include "support/error.h"

namespace coil::ops {

namespace clauses {

Words split(std::string_view text, std::string_view separators) {
  Words words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::int64_t integer(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  COIL_CHECK(error == std::errc() && end == word.data() + word.size(), "`{}` is no number", word);
  return value;
}

std::optional<double> known_number(const Value& v) {
  if (const auto* d = v.get_if<double>()) return *d;
  if (const auto* e = v.get_if<Expr>(); e && e->is_constant()) return static_cast<double>(*e->constant());
  if (const auto* b = v.get_if<Bool>(); b && b->condition.is_constant())
    return static_cast<double>(*b->condition.constant());
  return std::nullopt;
}

std::vector<const TensorMeta*> tensors_of(const Call& call, std::string_view subject) {
  if (subject == "tensors") return shapes::tensors(call);
  std::vector<const TensorMeta*> found;
  const Value* value = shapes::given(call, subject);
  if (!value) return found;
  if (const auto* t = value->get_if<TensorMeta>()) found.push_back(t);
  if (const auto* list = value->get_if<Values>())
    for (const Value& item : *list)
      if (const auto* t = item.get_if<TensorMeta>()) found.push_back(t);
  return found;
}

DType promoted(const Call& call) {
  shapes::Promotion promotion;
  const auto& parameters = call.op.schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].type.kind == TypeKind::Tensor || parameters[i].name == "self" || parameters[i].name == "other")
      promotion.add(call[i]);
  return promotion.result();
}

}  // namespace clauses

namespace {

using namespace clauses;
using shapes::refuse;

/// Lines of text; one that begins with a blank goes on with the one before.
Words lines(std::string_view text) {
  Words found;
  for (std::string_view line : split(text, "\n")) {
    if (line.starts_with(' ') && !found.empty())
      found.back() = {found.back().data(), static_cast<std::size_t>(line.data() + line.size() - found.back().data())};
    else
      found.push_back(line);
  }
  return found;
}

/// `floating`, `i32|i64`: a set of element types.
struct TypeClass {
  std::string_view name;
  bool (*holds)(DType);
};

bool is_common_float(DType t) { return is_floating(t) && size_of(t) > 1; }

constexpr TypeClass kTypeClasses[] = {
    {"floating", is_common_float},
    {"fractional", [](DType t) { return is_common_float(t) || is_complex(t); }},
    {"integral", [](DType t) { return is_integral(t) || t == DType::Bool; }},
    {"integer", is_integral},
    {"numeric", [](DType t) { return t != DType::Bool; }},
    {"real", [](DType t) { return !is_complex(t); }},
    {"no_byte", [](DType t) { return t != DType::U8; }},
};

bool is_type(DType t, std::string_view words) {
  const auto is_of = [t](std::string_view word) {
    for (const TypeClass& c : kTypeClasses)
      if (c.name == word) return c.holds(t);
    return short_name(t) == word;
  };
  const Words all = split(words, "|");
  return std::any_of(all.begin(), all.end(), is_of);
}

/// `add.Tensor` of `aten.add_.Tensor`: operators in place ask what the others do.
std::string functional_name(std::string_view target) {
  std::string name(target.substr(target.find('.') + 1));
  const std::size_t dot = name.find('.');
  if (dot > 1 && name[dot - 1] == '_' && name[dot - 2] != '_') name.erase(dot - 1, 1);
  return name;
}

/// `cumsum_` of `aten.cumsum_.default`; nothing for operators that are not in place.
std::string_view own_name_in_place(std::string_view target, std::string_view functional) {
  target.remove_prefix(target.find('.') + 1);
  const std::string_view own = target.substr(0, target.find('.'));
  return own == functional ? std::string_view() : own;
}

void check_type(const Call& call, const Clause& c) {
  const std::string_view wanted = c.objects.at(0);
  if (c.subject == "operands") {
    if (const DType t = promoted(call); !is_type(t, wanted))
      refuse(call, "takes {} types, not {}", wanted, torch_name(t));
    return;
  }
  if (c.subject == "result") {
    const Value result = call.op.shape(call);
    const auto* t = result.get_if<TensorMeta>();
    if (t && !is_type(t->dtype, wanted)) refuse(call, "gives {} types, not {}", wanted, torch_name(t->dtype));
    return;
  }
  const Value* value = c.subject == "tensors" ? nullptr : shapes::given(call, c.subject);
  if (value && value->is<DType>() && !is_type(value->as_dtype(), wanted))
    refuse(call, "`{}` takes {} types, not {}", c.subject, wanted, torch_name(value->as_dtype()));
  if (value && value->is<Bool>() && !is_type(DType::Bool, wanted))
    refuse(call, "`{}` takes {} numbers, not a bool", c.subject, wanted);
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (!is_type(t->dtype, wanted))
      refuse(call, "`{}` takes {} types, not {}", c.subject, wanted, torch_name(t->dtype));
}

/// Whether a count is one of `2 3`, or at least that of `2+`.
bool is_among(std::size_t count, const Words& allowed) {
  const auto n = static_cast<std::int64_t>(count);
  return std::any_of(allowed.begin(), allowed.end(), [n](std::string_view word) {
    return word.ends_with('+') ? n >= integer(word.substr(0, word.size() - 1)) : n == integer(word);
  });
}

void check_rank(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (!is_among(t->rank(), c.objects))
      refuse(call, "`{}` takes tensors of rank {}, not {}", c.subject, fmt::join(c.objects, " or "), t->rank());
}

void check_length(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto* list = value ? value->get_if<Values>() : nullptr;
  if (!list) return;
  if (!is_among(list->size(), c.objects))
    refuse(call, "`{}` takes {} values, not {}", c.subject, fmt::join(c.objects, " or "), list->size());
}

bool is_known_not_to_hold(sym::ShapeEnv& env, Expr value, std::string_view relation, std::int64_t bound) {
  if (relation == ">=") return env.statically_known_lt(value, bound);
  if (relation == ">") return env.statically_known_le(value, bound);
  if (relation == "<=") return env.statically_known_lt(bound, value);
  if (relation == "<") return env.statically_known_le(bound, value);
  COIL_CHECK(false, "`{}` is no relation", relation);
}

bool holds(double value, std::string_view relation, double bound) {
  if (relation == ">=") return value >= bound;
  if (relation == ">") return value > bound;
  return relation == "<=" ? value <= bound : value < bound;
}

void check_range(const Call& call, const Clause& c) {
  const std::int64_t bound = integer(c.objects.at(0));
  const auto check = [&](const Value& v) {
    if (const auto* e = v.get_if<Expr>(); e && is_known_not_to_hold(call.env, *e, c.verb, bound))
      refuse(call, "`{}` must be {} {}, not {}", c.subject, c.verb, bound, to_string(v));
    if (const auto* d = v.get_if<double>(); d && !holds(*d, c.verb, static_cast<double>(bound)))
      refuse(call, "`{}` must be {} {}, not {}", c.subject, c.verb, bound, to_string(v));
  };
  const Value* value = shapes::given(call, c.subject);
  if (!value) return;
  if (const auto* list = value->get_if<Values>())
    for (const Value& item : *list) check(item);
  else
    check(*value);
}

/// `a as b`: of b's element type.
void check_same_type(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  const Value* value = c.subject == "tensors" ? nullptr : shapes::given(call, c.subject);
  if (const auto* type = value ? value->get_if<DType>() : nullptr; type && *type != others[0]->dtype)
    refuse(call, "`{}` must be {} as `{}` is, not {}", c.subject, torch_name(others[0]->dtype), c.objects[0],
           torch_name(*type));
  for (const TensorMeta* t : tensors_of(call, c.subject))
    if (t->dtype != others[0]->dtype)
      refuse(call, "`{}` must be {} as `{}` is, not {}", c.subject, torch_name(others[0]->dtype), c.objects[0],
             torch_name(t->dtype));
}

/// `a sizes b`: of b's sizes.
void check_same_sizes(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  if (others.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() != others[0]->rank())
      refuse(call, "`{}` must have the sizes of `{}`, {}, not {}", c.subject, c.objects[0],
             shapes::show(others[0]->sizes), shapes::show(t->sizes));
    for (std::size_t d = 0; d < t->rank(); ++d)
      shapes::require_equal(call, t->sizes[d], others[0]->sizes[d],
                            fmt::format("sizes of `{}` and `{}`", c.subject, c.objects[0]));
  }
}

/// `weight vector input 1`: of one dimension, as long as the input's dimension 1.
void check_vector(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  const auto dim = static_cast<std::size_t>(integer(c.objects.at(1)));
  if (others.empty() || others[0]->rank() <= dim) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() != 1) refuse(call, "`{}` must be a vector, not of rank {}", c.subject, t->rank());
    shapes::require_equal(call, t->sizes[0], others[0]->sizes[dim],
                          fmt::format("the length of `{}` for `{}`", c.subject, c.objects[0]));
  }
}

/// `self filled -3`: no size from there on (from the front, or for negative ones the end) is 0.
void check_filled(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    const std::int64_t from = integer(c.objects.at(0)), rank = static_cast<std::int64_t>(t->rank());
    for (std::int64_t d = std::max<std::int64_t>(from < 0 ? rank + from : from, 0); d < rank; ++d)
      if (t->sizes[static_cast<std::size_t>(d)].is_constant(0))
        refuse(call, "`{}` takes no tensors of sizes {}", c.subject, shapes::show(t->sizes));
  }
}

void check_word(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto* word = value ? value->get_if<std::string>() : nullptr;
  if (word && std::find(c.objects.begin(), c.objects.end(), *word) == c.objects.end())
    refuse(call, "`{}` is one of {}, not {}", c.subject, fmt::join(c.objects, ", "), quote(*word));
}

/// `self has`: None will not do, though the schema allows it.
void check_given(const Call& call, const Clause& c) {
  const Words names = split(c.subject, "|");
  const auto is_given = [&](std::string_view name) { return shapes::given(call, name) != nullptr; };
  if (std::none_of(names.begin(), names.end(), is_given)) refuse(call, "{} must be given", fmt::join(names, " or "));
}

/// `matrices alike`: all of one element type.
void check_alike(const Call& call, const Clause& c) {
  const auto all = tensors_of(call, c.subject);
  for (const TensorMeta* t : all)
    if (t->dtype != all[0]->dtype)
      refuse(call, "`{}` must be of one type, not {} and {}", c.subject, torch_name(all[0]->dtype),
             torch_name(t->dtype));
}

/// `self square 2`: the last two sizes are the same.
void check_square(const Call& call, const Clause& c) {
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() < 2) refuse(call, "`{}` takes matrices, not tensors of rank {}", c.subject, t->rank());
    shapes::require_equal(call, t->sizes[t->rank() - 2], t->sizes[t->rank() - 1],
                          "rows and columns of a square matrix");
  }
}

/// `grad leads self 2`: of self's rank, with its sizes but for the last two.
void check_leading(const Call& call, const Clause& c) {
  const auto others = tensors_of(call, c.objects.at(0));
  const auto last = static_cast<std::size_t>(integer(c.objects.at(1)));
  if (others.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    if (t->rank() != others[0]->rank())
      refuse(call, "`{}` must have the rank of `{}`, {}, not {}", c.subject, c.objects[0], others[0]->rank(),
             t->rank());
    for (std::size_t d = 0; d + last < t->rank(); ++d)
      shapes::require_equal(call, t->sizes[d], others[0]->sizes[d],
                            fmt::format("sizes of `{}` and `{}`", c.subject, c.objects[0]));
  }
}

/// `target covers self`: self broadcasts to target's sizes.
void check_covers(const Call& call, const Clause& c) {
  const auto covered = tensors_of(call, c.objects.at(0));
  if (covered.empty()) return;
  for (const TensorMeta* t : tensors_of(call, c.subject))
    shapes::require_expands(call, covered[0]->sizes, t->sizes, c.objects.at(0));
}

/// `low under high`, `low upto high`.
void check_order(const Call& call, const Clause& c) {
  const Value* low = shapes::given(call, c.subject);
  const Value* high = shapes::given(call, c.objects.at(0));
  if (!low || !high) return;
  const bool strict = c.verb == "under";
  const auto* a = low->get_if<Expr>();
  const auto* b = high->get_if<Expr>();
  bool wrong = false;
  if (a && b) {
    wrong = strict ? call.env.statically_known_le(*b, *a) : call.env.statically_known_lt(*b, *a);
  } else {
    const auto x = known_number(*low), y = known_number(*high);
    wrong = x && y && !(strict ? *x < *y : *x <= *y);
  }
  if (wrong)
    refuse(call, "`{}` must be {} `{}`, not {} and {}", c.subject, strict ? "less than" : "at most", c.objects[0],
           to_string(*low), to_string(*high));
}

/// `alpha not 0`.
void check_not(const Call& call, const Clause& c) {
  const Value* value = shapes::given(call, c.subject);
  const auto number = value ? known_number(*value) : std::nullopt;
  if (number && *number == static_cast<double>(integer(c.objects.at(0))))
    refuse(call, "`{}` must not be {}", c.subject, c.objects[0]);
}

/// `stride aslong size`: two lists of one length.
void check_as_long(const Call& call, const Clause& c) {
  const Value* a = shapes::given(call, c.subject);
  const Value* b = shapes::given(call, c.objects.at(0));
  const auto* first = a ? a->get_if<Values>() : nullptr;
  const auto* second = b ? b->get_if<Values>() : nullptr;
  if (first && second && first->size() != second->size())
    refuse(call, "`{}` and `{}` must be of one length, not {} and {}", c.subject, c.objects[0], first->size(),
           second->size());
}

/// `normalized_shape tail input`: the input's last sizes.
void check_tail(const Call& call, const Clause& c) {
  const Value* list = shapes::given(call, c.subject);
  const auto others = tensors_of(call, c.objects.at(0));
  if (!list || others.empty()) return;
  const Exprs tail = list->as_ints();
  if (tail.size() > others[0]->rank())
    refuse(call, "`{}` is longer than the sizes of `{}`, {}", c.subject, c.objects[0], shapes::show(others[0]->sizes));
  const std::size_t lead = others[0]->rank() - tail.size();
  for (std::size_t d = 0; d < tail.size(); ++d)
    shapes::require_equal(call, tail[d], others[0]->sizes[lead + d], c.subject);
}

/// The input of the operator whose gradient or inverse this call is: as it is given, or of the sizes that are.
std::optional<Value> original_input(const Call& call, const TensorMeta& like) {
  for (std::string_view name : {"self", "input"})
    if (const Value* v = shapes::given(call, name); v && v->is<TensorMeta>()) return *v;
  for (std::string_view name : {"input_size", "input_sizes", "self_sizes"})
    if (const Value* v = shapes::given(call, name))
      return Value(shapes::dense(call.env, like.dtype, like.device, v->as_ints()));
  return std::nullopt;
}

/// The arguments of `of` by this call's arguments of the same names, its defaults for the others.
Values arguments_like(const Call& call, const Operator& of, Value input) {
  Values args;
  for (const Parameter& p : of.schema.parameters) {
    const std::string_view name = p.name == "dimension" ? std::string_view("dim") : std::string_view(p.name);
    if (args.empty())
      args.push_back(std::move(input));
    else if (const Value* v = shapes::given(call, name))
      args.push_back(*v);
    else
      args.push_back(p.fallback.value_or(Value()));
  }
  return args;
}

/// `grad_output like avg_pool2d.default`: of the sizes of what that operator makes of this call's arguments, and it
/// takes them; with `broadcast` behind it, 1 will do for any size.
void check_like(const Call& call, const Clause& c) {
  const std::string target = fmt::format("aten.{}", c.objects.at(0));
  const Operator* of = find(target);
  COIL_CHECK(of && of->shape, "no operator {}", target);
  for (const TensorMeta* t : tensors_of(call, c.subject)) {
    std::optional<Value> input = original_input(call, *t);
    if (!input) return;
    const Values args = arguments_like(call, *of, std::move(*input));
    Value made;
    try {
      made = of->shape(Call{*of, args, call.env});
    } catch (const BeyondEnd&) {
      refuse(call, "takes no arguments of these dimensions");
    } catch (const Error& e) {
      refuse(call, "{}", e.what());
    }
    if (const auto* several = made.get_if<Values>()) made = Value(several->at(0));
    const TensorMeta& wanted = made.as_tensor();
    if (wanted.rank() != t->rank())
      refuse(call, "`{}` must have the sizes {}, not {}", c.subject, shapes::show(wanted.sizes),
             shapes::show(t->sizes));
    const bool broadcasts = c.objects.size() > 1;
    for (std::size_t d = 0; d < t->rank(); ++d)
      if (!broadcasts || !t->sizes[d].is_constant(1))
        shapes::require_equal(call, t->sizes[d], wanted.sizes[d], fmt::format("sizes of `{}`", c.subject));
  }
}

constexpr std::pair<std::string_view, Checker> kVerbs[] = {
    {"is", check_type},          {"rank", check_rank},     {"length", check_length}, {">=", check_range},
    {">", check_range},          {"<=", check_range},      {"<", check_range},       {"as", check_same_type},
    {"sizes", check_same_sizes}, {"vector", check_vector}, {"filled", check_filled}, {"one", check_word},
    {"given", check_given},      {"alike", check_alike},   {"square", check_square}, {"leads", check_leading},
    {"covers", check_covers},    {"under", check_order},   {"upto", check_order},    {"not", check_not},
    {"aslong", check_as_long},   {"like", check_like},     {"tail", check_tail},
};

Checker checker_of(std::string_view verb) {
  const auto found = std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](auto& v) { return v.first == verb; });
  const Checker checker = found != std::end(kVerbs) ? found->second : further_checker(verb);
  COIL_CHECK(checker, "`{}` is no requirement", verb);
  return checker;
}

struct RequirementTable {
  std::map<std::string_view, std::vector<Clause>, std::less<>> by_operator;  ///< `add`, `add.Tensor`

  explicit RequirementTable(std::string_view text) {
    for (std::string_view line : lines(text)) {
      const std::size_t colon = line.find(':');
      COIL_CHECK(colon != line.npos, "no `:` in `{}`", line);
      std::vector<Clause> clauses;
      for (std::string_view part : split(line.substr(colon + 1), ";")) {
        const Words words = split(part, " \n");
        COIL_CHECK(words.size() >= 2, "`{}` is no requirement", part);
        clauses.push_back({words[0], words[1], {words.begin() + 2, words.end()}, checker_of(words[1])});
      }
      for (std::string_view name : split(line.substr(0, colon), " \n")) {
        auto& of = by_operator[name];
        of.insert(of.end(), clauses.begin(), clauses.end());
      }
    }
  }
};

const RequirementTable& requirements() {
  static const RequirementTable t(kRequirements);
  return t;
}

}  // namespace

void check_requirements(const Call& call) {
  const std::string name = functional_name(call.op.schema.target);
  const auto& by_operator = requirements().by_operator;
  const std::string_view base = std::string_view(name).substr(0, name.find('.'));
  for (const std::string_view key : {base, std::string_view(name), own_name_in_place(call.op.schema.target, base)})
    if (auto found = by_operator.find(key); found != by_operator.end())
      for (const Clause& c : found->second) c.check(call, c);
}

bool takes_numbers_for_tensors(std::string_view target) {
  // `opAllowsNumbersAsTensors` of torch/csrc/jit/python/pybind_utils.cpp, and `should_allow_numbers_as_tensors` of
  // torch/csrc/utils/python_arg_parser.cpp.
  if (target.starts_with("prims.")) return true;
  constexpr std::string_view kNames[] = {"add",      "div",         "divide",       "mul",      "multiply", "sub",
                                         "subtract", "true_divide", "floor_divide", "_to_copy", "to",       "copy"};
  const std::string name = functional_name(target);
  return std::find(std::begin(kNames), std::end(kNames), std::string_view(name).substr(0, name.find('.'))) !=
         std::end(kNames);
}

}  // namespace coil::ops
