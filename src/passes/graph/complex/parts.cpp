#include "passes/graph/complex/parts.h"

#include "ops/shapes/strides.h"

namespace coil::passes {

bool ComplexRewriter::is_complex_node(const Value& v) const {
  return v.is<fx::Node*>() && v.as_node()->is_tensor() && is_complex(dtype(v));
}

DType ComplexRewriter::part_type() const {
  auto of = [](const fx::Node* n) { return real_type(n->tensor().dtype); };
  if (node->is_tensor() && (is_complex(node->tensor().dtype) || is_floating(node->tensor().dtype))) return of(node);
  for (const Value& v : node->args) {
    if (is_complex_node(v)) return of(v.as_node());
    if (const auto* list = v.get_if<Values>())
      for (const Value& item : *list)
        if (is_complex_node(item)) return of(item.as_node());
  }
  return DType::F32;
}

Parts ComplexRewriter::parts(const Value& v, DType type) {
  if (is_complex_node(v)) {
    auto it = known_.find(v.as_node());
    if (it == known_.end())
      refuse(fmt::format("the complex tensor %{} comes from an operator that is not compiled", v.as_node()->name));
    Parts p = it->second;
    if (!p.re.is_none()) p.re = to(p.re, type);
    if (!p.im.is_none()) p.im = to(p.im, type);
    return p;
  }
  if (v.is<fx::Node*>() && v.as_node()->is_tensor()) return {to(v, type), None{}};
  return {full({}, v, type, device()), None{}};
}

Value ComplexRewriter::plus(const Value& a, const Value& b) { return a.is_none() ? b : b.is_none() ? a : add(a, b); }
Value ComplexRewriter::minus(const Value& a, const Value& b) {
  return b.is_none() ? a : a.is_none() ? negated(b) : sub(a, b);
}
Value ComplexRewriter::times(const Value& a, const Value& b) {
  return a.is_none() || b.is_none() ? Value(None{}) : mul(a, b);
}
Value ComplexRewriter::negated(const Value& a) { return a.is_none() ? a : unary("neg", a); }

Parts ComplexRewriter::product(const Parts& a, const Parts& b) {
  return {minus(times(a.re, b.re), times(a.im, b.im)), plus(times(a.re, b.im), times(a.im, b.re))};
}

/// The larger part of the divisor is divided out first, so that squares neither overflow nor vanish (Smith 1962).
Parts ComplexRewriter::quotient(const Parts& a, const Parts& b) {
  if (b.im.is_none()) return {div(a.re, b.re), a.im.is_none() ? a.im : Value(div(a.im, b.re))};
  const Value scale = call("aten.maximum.default", {unary("abs", b.re), unary("abs", b.im)});
  const Parts c = {div(b.re, scale), div(b.im, scale)};
  const Value length = mul(add(mul(c.re, c.re), mul(c.im, c.im)), scale);
  const Parts p = product(a, conjugate(c));
  return {div(p.re, length), div(p.im, length)};
}

Value ComplexRewriter::magnitude(const Parts& z) {
  return z.im.is_none() ? unary("abs", z.re) : call("aten.hypot.default", {z.re, z.im});
}

Value ComplexRewriter::angle(const Parts& z) {
  return call("aten.atan2.default", {z.im.is_none() ? zeros_like(z.re) : z.im, z.re});
}

Parts ComplexRewriter::filled(const Parts& p, const Exprs& sizes, DType type) {
  auto whole = [&](const Value& part) {
    return part.is_none() ? full(sizes, 0, type, device()) : expand(to(part, type), sizes);
  };
  return {whole(p.re), whole(p.im)};
}

std::optional<Value> ComplexRewriter::of_real_parts() {
  if (!node->is_tensor() || is_complex(node->tensor().dtype) || !is_complex_node(node->args[0])) return std::nullopt;
  Values args = node->args;
  args[0] = parts(args[0], real_type(meta(args[0]).dtype)).re;
  return Value(call(node->target, std::move(args)));
}

ComplexRewriter::Pairs ComplexRewriter::interleaved(const Parts& z, const TensorMeta& layout) {
  const Parts p = filled(z, layout.sizes, real_type(layout.dtype));
  const std::vector<std::int64_t> order = ops::shapes::memory_order(*module.env, layout.strides);
  return {call("aten.stack.default", {Values{permute(p.re, order), permute(p.im, order)}, -1}),
          ops::shapes::inverse_order(order)};
}

}  // namespace coil::passes
