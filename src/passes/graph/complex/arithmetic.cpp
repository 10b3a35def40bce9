// Arithmetic, products of matrices, and the ways into and out of complex numbers.
#include "ops/shapes/elementwise.h"
#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

Parts self(ComplexRewriter& r) { return r.parts(r.node->args[0]); }

Parts other(ComplexRewriter& r, bool with_alpha) {
  Parts b = r.parts(r["other"]);
  if (with_alpha && r.has("alpha") && !(r["alpha"] == Value(1))) b = r.product(b, r.parts(r["alpha"]));
  return b;
}

Made add(ComplexRewriter& r) {
  const Parts a = self(r), b = other(r, true);
  return Parts{r.plus(a.re, b.re), r.plus(a.im, b.im)};
}

Made subtract(ComplexRewriter& r) {
  const Parts a = self(r), b = other(r, true);
  return Parts{r.minus(a.re, b.re), r.minus(a.im, b.im)};
}

Made subtract_reversed(ComplexRewriter& r) {
  const Parts b = self(r), a = other(r, false);
  if (!(r["alpha"] == Value(1))) r.refuse("with alpha is not compiled for complex tensors");
  return Parts{r.minus(a.re, b.re), r.minus(a.im, b.im)};
}

Made multiply(ComplexRewriter& r) { return r.product(self(r), other(r, false)); }

Made divide(ComplexRewriter& r) { return r.quotient(self(r), other(r, false)); }
Made reciprocal(ComplexRewriter& r) { return r.quotient(r.one(), self(r)); }
Made negative(ComplexRewriter& r) {
  const Parts z = self(r);
  return Parts{r.negated(z.re), r.negated(z.im)};
}

Made conjugate(ComplexRewriter& r) { return r.conjugate(self(r)); }
/// Conjugate, with the last two dimensions exchanged.
Made adjoint(ComplexRewriter& r) {
  const Parts z = r.conjugate(self(r));
  auto turned = [&](const Value& v) {
    return v.is_none() || r.rank(v) < 2 ? v : Value(r.call("aten.transpose.int", {v, -2, -1}));
  };
  return Parts{turned(z.re), turned(z.im)};
}

Made itself(ComplexRewriter& r) { return self(r); }
Made square(ComplexRewriter& r) { return r.product(self(r), self(r)); }

Made absolute(ComplexRewriter& r) { return r.magnitude(self(r)); }
Made angle(ComplexRewriter& r) { return r.angle(self(r)); }

/// z / |z|, and 0 for 0.
Made sign(ComplexRewriter& r) {
  const Parts z = self(r);
  const Value length = r.magnitude(z), safe = r.where(r.call("aten.eq.Scalar", {length, 0}), 1.0, length);
  return Parts{r.div(z.re, safe), z.im.is_none() ? z.im : Value(r.div(z.im, safe))};
}

Made real_part(ComplexRewriter& r) { return Value(r.unary("clone", r.whole(r.node->args[0]).re)); }
Made imaginary_part(ComplexRewriter& r) { return Value(r.unary("clone", r.whole(r.node->args[0]).im)); }

/// The pairs that lie in memory, where both parts are taken out of those as they are.
fx::Node* pairs_of(ComplexRewriter& r, const Parts& z) {
  const auto pairs = [&](const Value& part, std::int64_t which) -> fx::Node* {
    const fx::Node* n = part.is<fx::Node*>() ? part.as_node() : nullptr;
    const bool taken = n && n->is_call("aten.select.int") && n->args[2] == Value(which) && n->args[1] == Value(-1);
    return taken ? n->args[0].as_node() : nullptr;
  };
  fx::Node* of = pairs(z.re, 0);
  return of && of == pairs(z.im, 1) && r.meta(of).sizes.back().is_constant(2) ? of : nullptr;
}

Made as_real(ComplexRewriter& r) {
  const Parts z = r.whole(r.node->args[0]);
  if (fx::Node* pairs = pairs_of(r, z)) return Value(pairs);
  return Value(r.call("aten.stack.default", {Values{z.re, z.im}, -1}));
}

