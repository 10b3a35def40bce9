#include "passes/graph/decompositions/rewriter.h"

#include <algorithm>

#include "fx/infer.h"
#include "ops/shapes/strides.h"
#include "passes/graph/make.h"
#include "support/error.h"
#include "sym/needs_value.h"

namespace coil::passes {

namespace shapes = ops::shapes;

bool Rewriter::has(std::string_view name) const {
  const auto& parameters = node->op->schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return !node->args[i].is_none();
  return false;
}

bool Rewriter::flag(std::string_view name) const { return has(name) && node->arg(name).as_bool(); }

std::int64_t Rewriter::number(std::string_view name) const {
  auto n = integer(node->arg(name)).constant();
  if (!n) refuse(fmt::format("`{}` must be a plain number", name));
  return *n;
}

double Rewriter::real(std::string_view name) const { return node->arg(name).as_double(); }

std::int64_t Rewriter::dim(std::string_view name, std::size_t rank) const {
  const std::int64_t d = number(name), n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (d < -n || d >= n) refuse(fmt::format("`{}` is {}, of a tensor of {} dimensions", name, d, rank));
  return d < 0 ? d + n : d;
}

fx::Node* Rewriter::call(std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named) {
  return make_call(module, node, target, std::move(args), std::move(named));
}

fx::Node* Rewriter::item(fx::Node* call, std::int64_t index) {
  return make_call(module, node, "_operator.getitem", {call, index});
}

Expr Rewriter::integer(const Value& value) const { return fx::resolve(value).as_int(); }
Exprs Rewriter::ints(const Value& list) const { return list.is_none() ? Exprs{} : fx::resolve(list).as_ints(); }

Value Rewriter::to(const Value& tensor, DType dtype) {
  if (meta(tensor).dtype == dtype) return tensor;
  return call("aten._to_copy.default", {tensor}, {{"dtype", dtype}});
}

Value Rewriter::widened(const Value& tensor) { return to(tensor, compute_dtype(dtype(tensor))); }

Value Rewriter::reshape(const Value& tensor, const Exprs& sizes) {
  if (meta(tensor).sizes == sizes) return tensor;
  bool viewable = shapes::view_strides(*module.env, meta(tensor), sizes).has_value();
  return call(
      "aten.view.default",
      {viewable ? tensor
                : Value(call("aten.clone.default", {tensor}, {{"memory_format", ops::MemoryFormat::Contiguous}})),
       sizes});
}

Value Rewriter::expand(const Value& tensor, const Exprs& sizes) {
  if (meta(tensor).sizes == sizes) return tensor;
  return call("aten.expand.default", {tensor, sizes});
}

Value Rewriter::permute(const Value& tensor, const std::vector<std::int64_t>& order) {
  if (std::is_sorted(order.begin(), order.end())) return tensor;
  return call("aten.permute.default", {tensor, dims_value(order)});
}

Value Rewriter::slice(const Value& tensor, std::int64_t dim, Expr start, Expr end) {
  const Exprs& sizes = meta(tensor).sizes;
  const Expr size = sizes[static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(sizes.size()) : dim)];
  if (start.is_constant(0) && end == size) return tensor;
  return call("aten.slice.Tensor", {tensor, dim, start, end});
}

Value Rewriter::contiguous(const Value& tensor) {
  if (shapes::is_contiguous(*module.env, meta(tensor))) return tensor;
  return call("aten.clone.default", {tensor}, {{"memory_format", ops::MemoryFormat::Contiguous}});
}

Value Rewriter::full(const Exprs& sizes, const Value& number, DType dtype, std::optional<Device> device) {
  const Device home = module.makes_at_home ? home_of(*node) : Device{};
  return call("aten.full.default", {sizes, number}, {{"dtype", dtype}, {"device", device.value_or(home)}});
}

Value Rewriter::iota(Expr n, DType dtype) {
  return call("aten.arange.start_step", {0, n, 1}, {{"dtype", dtype}, {"device", device()}});
}

Device Rewriter::device() const {
  for (const ops::Value& v : node->args)
    if (v.is<fx::Node*>() && v.as_node()->is_tensor()) return v.as_node()->tensor().device;
  return node->is_tensor() ? node->tensor().device : Device{};
}

Value Rewriter::where(const Value& condition, const Value& yes, const Value& no) {
  auto tensor = [&](const Value& v, const Value& other) {
    if (v.is<fx::Node*>() && v.as_node()->is_tensor()) return v;
    return full({}, v, other.is<fx::Node*>() && other.as_node()->is_tensor() ? dtype(other) : DType::F32, device());
  };
  Value a = tensor(yes, no), b = tensor(no, yes);
  return call("aten.where.self", {condition, a, b});
}

Value Rewriter::sum(const Value& tensor, const std::vector<std::int64_t>& dims, bool keepdim) {
  return call("aten.sum.dim_IntList", {tensor, dims_value(dims), keepdim});
}

Error Rewriter::refusal(std::string_view reason) const {
  return {fmt::format("{}: {} (node %{})", node->target, reason, node->name), node->target, node->where()};
}

void Rewriter::refuse(std::string_view reason) const { throw refusal(reason); }

void Rewriter::refuse_free(std::string_view reason, const Expr& e) const { sym::refuse_free(refusal(reason), e); }

Value dims_value(const std::vector<std::int64_t>& dims) {
  Values list;
  for (std::int64_t d : dims) list.push_back(d);
  return list;
}

}  // namespace coil::passes
