#include "ops/foreach.h"

#include <algorithm>
#include <array>

#include "support/error.h"

namespace coil::ops {

namespace {

constexpr std::string_view kPrefix = "aten._foreach_";

struct Name {
  std::string_view list, item;
};
// `NAME.OVERLOAD` of a list operator, and of the item's where it is another. Other operators without a second operand
// keep their names.
constexpr Name kNames[] = {
    {"add.List", "add.Tensor"},
    {"add.Scalar", "add.Scalar"},
    {"add.ScalarList", "add.Scalar"},
    {"add.Tensor", "add.Tensor"},
    {"sub.List", "sub.Tensor"},
    {"sub.Scalar", "sub.Scalar"},
    {"sub.ScalarList", "sub.Scalar"},
    {"mul.List", "mul.Tensor"},
    {"mul.Scalar", "mul.Scalar"},
    {"mul.ScalarList", "mul.Scalar"},
    {"mul.Tensor", "mul.Tensor"},
    {"div.List", "div.Tensor"},
    {"div.Scalar", "div.Scalar"},
    {"div.ScalarList", "div.Scalar"},
    {"div.Tensor", "div.Tensor"},
    {"clamp_min.List", "clamp_min.Tensor"},
    {"clamp_min.Scalar", "clamp_min.default"},
    {"clamp_min.ScalarList", "clamp_min.default"},
    {"clamp_max.List", "clamp_max.Tensor"},
    {"clamp_max.Scalar", "clamp_max.default"},
    {"clamp_max.ScalarList", "clamp_max.default"},
    {"maximum.List", "clamp_min.Tensor"},
    {"maximum.Scalar", "clamp_min.default"},
    {"maximum.ScalarList", "clamp_min.default"},
    {"minimum.List", "clamp_max.Tensor"},
    {"minimum.Scalar", "clamp_max.default"},
    {"minimum.ScalarList", "clamp_max.default"},
    {"pow.List", "pow.Tensor_Tensor"},
    {"pow.Scalar", "pow.Tensor_Scalar"},
    {"pow.ScalarList", "pow.Tensor_Scalar"},
    {"pow.ScalarAndTensor", "pow.Scalar"},
    {"addcmul.Scalar", "addcmul.default"},
    {"addcmul.ScalarList", "addcmul.default"},
    {"addcdiv.Scalar", "addcdiv.default"},
    {"addcdiv.ScalarList", "addcdiv.default"},
    {"lerp.List", "lerp.Tensor"},
    {"lerp.Scalar", "lerp.Scalar"},
    {"lerp.ScalarList", "lerp.Scalar"},
    {"norm.Scalar", "linalg_vector_norm.default"},
};

}  // namespace

bool is_foreach(std::string_view target) { return target.starts_with(kPrefix); }

ForeachItems foreach_items(const Operator& op, const Values& args) {
  std::string name = op.schema.target.substr(kPrefix.size());
  const std::size_t dot = name.rfind('.');
  const bool in_place = dot > 0 && name[dot - 1] == '_';
  if (in_place) name.erase(dot - 1, 1);
  auto named = std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& n) { return n.list == name; });
  std::string item = named == std::end(kNames) ? name : std::string(named->item);
  if (in_place) item.insert(item.rfind('.'), "_");

  ForeachItems items{"aten." + item, {}};
  std::optional<std::size_t> length;
  for (const Value& v : args)
    if (auto* list = v.get_if<Values>()) {
      if (length && *length != list->size())
        fail("{}: lists of {} and {} items", op.schema.target, *length, list->size());
      length = list->size();
    }
  if (!length) fail("{} takes lists", op.schema.target);
  for (std::size_t i = 0; i < *length; ++i) {
    Values each;
    for (const Value& v : args) each.push_back(v.is<Values>() ? v.as_list()[i] : v);
    // linalg_vector_norm(self, ord, dim, keepdim, dtype)
    if (item.starts_with("linalg_vector_norm")) each.insert(each.begin() + 2, {Value(None{}), Value(false)});
    items.args.push_back(std::move(each));
  }
  return items;
}

}  // namespace coil::ops
