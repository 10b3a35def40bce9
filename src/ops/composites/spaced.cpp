// Numbers evenly spaced, and differences over them: linspace between tensors, logspace, gradient. Masked indices,
// _chunk_cat.
#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

/// A number or a tensor without dimensions as such a tensor.
Value number_of(Steps& s, const Value& v, DType type) {
  if (!s.is_tensor(v)) return s.full({}, v, type);
  if (s.rank(v) != 0) s.refuse("takes ends without dimensions");
  return s.to(v, type);
}

/// `steps` numbers from one end to the other, counted from both to the middle, as eager does; integers from the whole
/// part of one to that of the other.
Value spaced_between(Steps& s, DType type, bool whole) {
  auto end_of = [&](const char* name) {
    const Value v = number_of(s, s[name], type);
    return whole ? s.unary("trunc", v) : v;
  };
  const Value start = end_of("start"), end = end_of("end");
  const Expr steps = s.integer(s["steps"]);
  if (steps.is_constant(1)) return s.reshape(start, {1});
  if (steps.is_constant(0)) return s.full({0}, 0, type);
  const Value step = s.div(s.sub(end, start), s.full({}, s.env.simplify(steps - 1), type));
  const Value place = s.iota(steps), left = s.to(place, type),
              right = s.to(s.sub(s.full({}, s.env.simplify(steps - 1), DType::I64), place), type);
  const Value first_half =
      s.call("aten.lt.Tensor", {place, s.full({}, s.env.simplify(sym::floor_div(steps, 2)), DType::I64)});
  return s.where(first_half, s.add(start, s.mul(step, left)), s.sub(end, s.mul(step, right)));
}

DType asked_type(Steps& s) { return s.has("dtype") ? s["dtype"].as_dtype() : DType::F32; }
DType computed_in(DType type) { return is_floating(type) ? type : DType::F64; }

Value linspace(Steps& s) {
  const DType type = asked_type(s);
  return s.to(spaced_between(s, computed_in(type), !is_floating(type)), type);
}

Value logspace(Steps& s) {
  const DType type = asked_type(s);
  return s.to(s.call("aten.pow.Scalar", {s.real("base"), spaced_between(s, computed_in(type), !is_floating(type))}),
              type);
}

/// Along one dimension over points `spacing` apart, a number, or at coordinates: differences of neighbours on both
/// sides, of one or two at the ends.
Value gradient_along(Steps& s, const Value& x, std::int64_t dim, const Value& spacing, std::int64_t edge_order) {
  const Expr n = s.size(x, dim);
  auto part = [&](const Expr& begin, const Expr& end) { return s.slice(x, dim, begin, s.env.simplify(end)); };
  auto first = [&](std::int64_t i) { return part(i, i + 1); };
  auto last = [&](std::int64_t i) { return part(s.env.simplify(n - i - 1), n - i); };
  auto scaled = [&](const Value& v, double by) { return s.call("aten.mul.Scalar", {v, by}); };
  if (spacing.is<double>() || spacing.is<Expr>()) {
    const Value middle = scaled(s.sub(part(2, n), part(0, n - 2)), 0.5);
    auto edge = [&](const Value& a, const Value& b, const Value& c, double sign) {
      if (edge_order == 1) return scaled(s.sub(b, a), sign);
      return scaled(s.sub(s.sub(scaled(b, 2), scaled(a, 1.5)), scaled(c, 0.5)), sign);
    };
    const Value begin = edge(first(0), first(1), edge_order == 1 ? first(0) : first(2), 1),
                end = edge(last(0), last(1), edge_order == 1 ? last(0) : last(2), -1);
    return s.call("aten.div.Scalar", {s.cat({begin, middle, end}, dim), spacing});
  }
  // Weights of three neighbours that lie p and q apart.
  const Value gaps = s.sub(s.slice(spacing, 0, 1, n), s.slice(spacing, 0, 0, s.env.simplify(n - 1)));
  Exprs shape(s.rank(x), 1);
  auto along = [&](const Value& v) {
    shape[static_cast<std::size_t>(dim)] = s.size(v, 0);
    return s.reshape(v, shape);
  };
  auto gap = [&](const Expr& begin, const Expr& end) {
    return along(s.slice(gaps, 0, s.env.simplify(begin), s.env.simplify(end)));
  };
  const Value p = gap(0, n - 2), q = gap(1, n - 1);
  auto weighted = [&](const Value& a, const Value& b, const Value& c, const Value& x0, const Value& x1,
                      const Value& x2) { return s.add(s.add(s.mul(a, x0), s.mul(b, x1)), s.mul(c, x2)); };
  const Value middle = weighted(s.unary("neg", s.div(q, s.mul(p, s.add(p, q)))), s.div(s.sub(q, p), s.mul(p, q)),
                                s.div(p, s.mul(q, s.add(p, q))), part(0, n - 2), part(1, n - 1), part(2, n));
  if (edge_order == 1)
    return s.cat(
        {s.div(s.sub(first(1), first(0)), gap(0, 1)), middle, s.div(s.sub(last(0), last(1)), gap(n - 2, n - 1))}, dim);
  auto edge = [&](const Value& near, const Value& far, const Value& x0, const Value& x1, const Value& x2) {
    const Value both = s.add(near, far);
    return weighted(s.unary("neg", s.div(s.add(near, both), s.mul(near, both))), s.div(both, s.mul(near, far)),
                    s.unary("neg", s.div(near, s.mul(far, both))), x0, x1, x2);
  };
  const Value begin = edge(gap(0, 1), gap(1, 2), first(0), first(1), first(2)),
              end = s.unary("neg", edge(gap(n - 2, n - 1), gap(n - 3, n - 2), last(0), last(1), last(2)));
  return s.cat({begin, middle, end}, dim);
}