Made as_complex(ComplexRewriter& r) { return r.apart(r.node->args[0]); }

Made of_parts(ComplexRewriter& r) { return Parts{r["real"], r["imag"]}; }
Made of_polar(ComplexRewriter& r) { return r.polar(r["abs"], r["angle"]); }

/// Whether an element is not zero: what it is as a bool.
Value truth(ComplexRewriter& r, const Parts& z) {
  auto nonzero = [&](const Value& part) { return Value(r.call("aten.ne.Scalar", {part, 0})); };
  return z.im.is_none() ? nonzero(z.re) : Value(r.call("aten.logical_or.default", {nonzero(z.re), nonzero(z.im)}));
}

/// An operator that asks of complex tensors only where they are not zero.
Made of_truths(ComplexRewriter& r) {
  Values args = r.node->args;
  for (Value& v : args)
    if (r.is_complex_node(v)) v = truth(r, r.whole(v));
  return Value(r.call(r.node->target, std::move(args)));
}

/// Asks each part alone, and joins the two answers.
Made asked(ComplexRewriter& r, std::string_view join) {
  const Parts z = r.filled(self(r), r.result().sizes, r.part_type());
  return Value(r.call(join, {r.call(r.node->target, {z.re}), r.call(r.node->target, {z.im})}));
}
Made is_in_both(ComplexRewriter& r) { return asked(r, "aten.logical_and.default"); }
Made is_in_either(ComplexRewriter& r) { return asked(r, "aten.logical_or.default"); }
Made is_real(ComplexRewriter& r) {
  return Value(r.call("aten.eq.Scalar", {r.filled(self(r), r.result().sizes, r.part_type()).im, 0}));
}

/// Converts to another complex type, from a real one to complex, to whether it is zero, or to the real part.
Made convert(ComplexRewriter& r) {
  const Parts z = self(r);
  if (is_complex(r.result().dtype)) return z;
  if (r.result().dtype == DType::Bool) return truth(r, r.filled(z, r.result().sizes, r.part_type()));
  Value re = r.filled(z, r.result().sizes, r.part_type()).re;
  return Value(r.call("aten._to_copy.default", {re}, {{"dtype", r.result().dtype}}));
}

Made equal(ComplexRewriter& r) {
  auto known = [](const Value& v) { return v.is<fx::Node*>() ? v.as_node()->meta.value : v; };
  const Value self = known(r["self"]), other = known(r["other"]);
  const DType type = real_type(ops::shapes::result_type({&self, &other}));
  const Parts a = r.parts(r["self"], type), b = r.parts(r["other"], type);
  auto same = [&](const Value& x, const Value& y) {
    if (x.is_none() && y.is_none()) return Value(None{});
    return Value(r.call("aten.eq.Tensor", {x.is_none() ? r.zeros_like(y) : x, y.is_none() ? r.zeros_like(x) : y}));
  };
  const Value re = same(a.re, b.re), im = same(a.im, b.im);
  const Value both = im.is_none() ? re : Value(r.call("aten.logical_and.default", {re, im}));
  return r.node->target.starts_with("aten.ne.") ? Value(r.unary("logical_not", both)) : both;
}

Made choose(ComplexRewriter& r) {
  const Parts a = r.parts(r["self"]), b = r.parts(r["other"]);
  auto part = [&](const Value& x, const Value& y) {
    if (x.is_none() && y.is_none()) return x;
    return Value(r.call("aten.where.self",
                        {r["condition"], x.is_none() ? r.zeros_like(y) : x, y.is_none() ? r.zeros_like(x) : y}));
  };
  return Parts{part(a.re, b.re), part(a.im, b.im)};
}

Made fill_masked(ComplexRewriter& r) {
  const Parts z = r.filled(self(r), r.result().sizes, r.part_type());
  const Parts value = r.parts(r["value"]);
  auto part = [&](const Value& x, const Value& v) {
    return v.is_none() ? r.call("aten.masked_fill.Scalar", {x, r["mask"], 0})
                       : r.call("aten.masked_fill.Tensor", {x, r["mask"], v});
  };
  return Parts{part(z.re, value.re), part(z.im, value.im)};
}

