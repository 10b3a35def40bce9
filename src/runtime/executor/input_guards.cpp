#include "runtime/executor/input_guards.h"

#include <algorithm>

#include "runtime/plan/shape_program.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {

std::string describe(const Tensor& t) { return fmt::format("{}[{}]", short_name(t.dtype), fmt::join(t.sizes, ", ")); }

InputGuards::InputGuards(const Plan& plan)
    : plan_(plan), reads_stride_(plan.inputs.size()), reads_value_(plan.inputs.size()) {
  for (const ShapeInstruction& in : plan.shape_program) {
    if (in.op == ShapeOp::InputStride) reads_stride_[static_cast<std::size_t>(in.a)] = true;
    if (in.op == ShapeOp::InputValue) reads_value_[static_cast<std::size_t>(in.a)] = true;
  }
  reads_values_ = std::ranges::find(reads_value_, true) != reads_value_.end();
}

void InputGuards::refuse_count(std::size_t given) const {
  std::vector<std::string> names;
  for (const Input& in : plan_.inputs) names.push_back(in.name);
  fail("the program takes {} inputs ({}), but {} were given", names.size(), fmt::join(names, ", "), given);
}

void InputGuards::check(std::span<const Tensor> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Input& expected = plan_.inputs[i];
    const Tensor& t = given[i];
    if (expected.unused && !reads_value_[i]) {
      if (t.sizes.size() < expected.sizes.size() || t.strides.size() != t.sizes.size())
        fail("input '{}' has {} dimensions, but the program takes {}", expected.name, t.sizes.size(),
             expected.sizes.size());
      continue;
    }
    if (t.dtype != expected.dtype)
      fail("input '{}' is {}, but the program takes {}", expected.name, torch_name(t.dtype),
           torch_name(expected.dtype));
    if (t.sizes.size() != expected.sizes.size() || t.strides.size() != t.sizes.size())
      fail("input '{}' has {} dimensions ({}), but the program takes {}", expected.name, t.sizes.size(), describe(t),
           expected.sizes.size());
    for (std::int64_t s : t.sizes)
      if (s < 0) fail("input '{}' has a negative size: {}", expected.name, describe(t));
    if (reads_value_[i] &&
        (!t.storage.data || t.storage.bytes < static_cast<std::size_t>(t.offset + 1) * size_of(t.dtype)))
      fail("input '{}' reaches outside of its memory", expected.name);
  }
}

void InputGuards::bind(std::span<const Tensor> given, std::span<const std::int64_t> slots,
                       std::vector<BoundInput>& inputs) const {
  auto fill = [&](Sizes& values, const std::vector<Slot>& from) {  // without new memory for each input
    values.resize(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) values[d] = slots[from[d]];
  };
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Input& expected = plan_.inputs[i];
    BoundInput& bound = inputs[i];
    bound.patches.clear();
    bound.aliased = false;
    if (expected.unused) continue;
    fill(bound.sizes, expected.sizes);
    fill(bound.strides, expected.strides);
    for (std::size_t d = 0; d < bound.sizes.size(); ++d)
      if (given[i].sizes[d] != bound.sizes[d])
        fail("input '{}' has size {} in dimension {}, but the program takes {} ({} was given)", expected.name,
             given[i].sizes[d], d, bound.sizes[d], describe(given[i]));
    bound.span = layout_span(bound.sizes, bound.strides);
  }
}

bool InputGuards::hold(const std::vector<SeenInput>& seen, std::span<const Tensor> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor& t = given[i];
    if ((t.dtype != plan_.inputs[i].dtype && !plan_.inputs[i].unused) || !same_numbers(t.sizes, seen[i].sizes))
      return false;
    if (reads_stride_[i] && !same_numbers(t.strides, seen[i].strides)) return false;
    if (t.strides.size() != t.sizes.size()) return false;
    if (reads_value_[i] && integer_value(t) != seen[i].value) return false;
  }
  return true;
}

void InputGuards::remember(std::span<const Tensor> given, std::vector<SeenInput>& seen) const {
  for (std::size_t i = 0; i < given.size(); ++i) {  // without new memory for each input
    seen[i].sizes = given[i].sizes;
    seen[i].strides = given[i].strides;
    seen[i].value = reads_value_[i] ? integer_value(given[i]) : 0;
  }
}

}  // namespace coil::runtime
