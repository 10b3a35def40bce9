#include "ops/composites/steps.h"

#include <algorithm>

#include "ops/shapes/common.h"
#include "ops/shapes/families.h"

namespace coil::ops {

namespace composites {

bool Steps::takes(std::string_view name) const {
  return std::any_of(op.schema.parameters.begin(), op.schema.parameters.end(),
                     [&](const Parameter& p) { return p.name == name; });
}

std::int64_t Steps::constant(const Value& v) const {
  auto n = integer(v).constant();
  if (!n) refuse("takes plain numbers here, not sizes that are known at run time only");
  return *n;
}

std::vector<std::int64_t> Steps::numbers(std::string_view name) const {
  std::vector<std::int64_t> result;
  if (!has(name)) return result;
  const Value& v = (*this)[name];
  if (!v.is<Values>()) return {constant(v)};
  for (const Value& item : v.as_list()) result.push_back(constant(item));
  return result;
}

std::int64_t Steps::wrapped(std::int64_t dim, std::size_t rank) const {
  auto n = static_cast<std::int64_t>(rank == 0 ? 1 : rank);
  if (dim < -n || dim >= n) refuse(fmt::format("dimension {} of a tensor of {}", dim, rank));
  return dim < 0 ? dim + n : dim;
}

Value Steps::reduced(const Value& each) {
  switch (number("reduction")) {
    case 1: return unary("mean", each);
    case 2: return unary("sum", each);
    default: return each;
  }
}

namespace {

/// Steps on metadata.
class ShapeSteps : public Steps {
 public:
  explicit ShapeSteps(const Call& call) : Steps(call.env, call.op, call.args), call_(call) {}

  Value call(std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named) override {
    const Operator* op = find(target);
    COIL_CHECK(op, "{}", target);
    Values normal = normalize(*op, std::move(args), std::move(named));
    return op->shape(Call{*op, normal, env});
  }
  Value item(const Value& results, std::int64_t index) override {
    return results.as_list().at(static_cast<std::size_t>(index));
  }
  const TensorMeta& meta(const Value& tensor) const override { return tensor.as_tensor(); }
  bool is_tensor(const Value& v) const override { return v.is<TensorMeta>(); }
  bool runs_on_host() const override { return device().is_host(); }
  Device device() const override {
    for (const Value& v : call_.args)
      if (const auto* tensor = v.get_if<TensorMeta>()) return tensor->device;
    return {};
  }
  Expr integer(const Value& v) const override { return v.as_int(); }
  void refuse(const std::string& why) const override { shapes::refuse(call_, "{}", why); }

 private:
  const Call& call_;
};

}  // namespace
}  // namespace composites

void shapes::register_composites() {
  composites::for_each([](const composites::Composite& c) {
    const ShapeFunction shape = [carry_out = c.carry_out](const Call& call) {
      composites::ShapeSteps steps(call);
      return carry_out(steps);
    };
    if (c.has_twin)
      define_with_twins(c.schema, shape);
    else
      define(c.schema, shape);
  });
}

}  // namespace coil::ops