/// A tensor of these sizes, filled with one number.
Made zeros(ComplexRewriter& r) { return r.parts(Value(0.0)); }
Made ones(ComplexRewriter& r) { return r.parts(Value(1.0)); }
Made identity(ComplexRewriter& r) {
  Values args = r.node->args;
  args[r.node->op->schema.index("dtype")] = r.part_type();
  return Parts{r.call(r.node->target, std::move(args)), None{}};
}
Made filled(ComplexRewriter& r) { return r.parts(r["fill_value"]); }
Made filled_in_place(ComplexRewriter& r) { return r.parts(r["value"]); }
Made single(ComplexRewriter& r) { return r.parts(r["s"]); }

/// An operator that is linear in each of two arguments.
Parts bilinear(ComplexRewriter& r, const Parts& a, const Parts& b,
               const std::function<Value(const Value&, const Value&)>& f) {
  auto of = [&](const Value& x, const Value& y) { return x.is_none() || y.is_none() ? Value(None{}) : f(x, y); };
  return {r.minus(of(a.re, b.re), of(a.im, b.im)), r.plus(of(a.re, b.im), of(a.im, b.re))};
}

Made matrices(ComplexRewriter& r) {
  return bilinear(r, r.parts(r.node->args[0]), r.parts(r.node->args[1]),
                  [&](const Value& x, const Value& y) { return Value(r.call(r.node->target, {x, y})); });
}

/// beta * self + alpha * (a @ b)
Made add_product(ComplexRewriter& r) {
  const bool batched = r.node->target.starts_with("aten.baddbmm");
  const char* product = batched ? "aten.bmm.default" : "aten.mm.default";
  const Parts made = bilinear(r, r.parts(r.node->args[1]), r.parts(r.node->args[2]),
                              [&](const Value& x, const Value& y) { return Value(r.call(product, {x, y})); });
  auto scaled = [&](const Parts& z, std::string_view by) {
    return r[by] == Value(1) ? z : r.product(z, r.parts(r[by]));
  };
  if (r["beta"] == Value(0)) return scaled(made, "alpha");
  const Parts a = scaled(self(r), "beta"), b = scaled(made, "alpha");
  return Parts{r.plus(a.re, b.re), r.plus(a.im, b.im)};
}

Made dot_conjugate(ComplexRewriter& r) {
  return bilinear(r, r.conjugate(r.parts(r.node->args[0])), r.parts(r.node->args[1]),
                  [&](const Value& x, const Value& y) { return Value(r.call("aten.dot.default", {x, y})); });
}

Made einsum(ComplexRewriter& r) {
  const Values& all = r["tensors"].as_list();
  auto with = [&](Values operands) {
    return Value(r.call("aten.einsum.default", {r["equation"], std::move(operands)}));
  };
  // Linear in each operand: operands so far are real, those from `next` on are as they come.
  std::function<Parts(Values, std::size_t)> from = [&](Values operands, std::size_t next) -> Parts {
    if (next == all.size()) return {with(std::move(operands)), None{}};
    const Parts z = r.parts(all[next]);
    Values others = operands;
    operands.push_back(z.re);
    const Parts real = from(std::move(operands), next + 1);
    if (z.im.is_none()) return real;
    others.push_back(z.im);
    const Parts turned = from(std::move(others), next + 1);
    return {r.minus(real.re, turned.im), r.plus(real.im, turned.re)};
  };
  return from({}, 0);
}

Made linear(ComplexRewriter& r) {
  Parts made = bilinear(r, r.parts(r["input"]), r.parts(r["weight"]),
                        [&](const Value& x, const Value& w) { return Value(r.call("aten.linear.default", {x, w})); });
  if (!r.has("bias")) return made;
  const Parts bias = r.parts(r["bias"]);
  return Parts{r.plus(made.re, bias.re), r.plus(made.im, bias.im)};
}

