// Tensors made from numbers in terms of full and arange.start_step, and of comparisons of positions.
// Random ones are random.cpp's.
#include <algorithm>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

Value filled(Rewriter& r, const Value& number) {
  const TensorMeta& made = r.result();
  return r.full(made.sizes, number, made.dtype, made.device);
}

Decomposition filled_with(int number) {
  return [number](Rewriter& r) -> Value { return filled(r, number); };
}

Value full(Rewriter& r) { return filled(r, r["fill_value"]); }

Value scalar(Rewriter& r) { return filled(r, r["s"]); }

Value range(Rewriter& r) {
  if (r.node->target == "aten.arange.start_step" && r.has("dtype")) return None{};
  auto part = [&](std::string_view name, int otherwise) {
    if (!r.has(name)) return Value(otherwise);
    const auto* truth = r[name].get_if<ops::Bool>();
    return truth && truth->condition.is_constant() ? Value(truth->condition.is_constant(1) ? 1 : 0) : r[name];
  };
  return r.call("aten.arange.start_step", {part("start", 0), part("end", 0), part("step", 1)},
                {{"dtype", r.result().dtype}, {"device", r.result().device}});
}

bool is_known_number(const Value& v) { return v.is<double>() || (v.is<Expr>() && v.as_int().is_constant()); }

/// As eager: from the start for the first half, from the end for the second.
Value linspace(Rewriter& r) {
  if (!is_known_number(r["start"]) || !is_known_number(r["end"])) return None{};
  const TensorMeta& made = r.result();
  auto steps = made.sizes[0].constant();
  if (!steps || !is_floating(made.dtype)) return None{};
  double start = r.real("start"), end = r.real("end");
  if (*steps < 2) return r.full(made.sizes, start, made.dtype, made.device);
  double step = (end - start) / static_cast<double>(*steps - 1);
  if (made.dtype != DType::F64)
    step = (static_cast<float>(end) - static_cast<float>(start)) / static_cast<float>(*steps - 1);
  Value i = r.iota(*steps), position = r.to(i, compute_dtype(made.dtype));
  Value rising = r.add(r.mul(position, step), start);
  Value falling = r.call("aten.rsub.Scalar", {r.mul(r.call("aten.rsub.Scalar", {position, *steps - 1}), step), end});
  return r.to(r.where(r.call("aten.lt.Scalar", {i, *steps / 2}), rising, falling), made.dtype);
}

/// Row and column of each element of a matrix, as tensors that broadcast against each other.
std::pair<Value, Value> positions(Rewriter& r, Expr rows, Expr columns) {
  return {r.unsqueeze(r.iota(rows), -1), r.iota(columns)};
}

Value eye(Rewriter& r) {
  auto [row, column] = positions(r, r.result().sizes[0], r.result().sizes[1]);
  return r.to(r.call("aten.eq.Tensor", {row, column}), r.result().dtype);
}

Value triangle(Rewriter& r) {
  const TensorMeta& self = r.meta(r["self"]);
  auto [row, column] = positions(r, self.sizes[self.rank() - 2], self.sizes[self.rank() - 1]);
  Value diagonal = r.sub(column, row);
  std::string_view compare = r.node->target.starts_with("aten.tril") ? "aten.le.Scalar" : "aten.ge.Scalar";
  return r.where(r.call(compare, {diagonal, r["diagonal"]}), r["self"], 0);
}

/// The places of a triangle in row-major order: a stable sort puts those that are inside first.
Value triangle_indices(Rewriter& r) {
  const std::int64_t rows = r.number("row"), columns = r.number("col");
  const Expr count = r.result().sizes[1];
  const Value beyond = r.sub(r.iota(columns), r.unsqueeze(r.iota(rows), 1));
  const bool upper = r.node->target == "aten.triu_indices.default";
  Value outside = r.call(upper ? "aten.lt.Scalar" : "aten.gt.Scalar", {beyond, r["offset"]});
  outside = r.to(r.reshape(outside, {rows * columns}), DType::U8);
  fx::Node* sorted = r.call("aten.sort.stable", {outside}, {{"stable", true}, {"dim", 0}, {"descending", false}});
  const Value place = r.slice(r.item(sorted, 1), 0, 0, count);
  const Value row =
      r.call("aten.div.Tensor_mode", {place, std::max<std::int64_t>(columns, 1)}, {{"rounding_mode", "floor"}});
  const Value column = r.sub(place, r.mul(row, columns));
  return r.to(r.call("aten.stack.default", {Values{row, column}, 0}), r.result().dtype);
}

/// Memory without defined content; zero is as good as any, but for a kernel that works in the memory itself.
Value undefined(Rewriter& r) {
  for (const fx::Node* user : r.node->users())
    if (user->is_call(ops::kUserKernelCall)) return ops::None{};
  return filled_with(0)(r);
}

}  // namespace

void decompose_creation(DecompositionTable& t) {
  t["aten.triu_indices.default"] = t["aten.tril_indices.default"] = triangle_indices;
  for (std::string_view op : {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"})
    t[op] = filled_with(0);
  for (std::string_view op :
       {"aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default",
        "aten.new_empty_strided.default", "aten.empty_permuted.default"})
    t[op] = undefined;
  for (std::string_view op : {"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"})
    t[op] = filled_with(1);
  for (std::string_view op : {"aten.full_like.default", "aten.new_full.default"}) t[op] = full;
  t["aten.scalar_tensor.default"] = scalar;
  for (std::string_view op : {"aten.arange.default", "aten.arange.start", "aten.arange.start_step"}) t[op] = range;
  t["aten.linspace.default"] = linspace;
  for (std::string_view op : {"aten.eye.default", "aten.eye.m"}) t[op] = eye;
  for (std::string_view op : {"aten.tril.default", "aten.triu.default"}) t[op] = triangle;
}

}  // namespace coil::passes