Value gradient(Steps& s) {
  Value x = s["self"];
  if (!is_floating(s.dtype(x))) x = s.to(x, DType::F32);
  const std::int64_t order = s.number("edge_order");
  if (order != 1 && order != 2) s.refuse("takes an edge order of 1 or 2");
  std::vector<std::int64_t> dims = s.numbers("dim");
  if (dims.empty())
    for (std::size_t d = 0; d < s.rank(x); ++d) dims.push_back(static_cast<std::int64_t>(d));
  Values made;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Value spacing = 1;
    if (s.takes("spacing") && s.has("spacing")) {
      const auto* list = s["spacing"].get_if<Values>();
      if (list && list->size() != dims.size()) s.refuse("takes a spacing for each dimension");
      spacing = list ? (*list)[i] : s["spacing"];
    }
    const std::int64_t dim = s.wrapped(dims[i], s.rank(x));
    if (s.env.statically_known_true(sym::le(s.size(x, dim), order)))
      s.refuse("takes more elements along a dimension than its edge order");
    made.push_back(gradient_along(s, x, dim, spacing, order));
  }
  return made;
}

/// Tensors cut into as many chunks along a dimension, each flattened from there on and filled up with zeros, joined
/// chunk by chunk.
Value chunk_cat(Steps& s) {
  const Values& tensors = s["tensors"].as_list();
  const std::int64_t chunks = s.number("num_chunks");
  if (tensors.empty() || chunks < 1) s.refuse("takes tensors and a positive number of chunks");
  const std::int64_t dim = s.wrapped(s.number("dim"), s.rank(tensors[0]));
  Values parts;
  for (const Value& x : tensors) {
    const Expr n = s.size(x, dim), each = s.env.simplify(sym::floor_div(n + chunks - 1, chunks));
    Exprs pad(2 * (s.rank(x) - static_cast<std::size_t>(dim)), 0);
    pad.back() = s.env.simplify(each * chunks - n);
    const Value filled = pad.back().is_constant(0) ? x : s.call("aten.constant_pad_nd.default", {x, pad, 0});
    Exprs sizes(s.sizes(x).begin(), s.sizes(x).begin() + dim);
    Expr rest = each;
    for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < s.rank(x); ++d) rest = rest * s.sizes(x)[d];
    sizes.insert(sizes.end(), {chunks, s.env.simplify(rest)});
    parts.push_back(s.reshape(filled, sizes));
  }
  return s.cat(std::move(parts), dim + 1);
}

/// Indices that may lie outside where the mask is false: moved to the border there.
Values inside(Steps& s) {
  Values made;
  const Values& indices = s["indices"].as_list();
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Expr n = s.sizes(s["self"])[d];
    made.push_back(indices[d].is_none()
                       ? indices[d]
                       : s.call("aten.clamp.default", {indices[d], s.env.simplify(-n), s.env.simplify(n - 1)}));
  }
  return made;
}

Value masked_index(Steps& s) {
  const Value taken = s.call("aten.index.Tensor", {s["self"], inside(s)});
  return s.call("aten.masked_fill.Scalar", {taken, s.unary("logical_not", s["mask"]), s["fill"]});
}

Value masked_index_put(Steps& s) {
  const Value kept = s.call("aten.masked_fill.Scalar", {s["values"], s.unary("logical_not", s["mask"]), 0});
  return s.call("aten.index_put.default", {s["self"], inside(s), kept, true});
}

constexpr Composite kSpaced[] = {
    {"aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     linspace},
    {"aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     logspace},
    {"aten::gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
     gradient},
    {"aten::gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]", gradient},
    {"aten::gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]", gradient},
    {"aten::gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
     gradient},
    {"aten::gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
     gradient},
    {"aten::gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
     gradient},
    {"aten::gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]", gradient},
    {"aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", chunk_cat},
    {"aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", masked_index},
    {"aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
     masked_index_put},
};

}  // namespace

std::span<const Composite> spaced() { return kSpaced; }

}  // namespace coil::ops::composites