Made convolution(ComplexRewriter& r) {
  const std::size_t rank = r.rank(r["input"]), spatial = r.rank(r["weight"]) - 2;
  Parts made = bilinear(r, r.parts(r["input"]), r.parts(r["weight"]), [&](const Value& x, const Value& w) {
    Values args = r.node->args;
    args[0] = x;
    args[1] = w;
    args[2] = None{};
    return Value(r.call(r.node->target, std::move(args)));
  });
  if (!r.has("bias")) return made;
  Exprs sizes(rank - (rank == spatial + 2 ? 1 : 0), 1);
  sizes.front() = r.meta(r["bias"]).sizes[0];
  auto per_channel = [&](const Value& part) { return part.is_none() ? part : r.reshape(part, sizes); };
  const Parts bias = r.parts(r["bias"]);
  return Parts{r.plus(made.re, per_channel(bias.re)), r.plus(made.im, per_channel(bias.im))};
}

Made of_two(ComplexRewriter& r) {
  return bilinear(r, r.parts(r.node->args[0]), r.parts(r.node->args[1]), [&](const Value& x, const Value& y) {
    Values args = r.node->args;
    args[0] = x;
    args[1] = y;
    return Value(r.call(r.node->target, std::move(args)));
  });
}

/// mean((x - mean(x)) conj(x - mean(x))): the sum of the parts' variances.
Value variance_of(ComplexRewriter& r, const std::string& target) {
  auto of = [&](const Value& part) {
    Values args = r.node->args;
    args[0] = part;
    return Value(r.call(target, std::move(args)));
  };
  const Parts z = r.whole(r.node->args[0]);
  return r.add(of(z.re), of(z.im));
}
Made variance(ComplexRewriter& r) { return variance_of(r, r.node->target); }
Made deviation(ComplexRewriter& r) {
  return Value(
      r.unary("sqrt", variance_of(r, "aten.var" + r.node->target.substr(std::string_view("aten.std").size()))));
}

/// The variance or the deviation, after which come the means.
Made with_means(ComplexRewriter& r) {
  const std::string& target = r.node->target;
  const std::string_view overload = std::string_view(target).substr(target.rfind('.'));
  const bool over_all = overload == ".default";
  Value spread = variance_of(r, "aten.var" + std::string(overload));
  if (target.starts_with("aten.std_mean")) spread = r.unary("sqrt", spread);
  const Parts means = on_both(r.whole(r.node->args[0]), [&](const Value& part) {
    return Value(over_all ? r.call("aten.mean.default", {part})
                          : r.call("aten.mean.dim", {part, r["dim"], r.flag("keepdim")}));
  });
  return std::vector<Parts>{{spread, None{}}, means};
}

Made norm(ComplexRewriter& r) {
  Values args = r.node->args;
  args[0] = r.magnitude(self(r));
  return Value(r.call(r.node->target, std::move(args)));
}

}  // namespace

void add_complex_arithmetic(ComplexRules& t) {
  t["aten.add.Tensor"] = t["aten.add.Scalar"] = add;
  t["aten.sub.Tensor"] = t["aten.sub.Scalar"] = t["aten.subtract.Tensor"] = subtract;
  t["aten.rsub.Scalar"] = t["aten.rsub.Tensor"] = subtract_reversed;
  t["aten.mul.Tensor"] = t["aten.mul.Scalar"] = t["aten.multiply.Tensor"] = multiply;
  t["aten.div.Tensor"] = t["aten.div.Scalar"] = t["aten.divide.Tensor"] = t["aten.true_divide.Tensor"] = divide;
  t["aten.reciprocal.default"] = reciprocal;
  t["aten.neg.default"] = t["aten.negative.default"] = negative;
  t["aten.square.default"] = square;
  t["aten.abs.default"] = t["aten.absolute.default"] = absolute;
  t["aten.angle.default"] = angle;
  t["aten.sgn.default"] = sign;
  t["aten.real.default"] = real_part;
  t["aten.imag.default"] = imaginary_part;
  t["aten.conj.default"] = t["aten._conj.default"] = t["aten.conj_physical.default"] =
      t["aten._conj_physical.default"] = conjugate;
  for (std::string_view name : {"aten.resolve_conj.default", "aten.resolve_neg.default", "aten.positive.default",
                                "aten.clone.default", "aten.contiguous.default", "aten.alias.default",
                                "aten.detach.default", "aten.lift_fresh_copy.default", "aten.detach_.default"})
    t[name] = itself;
  for (std::string_view name : {"aten.logical_not.default", "aten.logical_and.default", "aten.logical_or.default",
                                "aten.logical_xor.default", "aten.any.default", "aten.any.dim", "aten.any.dims",
                                "aten.all.default", "aten.all.dim", "aten.all.dims", "aten.count_nonzero.default",
                                "aten.count_nonzero.dim_IntList", "aten.nonzero.default", "aten.argwhere.default"})
    t[name] = of_truths;
  t["aten.isnan.default"] = t["aten.isinf.default"] = is_in_either;
  t["aten.isfinite.default"] = is_in_both;
  t["aten.isreal.default"] = is_real;
  for (std::string_view name : {"aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device",
                                "aten.to.other", "aten.type_as.default"})
    t[name] = convert;
  t["aten.view_as_real.default"] = as_real;
  t["aten.view_as_complex.default"] = as_complex;
  t["aten.complex.default"] = of_parts;
  t["aten.polar.default"] = of_polar;
  t["aten.eq.Tensor"] = t["aten.eq.Scalar"] = t["aten.ne.Tensor"] = t["aten.ne.Scalar"] = equal;
  for (std::string_view name : {"aten.mH.default", "aten.adjoint.default", "aten.matrix_H.default"}) t[name] = adjoint;
  t["aten.where.self"] = t["aten.where.ScalarSelf"] = t["aten.where.ScalarOther"] = t["aten.where.Scalar"] = choose;
  t["aten.masked_fill.Scalar"] = fill_masked;
  t["aten.zeros_like.default"] = t["aten.zeros.default"] = t["aten.new_zeros.default"] = t["aten.zero.default"] =
      t["aten.empty_like.default"] = t["aten.empty.memory_format"] = zeros;
  t["aten.ones_like.default"] = t["aten.ones.default"] = t["aten.new_ones.default"] = ones;
  t["aten.eye.default"] = t["aten.eye.m"] = identity;
  t["aten.full.default"] = t["aten.full_like.default"] = t["aten.new_full.default"] = filled;
  t["aten.fill.Scalar"] = t["aten.fill.Tensor"] = filled_in_place;
  t["aten.scalar_tensor.default"] = single;
  for (std::string_view name : {"aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default",
                                "aten.dot.default", "aten.outer.default", "aten.kron.default", "aten.inner.default"})
    t[name] = matrices;
  t["aten.addmm.default"] = t["aten.baddbmm.default"] = add_product;
  t["aten.vdot.default"] = dot_conjugate;
  t["aten.linear.default"] = linear;
  for (std::string_view name :
       {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", "aten.conv1d.padding",
        "aten.conv2d.padding", "aten.conv3d.padding", "aten.conv_transpose1d.default", "aten.conv_transpose2d.input",
        "aten.conv_transpose3d.input", "aten.convolution.default"})
    t[name] = convolution;
  for (std::string_view name : {"aten.tensordot.default", "aten.cross.default", "aten.linalg_cross.default"})
    t[name] = of_two;
  for (std::string_view name : {"aten.var.default", "aten.var.dim", "aten.var.correction"}) t[name] = variance;
  for (std::string_view name : {"aten.var_mean.default", "aten.var_mean.dim", "aten.var_mean.correction",
                                "aten.std_mean.default", "aten.std_mean.dim", "aten.std_mean.correction"})
    t[name] = with_means;
  for (std::string_view name : {"aten.std.default", "aten.std.dim", "aten.std.correction"}) t[name] = deviation;
  t["aten.einsum.default"] = einsum;
  for (std::string_view name : {"aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.linalg_vector_norm.default"})
    t[name] = norm;
}

}  // namespace coil::passes
